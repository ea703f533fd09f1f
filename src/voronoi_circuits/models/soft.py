"""The paper's second mode of inference: soft gates at a finite inverse temperature.

# B rows, D variables, n draws
"""

from __future__ import annotations

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from voronoi_circuits.models.base import Exactness, Interval, Kind, Model, NotExactError
from voronoi_circuits.models.experts import ExpertDraws
from voronoi_circuits.models.rejection import rejection


class SampledPartition(NamedTuple):
    """An estimate of Z and its standard error: no bound, and never shown as one."""

    value: float
    error: float


class Softenable(Protocol):
    """What a gated model gives to be softened."""

    n_variables: int

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor: ...

    def draw_ungated(self, n: int, alpha: float, generator: torch.Generator | None) -> ExpertDraws: ...

    def soft_weights(self, drawn: ExpertDraws, alpha: float) -> Tensor: ...


class SoftModel(Model):
    """f(x; α) = Σ_k w_k(x; α) π_k p_k(x): smooth, unnormalised, Z <= 1 proven and its value sampled.

    Since w_k <= 1, f is at most the ungated mixture, so Z <= 1 and log f is a proven lower bound of the log density.
    """

    def __init__(self, model: Model, alpha: float) -> None:
        if not (alpha > 0 and math.isfinite(alpha)):
            raise ValueError(f"alpha must be a positive number, not {alpha}: larger values make harder gates")
        super().__init__(model.n_variables)
        self.hard = model
        self.domain = model.domain
        self.alpha = float(alpha)

    @property
    def _gated(self) -> Softenable:
        model = self.hard
        assert hasattr(model, "soft_weights")
        return model  # pyright: ignore[reportReturnType]

    @property
    def exactness(self) -> Exactness:
        """Sampled: the soft gates' integrals have no closed form."""
        return Exactness(Kind.SAMPLED, (f"soft gates at alpha = {self.alpha:g}: Z <= 1 is proven, its value is sampled",))

    def log_unnormalized(self, x: Tensor) -> Tensor:
        """log f(x; α)."""
        self.check_rows(x, missing=False)
        low, high = self.domain_sides(x)
        outside = ((x < low) | (x > high)).any(-1)
        return torch.where(outside, -torch.inf, self._gated.soft_log(x, self.alpha))

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log f(x; α) at another α."""
        return self._gated.soft_log(x, alpha)

    def log_prob(self, x: Tensor) -> Tensor:
        """Refused: Z is only sampled."""
        raise NotExactError(
            "a soft model is unnormalised: use log_unnormalized(x), a proven lower bound of log p since Z <= 1, "
            "or subtract the log of partition(n).value, an estimate"
        )

    def log_prob_bounds(self, x: Tensor, certificate: Interval | None = None) -> tuple[Tensor, Tensor]:
        """log f from below (Z <= 1), nothing from above."""
        with torch.no_grad():
            value = self.log_unnormalized(x.double())
        return value, torch.full_like(value, torch.inf)

    def partition(self, n: int = 100_000, generator: torch.Generator | None = None) -> SampledPartition:
        """Z estimated from n draws of the ungated mixture: the mean of the gates along each draw's path."""
        with torch.no_grad():
            weights = self._gated.soft_weights(self._gated.draw_ungated(n, self.alpha, generator), self.alpha).exp()
        return SampledPartition(float(weights.mean()), float(weights.std() / math.sqrt(n)))

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n exact draws: a draw of the ungated mixture is kept with the probability that its gates give."""

        def attempt(m: int) -> tuple[Tensor, Tensor]:
            drawn = self._gated.draw_ungated(m, self.alpha, generator)
            chance = self._gated.soft_weights(drawn, self.alpha).exp()
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
