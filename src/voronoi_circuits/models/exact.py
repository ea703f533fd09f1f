"""Models whose integrals are exact: one pass answers density, marginal and box mass, a ratio of two the rest.

# B rows, D variables, K experts
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.models.base import (
    BoxLike,
    Exactness,
    Interval,
    Kind,
    Model,
    as_box,
    count_of,
    evidence_of,
    in_chunks,
)
from voronoi_circuits.models.experts import Experts


class ExactModel(Model):
    """A model that integrates f exactly: subclasses give ``log_integral`` and ``draw_given``."""

    @abstractmethod
    def log_integral(self, question: Question) -> Tensor:
        """log of f at the points of the question, integrated over its intervals, (B,)."""

    @abstractmethod
    def draw_given(self, question: Question, evidence: Tensor, generator: torch.Generator | None) -> Tensor:
        """Draws given rows of the question: (n,) positions -> (n, D)."""

    def ask(self, x: Tensor | None, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
        """log ∫ f over ``[low, high]`` within the domain, at the points ``x``."""
        return self.log_integral(self.within(x, low, high))

    def within(self, x: Tensor | None, low: Tensor | None = None, high: Tensor | None = None) -> Question:
        """The question with its intervals met with the domain."""
        if self.domain is not None:
            like = x if x is not None else low
            assert like is not None
            left, right = self.domain_sides(like)
            low = left.expand_as(like) if low is None else torch.maximum(low, left)
            high = right.expand_as(like) if high is None else torch.minimum(high, right)
        if x is None:
            return Question(None, low, high)
        return Question(x, low, high, complete=not bool(torch.isnan(x).any()))

    def log_partition(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """log Z, exact and differentiable: a 0-d tensor."""
        everything = Question.everything(self.n_variables, dtype)
        return self.ask(everything.x)[0]

    def log_unnormalized(self, x: Tensor) -> Tensor:
        """log f(x); -inf outside the domain."""
        return self.inside(self.check_rows(x, missing=False), self.ask(x))

    def log_prob(self, x: Tensor) -> Tensor:
        """log p(x) = log f(x) - log Z."""
        return self.log_unnormalized(x) - self.log_partition(x.dtype)

    def log_marginal(self, x: Tensor) -> Tensor:
        """log p of the variables that are not NaN."""
        self.check_rows(x, missing=True)
        return self.inside(x, self.ask(x)) - self.log_partition(x.dtype)

    def log_conditional(self, x: Tensor, given: Sequence[int]) -> Tensor:
        """log p(the other variables of the row that are not NaN | the variables ``given``)."""
        self.check_rows(x, missing=True)
        below = _supported(self.log_marginal(evidence_of(x, given)))
        return self.log_marginal(x) - below

    def probability(self, box: BoxLike, given: Tensor | None = None) -> Tensor:
        """P(box), (1,); or P(box | the variables of ``given`` that are not NaN), one number a row."""
        asked = as_box(box, self.n_variables)
        x = torch.full((1, self.n_variables), torch.nan, dtype=torch.float64) if given is None else given
        self.check_rows(x, missing=True)
        check_overlap(asked.low, asked.high, x)
        low, high = asked.low.to(x).expand_as(x), asked.high.to(x).expand_as(x)
        below = _supported(self.inside(x, self.ask(x)))
        return (self.ask(x, low, high) - below).exp()

    def log_prob_bounds(self, x: Tensor, certificate: Interval | None = None) -> tuple[Tensor, Tensor]:
        """The exact float64 log density, twice."""

        def twice(rows: Tensor) -> tuple[Tensor, Tensor]:
            exact = self.log_prob(rows.double())
            return exact, exact

        return in_chunks(twice, self.check_rows(x, missing=False))

    def holds_mass(self) -> bool:
        """Whether the domain has any mass."""
        return bool(self.log_partition() > -torch.inf)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n draws, (n, D)."""
        everything = self.within(Question.everything(self.n_variables).x)
        return self.draw_given(everything, torch.zeros(count_of(n), dtype=torch.long), generator)

    def sample_given(self, x: Tensor, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """n draws of the missing variables of each row: (B, D) -> (B, n, D)."""
        question = self.within(self.check_evidence(x).double())
        positions = torch.arange(len(x)).repeat_interleave(count_of(n))
        return self.draw_given(question, positions, generator).unflatten(0, (len(x), n))


def _supported(log_evidence: Tensor) -> Tensor:
    """The log density of evidence, refused where it vanishes: nothing follows from what cannot happen."""
    impossible = torch.nonzero(log_evidence == -torch.inf).flatten()
    if len(impossible):
        raise ValueError(f"row {int(impossible[0])} of the evidence has no probability under the model")
    return log_evidence


def check_overlap(low: Tensor, high: Tensor, x: Tensor) -> None:
    """Refuses evidence on a variable that the box already restricts."""
    restricted = torch.isfinite(low) | torch.isfinite(high)
    both = torch.nonzero(restricted & ~torch.isnan(x).all(0)).flatten()
    if len(both):
        raise ValueError(
            f"variable {int(both[0])} is given as evidence and restricted by the box: leave it out of one"
        )


class MixtureModel(ExactModel):
    """Σ_k π_k p_k(x), the ungated mixture of K experts; a plain circuit is the mixture of one."""

    def __init__(self, circuit: FoldedCircuit) -> None:
        super().__init__(circuit.graph.n_variables)
        self.experts = Experts(circuit)

    @property
    def exactness(self) -> Exactness:
        """Exact: a smooth, decomposable circuit with constant weights."""
        return Exactness(Kind.EXACT, ("root: no gate, so integrals factor through sums and products",))

    def log_integral(self, question: Question) -> Tensor:
        """One pass: log Σ_k π_k ∫ p_k."""
        return self.experts.total(question)

    def log_partition(self, dtype: torch.dtype = torch.float64) -> Tensor:
        """log Z: 0 on all of R^D, the log mass of the domain otherwise."""
        return torch.zeros((), dtype=dtype) if self.domain is None else super().log_partition(dtype)

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log p(x): there is no gate to soften."""
        return self.experts.total(Question(x, complete=True))

    def draw_given(self, question: Question, evidence: Tensor, generator: torch.Generator | None) -> Tensor:
        """Ancestral sampling."""
        return self.experts.draw(len(evidence), question, evidence=evidence, generator=generator).rows

    def ungated(self) -> MixtureModel:
        """Itself."""
        return self

    @property
    def n_cells(self) -> int:
        """Components."""
        return self.experts.count

    def responsibilities(self, x: Tensor) -> Tensor:
        """π_k p_k(x) / Σ_j π_j p_j(x); π_k where no component gives the row any density."""
        weights = self.experts.log_weights(x.dtype).unsqueeze(1)
        scores = self.experts.values(Question.density(x)) + weights
        nowhere = (scores == -torch.inf).all(0)
        return torch.softmax(torch.where(nowhere, weights, scores).T, 1)


class CircuitModel(MixtureModel):
    """A plain circuit: one expert."""
