"""Leaves that choose one of finitely many parts of the line, and the plainest of them: codes.

# E experts, F folded regions, U units, C parts, B rows, n draws
# logits (E, F, U, C); sides of the parts (F, C); x (E|1, F, 1, B)
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.leaves.base import Leaf, picked, refuse_empty, starting_rows
from voronoi_circuits.circuits.logspace import log_sum
from voronoi_circuits.circuits.rounding import UNIT, finite

_NOISE = 0.3


class Parts(Leaf, ABC):
    """Part c with probability softmax(logits)_c, then a point of it uniformly; a part of no width is an atom.

    A family says where its parts lie and which part a point lies in.
    """

    def __init__(self, experts: int, regions: int, units: int, parts: int, **options: Any) -> None:
        super().__init__(experts, regions, units, **options)
        self.parts = parts
        self.logits = nn.Parameter(torch.zeros(experts, regions, units, parts))

    @abstractmethod
    def sides(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Left and right sides of the parts, (F, C) each, ascending."""

    @abstractmethod
    def locate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The part that x (E|1, F, 1, B) lies in, a valid index whatever x, and whether there is one."""

    def log_density(self, x: Tensor, experts: Tensor | None = None) -> Tensor:
        """log(softmax(logits)_c / width_c), c the part of x (width 1 for an atom); -inf outside all parts."""
        left, right = self.sides(x.dtype)
        table = torch.log_softmax(picked(self.logits, experts, x.dtype), -1)
        table = table - torch.where(right > left, right - left, 1.0).log().unsqueeze(1)
        part, inside = self.locate(x)
        part = part.expand(table.shape[0], -1, self.units, -1)
        return torch.where(inside, table.gather(-1, part), -torch.inf)

    def log_mass(self, low: Tensor, high: Tensor, experts: Tensor | None = None) -> Tensor:
        """log Σ_c softmax(logits)_c share_c, with share_c the part of part c within [low, high]."""
        left, right = (side.unsqueeze(1).unsqueeze(1) for side in self.sides(low.dtype))
        low, high = low.unsqueeze(-1), high.unsqueeze(-1)
        table = torch.log_softmax(picked(self.logits, experts, low.dtype), -1).unsqueeze(-2)
        mass = log_sum(table + _log_share(low, high, left, right), -1)
        whole = (low <= left[..., :1]) & (high >= right[..., -1:])
        return torch.where(whole.squeeze(-1), 0.0, mass)

    def mean(self, experts: Tensor | None = None) -> Tensor:
        """Σ_c softmax(logits)_c midpoint_c."""
        left, right = self.sides(torch.float64)
        return (self._weights(experts) * ((left + right) / 2).unsqueeze(1)).sum(-1)

    def variance(self, experts: Tensor | None = None) -> Tensor:
        """Σ_c softmax(logits)_c ((midpoint_c - mean)² + width_c²/12)."""
        left, right = (side.unsqueeze(1) for side in self.sides(torch.float64))
        offset = (left + right) / 2 - self.mean(experts).unsqueeze(-1)
        return (self._weights(experts) * (offset.square() + (right - left).square() / 12)).sum(-1)

    @torch.no_grad()
    def draw(
        self,
        expert: Tensor,
        region: Tensor,
        unit: Tensor,
        low: Tensor,
        high: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """A part by its share of the interval's mass, then a uniform point of it within the interval."""
        low, high = low.double(), high.double()
        left, right = (side[region] for side in self.sides(torch.float64))
        log_share = _log_share(low.unsqueeze(-1), high.unsqueeze(-1), left, right)
        refuse_empty(self, (log_share == -torch.inf).all(-1), region, unit, low, high)
        race = torch.empty_like(log_share).exponential_(generator=generator).log()
        part = (self.logits[expert, region, unit].double() + log_share - race).argmax(-1, keepdim=True)
        low, high = (
            torch.maximum(low, left.gather(-1, part).squeeze(-1)),
            torch.minimum(high, right.gather(-1, part).squeeze(-1)),
        )
        q = torch.rand(low.shape, generator=generator, dtype=torch.float64, device=low.device)
        return torch.minimum(low + q * (high - low), high)

    @torch.no_grad()
    def start(
        self, columns: Tensor, generator: torch.Generator | None = None, weights: Tensor | None = None
    ) -> None:
        """Frequencies of the parts with one row more in each, times a noise of 30% to tell units apart."""
        rows, shares = starting_rows(self, columns, weights)
        part, inside = self.locate(rows.T.unsqueeze(0).unsqueeze(2))
        if not bool(inside.all()):
            region = int((~inside).nonzero()[0, 1])
            wrong = rows[~inside[0, region, 0], region][0].item()
            raise ValueError(
                f"the column of region {region} holds {wrong}, which a {self.family} leaf of {self.parts} "
                f"parts gives no probability: encode it as one of them or take more"
            )
        experts, count = shares.shape
        counts = rows.new_ones(experts, self.regions, self.parts)
        counts.scatter_add_(
            2,
            part[:, :, 0].expand(experts, -1, -1),
            (shares * count).unsqueeze(1).expand(-1, self.regions, -1),
        )
        noise = (
            torch.randn(self.logits.shape, generator=generator, dtype=torch.float64, device=rows.device)
            * _NOISE
        )
        self.logits.copy_(torch.log_softmax(counts.log().unsqueeze(2) + noise, -1))

    def rounding(self, value: Tensor) -> Tensor:
        """(8|value| + 8C + 16 + 8 max|log width|) u, for densities and masses.

        With m the largest logit, l_c - m is off by u|l_c - m| <= u|value|, log Σ exp(l - m) by
        (1.4C + 2 + 2 log C)u, the difference by u|value|; the width and its logarithm add
        (1 + 2|log width|)u, a mass's own sum of C terms as much as the first again, with its shares (3u).
        Rounded up to about twice.
        """
        left, right = self.sides(torch.float64)
        width = torch.where(right > left, right - left, 1.0).log().abs().amax(-1).unsqueeze(-1).unsqueeze(-1)
        bound = UNIT * (8 * finite(value).abs() + 8 * self.parts + 16 + 8 * width)
        return torch.where(value == -torch.inf, 0.0, bound)

    def _weights(self, experts: Tensor | None) -> Tensor:
        """softmax(logits), float64."""
        return torch.softmax(picked(self.logits, experts, torch.float64), -1)


class Categorical(Parts):
    """Codes 0 … C-1, given as floats; anything else has density 0.

    >>> leaf = Categorical(experts=1, regions=1, units=1, categories=4)
    >>> leaf.log_density(torch.tensor([[[[2.0, 1.5]]]])).exp().flatten().tolist()
    [0.25, 0.0]
    """

    family: ClassVar[str] = "categorical"

    def __init__(self, experts: int, regions: int, units: int, categories: int, **options: Any) -> None:
        if categories < 1:
            raise ValueError(f"categories must be at least 1, not {categories}")
        super().__init__(experts, regions, units, categories, **options)

    def sides(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Part c is the atom at c."""
        codes = torch.arange(self.parts, dtype=dtype, device=self.logits.device).expand(self.regions, -1)
        return codes, codes

    def locate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x itself where it is a code."""
        inside = (x == x.round()) & (x >= 0) & (x < self.parts)
        return torch.where(inside, x, 0.0).long(), inside


def _log_share(low: Tensor, high: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """log of the share of [left, right] within [low, high], 0 or -inf for an atom; no gradient where -inf."""
    overlap = torch.minimum(high, right) - torch.maximum(low, left)
    atom = right <= left
    some = torch.where(atom, overlap >= 0, overlap > 0)
    share = torch.where(some & ~atom, overlap, 1.0) / torch.where(some & ~atom, right - left, 1.0)
    return torch.where(some, share.log(), -math.inf)
