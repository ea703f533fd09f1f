"""What every model answers.

# B rows, D variables; rows in, one number a row out, in nats; NaN is a missing variable
"""

from __future__ import annotations

import copy
import enum
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry.boxes import Box

ROWS = 8192
"""Rows whose bounds are evaluated together."""

REACH = 1e140
"""The largest number a row may hold where a bound is asked for."""

BoxLike = Box | Mapping[int, tuple[float, float]]


class Kind(enum.Enum):
    """How a model's normalising constant is known."""

    EXACT = "exact"
    CERTIFIED = "certified"
    SAMPLED = "sampled"


@dataclass(frozen=True)
class Exactness:
    """How a model's normalising constant is known, and why, region by region."""

    kind: Kind
    reasons: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind.value}: " + "; ".join(self.reasons)


class Interval(Protocol):
    """Bounds of log Z: all that a model asks of a certificate."""

    @property
    def lower(self) -> float: ...

    @property
    def upper(self) -> float: ...


class NotExactError(ValueError):
    """An exact number was asked of a model that has bounds only."""


class Model(nn.Module, ABC):
    """A density f(x) / Z over D variables, restricted to ``domain`` (all of R^D unless truncated)."""

    def __init__(self, n_variables: int) -> None:
        super().__init__()
        self.n_variables = n_variables
        self.domain: Box | None = None

    @property
    @abstractmethod
    def exactness(self) -> Exactness:
        """Whether Z is exact, certified or only sampled: read off the structure."""

    @abstractmethod
    def log_unnormalized(self, x: Tensor) -> Tensor:
        """log f(x), (B,), for complete rows, in their dtype."""

    @abstractmethod
    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log f(x; α) with soft gates, (B,): what training maximises."""

    @abstractmethod
    def log_prob_bounds(self, x: Tensor, certificate: Interval | None = None) -> tuple[Tensor, Tensor]:
        """Lower and upper bounds of the log density, (B,) each, in float64."""

    @abstractmethod
    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n draws, (n, D) float64."""

    @abstractmethod
    def ungated(self) -> Model:
        """The normalised model of the same experts and root weights; itself where there is no gate."""

    def soften(self, alpha: float) -> Model:
        """The model with soft gates at inverse temperature α; itself where there is no gate."""
        return self

    @property
    @abstractmethod
    def n_cells(self) -> int:
        """How many cells (or components) a row can be assigned to."""

    @abstractmethod
    def responsibilities(self, x: Tensor) -> Tensor:
        """The probability of each cell (or component) given the row, (B, n_cells)."""

    @property
    def n_parameters(self) -> int:
        """Free parameters, a softmax over n weights counted as n."""
        return sum(p.numel() for p in self.parameters())

    def truncate(self, box: BoxLike) -> Self:
        """The model restricted to a box: a model of its own, on the same parameters."""
        twin = copy.copy(self)
        asked = as_box(box, self.n_variables)
        met = asked if self.domain is None else self.domain.intersect(asked)
        if met is None:
            raise ValueError("the box does not meet the domain the model is truncated to: choose another")
        twin.domain = met
        if not twin.holds_mass():
            raise ValueError(
                "the box holds no mass of the model: widen its sides, or move it to where rows lie"
            )
        return twin

    @abstractmethod
    def holds_mass(self) -> bool:
        """Whether the ungated model has any mass in the domain."""

    def domain_sides(self, like: Tensor) -> tuple[Tensor, Tensor]:
        """The domain's sides (D,), infinite where it is all of R^D."""
        if self.domain is None:
            side = like.new_full((self.n_variables,), torch.inf)
            return -side, side
        return self.domain.low.to(like), self.domain.high.to(like)

    def outside(self, x: Tensor) -> Tensor:
        """Which rows hold a number that lies outside the domain, (B,); NaN lies nowhere."""
        low, high = self.domain_sides(x)
        return ((x < low) | (x > high)).any(-1)

    def inside(self, x: Tensor, values: Tensor) -> Tensor:
        """Log values of f at rows (B,): -inf where the row lies outside the domain."""
        return values if self.domain is None else torch.where(self.outside(x), -torch.inf, values)

    def whole(self) -> tuple[Tensor, Tensor, Tensor]:
        """The row that gives nothing and the sides of the domain, (1, D) each in float64: what Z asks."""
        x = torch.full((1, self.n_variables), torch.nan, dtype=torch.float64)
        low, high = self.domain_sides(x)
        return x, low.expand_as(x), high.expand_as(x)

    def check_rows(self, x: Tensor, *, missing: bool) -> Tensor:
        """The rows, refused where they are not (B, D) floats, or hold NaN where none may be."""
        if not torch.is_tensor(x):
            raise ValueError(f"rows must be a tensor, not {type(x).__name__}: use torch.as_tensor(rows)")
        if x.dim() != 2 or x.shape[1] != self.n_variables:
            shape = tuple(x.shape)
            raise ValueError(f"rows must be (n, {self.n_variables}), not {shape}: reshape them")
        if not x.is_floating_point():
            raise ValueError(f"rows must be floating point, not {x.dtype}: call .float() or .double() first")
        if not missing and bool(torch.isnan(x).any()):
            column = int(torch.isnan(x).any(0).nonzero()[0])
            raise ValueError(
                f"column {column} has missing values (NaN): ask for log_marginal, or marginal_bounds"
            )
        if bool(torch.isinf(x).any()):
            column = int(torch.isinf(x).any(0).nonzero()[0])
            raise ValueError(f"column {column} has infinite values: replace or remove them")
        return x

    def check_evidence(self, x: Tensor) -> Tensor:
        """The rows, refused where a number lies outside the domain."""
        outside = torch.nonzero(self.outside(self.check_rows(x, missing=True))).flatten()
        if len(outside):
            raise ValueError(
                f"row {int(outside[0])} of the evidence has no probability here: it lies outside the domain"
            )
        return x


def as_box(box: BoxLike, n_variables: int) -> Box:
    """A box of all variables: as given, or the whole line on every variable that a mapping leaves out.

    >>> as_box({1: (0.0, 1.0)}, 2).low.tolist()
    [-inf, 0.0]
    """
    if isinstance(box, Box):
        if len(box.low) != n_variables:
            raise ValueError(f"the box has {len(box.low)} sides and the model {n_variables} variables")
        return box
    low = torch.full((n_variables,), -torch.inf, dtype=torch.float64)
    high = -low
    for variable, (left, right) in box.items():
        if not 0 <= variable < n_variables:
            raise ValueError(f"the box names variable {variable}; the model has 0 to {n_variables - 1}")
        low[variable], high[variable] = left, right
    return Box(low, high)


def evidence_of(x: Tensor, given: Sequence[int]) -> Tensor:
    """The rows with every variable missing that is not given; refused where a given one is not there.

    >>> evidence_of(torch.tensor([[1.0, 2.0]]), [1]).tolist()
    [[nan, 2.0]]
    """
    wrong = [v for v in given if not 0 <= v < x.shape[1]]
    if wrong:
        raise ValueError(f"given names variable {wrong[0]}; the model has 0 to {x.shape[1] - 1}")
    out = torch.full_like(x, torch.nan)
    for variable in given:
        lost = torch.nonzero(torch.isnan(x[:, variable])).flatten()
        if len(lost):
            raise ValueError(
                f"row {int(lost[0])} has no value in the given column {variable}: leave it out of given"
            )
        out[:, variable] = x[:, variable]
    return out


def within_reach(x: Tensor) -> Tensor:
    """The rows, refused where a squared deviation could overflow: no bound holds there."""
    far = torch.nonzero((x.abs() > REACH).any(0)).flatten()
    if len(far):
        raise ValueError(f"column {int(far[0])} has values beyond {REACH:g}, where no bound can be computed")
    return x


def count_of(n: int) -> int:
    """A number of draws, refused below 0."""
    if n < 0:
        raise ValueError(f"n must be at least 0 draws, not {n}")
    return n


def in_chunks(bounds: Callable[[Tensor], tuple[Tensor, Tensor]], x: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds of many rows, a few thousand at a time and without gradients."""
    with torch.no_grad():
        parts = [bounds(part) for part in x.split(ROWS)]
    lower, upper = (torch.cat(side) for side in zip(*parts, strict=True))
    return lower, upper
