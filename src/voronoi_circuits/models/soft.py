"""The paper's second mode of inference: soft gates at a finite inverse temperature.

# B rows, D variables, n draws
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from voronoi_circuits.circuits.questions import Gates, Question
from voronoi_circuits.models.base import BoxLike, Exactness, Interval, Kind, Model, NotExactError
from voronoi_circuits.models.experts import ExpertDraws, Experts
from voronoi_circuits.models.rejection import rejection


class SampledPartition(NamedTuple):
    """An estimate of Z and its standard error: no bound, and never shown as one."""

    value: float
    error: float


class GatedModel(Model):
    """A model whose gates can be softened: a gate weighs the draws of what is left without it."""

    experts: Experts

    @abstractmethod
    def open_gates(self, alpha: float) -> Gates:
        """What is left of the gates at α once every weight w_k(x; α) is replaced by 1: a normalised model."""

    @abstractmethod
    def soft_weights(self, drawn: ExpertDraws, alpha: float) -> Tensor:
        """log of the product of the soft gates w_k(x; α) along each draw's path, (n,)."""

    def soften(self, alpha: float) -> SoftModel:
        """The paper's second mode of inference: soft gates at inverse temperature α, unnormalised."""
        return SoftModel(self, alpha)


class SoftModel(Model):
    """f(x; α) = Σ_k w_k(x; α) π_k p_k(x): smooth, unnormalised, Z <= 1 proven and its value sampled.

    Since w_k <= 1, f is at most the ungated mixture, so Z <= 1 and log f is a lower bound of the log density,
    up to rounding: the bound contract does not cover soft gates.
    """

    def __init__(self, model: GatedModel, alpha: float) -> None:
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ValueError(f"alpha must be a positive number, not {alpha}: larger values make harder gates")
        super().__init__(model.n_variables)
        self.hard = model
        self.domain = model.domain
        self.alpha = float(alpha)

    @property
    def exactness(self) -> Exactness:
        """Sampled: the soft gates' integrals have no closed form."""
        reason = f"soft gates at alpha = {self.alpha:g}: Z <= 1 is proven, its value is sampled"
        return Exactness(Kind.SAMPLED, (reason,))

    def truncate(self, box: BoxLike) -> SoftModel:
        """The truncated hard model, softened."""
        return SoftModel(self.hard.truncate(box), self.alpha)

    def soften(self, alpha: float) -> SoftModel:
        """The same hard model at another α."""
        return SoftModel(self.hard, alpha)

    def log_unnormalized(self, x: Tensor) -> Tensor:
        """log f(x; α)."""
        return self.inside(self.check_rows(x, missing=False), self.hard.soft_log(x, self.alpha))

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log f(x; α) at another α."""
        return self.hard.soft_log(x, alpha)

    def log_prob(self, x: Tensor) -> Tensor:
        """Refused: Z is only sampled."""
        raise NotExactError(
            "a soft model is unnormalised: use log_unnormalized(x), a proven lower bound of log p as Z <= 1, "
            "or subtract the log of partition(n).value, an estimate"
        )

    def log_marginal(self, x: Tensor) -> Tensor:
        """Refused: Z is only sampled."""
        raise NotExactError(
            "a soft model is unnormalised and has no marginals: ask the hard model it softens"
        )

    def log_conditional(self, x: Tensor, given: Sequence[int]) -> Tensor:
        """Refused: soft gates do not integrate."""
        raise NotExactError("a soft model has no conditionals: ask the hard model it softens")

    def probability(self, box: BoxLike, given: Tensor | None = None) -> Tensor:
        """Refused: Z is only sampled."""
        raise NotExactError(
            "a soft model is unnormalised and has no probabilities: ask the hard model it softens"
        )

    def holds_mass(self) -> bool:
        """Whether the hard model has any mass in the domain."""
        return self.hard.holds_mass()

    def log_prob_bounds(self, x: Tensor, certificate: Interval | None = None) -> tuple[Tensor, Tensor]:
        """log f from below (Z <= 1), nothing from above."""
        with torch.no_grad():
            value = self.log_unnormalized(x.double())
        return value, torch.full_like(value, torch.inf)

    def partition(self, n: int = 100_000, generator: torch.Generator | None = None) -> SampledPartition:
        """Z = P(domain) E[w], from n draws of the ungated model in the domain, w the gates on their way."""
        with torch.no_grad():
            weights = self.hard.soft_weights(self._draw(n, generator), self.alpha).exp()
            mass = self.hard.experts.total(Question(*self.whole()), self.hard.open_gates(self.alpha)).exp()
        return SampledPartition(float(mass * weights.mean()), float(mass * weights.std()) / math.sqrt(n))

    def _draw(self, n: int, generator: torch.Generator | None) -> ExpertDraws:
        """Draws of the ungated model within the domain."""
        gates = self.hard.open_gates(self.alpha)
        return self.hard.experts.draw(n, Question(*self.whole()), gates=gates, generator=generator)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n exact draws: a draw of the ungated model is kept with the probability that its gates give."""

        def attempt(m: int) -> tuple[Tensor, Tensor]:
            drawn = self._draw(m, generator)
            chance = self.hard.soft_weights(drawn, self.alpha).exp()
            return drawn.rows, torch.rand(m, generator=generator, dtype=torch.float64) < chance

        return rejection(attempt, n, "the soft model").rows

    def ungated(self) -> Model:
        """The ungated model of the same experts."""
        return self.hard.ungated()

    @property
    def n_cells(self) -> int:
        """The cells of the hard model."""
        return self.hard.n_cells

    def responsibilities(self, x: Tensor) -> Tensor:
        """Those of the hard model."""
        return self.hard.responsibilities(x)
