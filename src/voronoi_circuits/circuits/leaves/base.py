"""What a leaf family is asked, and the refusal of what it cannot answer.

# E experts, F folded regions, U units, B rows, n draws
# parameters lead with [E, F, U]; values are log-real (E, F, U, B)
"""

from __future__ import annotations

from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn


class UnanswerableQuestion(ValueError):
    """A leaf family was asked something that it has no answer to.

    >>> print(UnanswerableQuestion("gaussian", "the phase of the moon"))
    a gaussian leaf cannot answer: the phase of the moon
    """

    def __init__(self, family: str, question: str) -> None:
        super().__init__(f"a {family} leaf cannot answer: {question}")
        self.family = family
        self.question = question


class Leaf(nn.Module):
    """Distributions of one variable, one for each expert, region and unit.

    A family answers the questions that it overrides and refuses the others. Parameters are cast to the dtype
    of the rows, and ``experts`` (n,), where given, picks and may repeat entries of their leading axis.
    A NaN in ``x`` is the caller's to replace before the call: the answer there means nothing, and its
    gradient would spread over the whole unit.

    >>> try:
    ...     Leaf(experts=1, regions=1, units=2).mean()
    ... except UnanswerableQuestion as refusal:
    ...     print(refusal)
    a bare leaf cannot answer: mean
    """

    family: ClassVar[str] = "bare"

    def __init__(self, experts: int, regions: int, units: int, **options: Any) -> None:
        super().__init__()
        if options:
            raise ValueError(
                f"a {self.family} leaf has no option {', '.join(map(repr, sorted(options)))}: leave it out"
            )
        for name, size in (("experts", experts), ("regions", regions), ("units", units)):
            if size < 1:
                raise ValueError(f"{name} must be at least 1, not {size}")
        self.experts, self.regions, self.units = experts, regions, units

    def log_density(self, x: Tensor, experts: Tensor | None = None) -> Tensor:
        """Log density at ``x`` (E|1, F, 1, B): (E, F, U, B)."""
        self._refuse("log density")

    def log_mass(self, low: Tensor, high: Tensor, experts: Tensor | None = None) -> Tensor:
        """Log mass of [low, high], sides (E|1, F, U|1, B): (E, F, U, B).

        It is 0 on the whole line, and -inf with gradient 0 where there is no mass.
        """
        self._refuse("log mass of an interval")

    def mean(self, experts: Tensor | None = None) -> Tensor:
        """Means (E, F, U), float64."""
        self._refuse("mean")

    def variance(self, experts: Tensor | None = None) -> Tensor:
        """Variances (E, F, U), float64."""
        self._refuse("variance")

    def draw(
        self,
        expert: Tensor,
        region: Tensor,
        unit: Tensor,
        low: Tensor,
        high: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Draws of the named units, each restricted to its [low, high]; everything (n,), float64 out."""
        self._refuse("draws from an interval")

    def start(
        self, columns: Tensor, generator: torch.Generator | None = None, weights: Tensor | None = None
    ) -> None:
        """Sets the parameters from ``columns`` (B, F), with row weights of each expert ``weights`` (E, B)."""
        self._refuse("a start from data")

    def rounding(self, value: Tensor) -> Tensor:
        """How far a float64 log density or log mass (E, F, U, B) may be off, given its computed value.

        It is 0 where the value is -inf.
        """
        self._refuse("a bound on its rounding")

    def _refuse(self, question: str) -> NoReturn:
        raise UnanswerableQuestion(self.family, question)


def picked(parameter: Tensor, experts: Tensor | None, dtype: torch.dtype) -> Tensor:
    """The parameters of the picked experts in the dtype of the rows.

    >>> picked(torch.tensor([1.0, 2.0]), torch.tensor([1, 1, 0]), torch.float64).tolist()
    [2.0, 2.0, 1.0]
    """
    return (parameter if experts is None else parameter.index_select(0, experts)).to(dtype)


def starting_rows(leaf: Leaf, columns: Tensor, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """The columns (B, F) and row weights (E|1, B) that sum to 1, in float64, checked.

    >>> starting_rows(Leaf(1, 1, 1), torch.tensor([[3.0], [4.0]]), None)[1].tolist()
    [[0.5, 0.5]]
    """
    if columns.dim() != 2 or columns.shape[0] < 1 or columns.shape[1] != leaf.regions:
        raise ValueError(
            f"columns must be (rows, {leaf.regions}), one for each region, not {tuple(columns.shape)}"
        )
    bad = ~torch.isfinite(columns).all(0)
    if bool(bad.any()):
        where = bad.nonzero().flatten().tolist()
        raise ValueError(
            f"column(s) of region(s) {where} hold NaN or infinite values: start from complete, finite rows"
        )
    rows = columns.detach().double()
    if weights is None:
        return rows, rows.new_full((1, rows.shape[0]), 1 / rows.shape[0])
    if weights.shape != (leaf.experts, rows.shape[0]):
        raise ValueError(
            f"weights must be (experts, rows) = {(leaf.experts, rows.shape[0])}, not {tuple(weights.shape)}"
        )
    shares = weights.detach().double()
    total = shares.sum(1, keepdim=True)
    if bool((shares < 0).any()) or not bool(((total > 0) & total.isfinite()).all()):
        raise ValueError("weights must be finite, not negative, and positive on some row of each expert")
    return rows, shares / total


def refuse_empty(leaf: Leaf, empty: Tensor, region: Tensor, unit: Tensor, low: Tensor, high: Tensor) -> None:
    """Refuses draws from intervals without mass and names the first of them; everything (n,).

    >>> zero, one = torch.tensor([0]), torch.tensor([1])
    >>> refuse_empty(Leaf(1, 1, 1), one > zero, zero, zero, one, zero)
    Traceback (most recent call last):
    ValueError: unit 0 of region 0 (bare) has no mass in [1, 0]: there is nothing to draw
    """
    if bool(empty.any()):
        i = int(empty.nonzero()[0])
        interval = f"[{low[i].item()}, {high[i].item()}]"
        where = f"unit {int(unit[i])} of region {int(region[i])} ({leaf.family})"
        raise ValueError(f"{where} has no mass in {interval}: there is nothing to draw")
