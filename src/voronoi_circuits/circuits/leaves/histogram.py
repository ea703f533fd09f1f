"""Histogram leaves: bounded and piecewise constant.

# E experts, F folded regions, U units, B rows
# logits (E, F, U, bins); edges (F, bins + 1), shared by units and experts; x (E|1, F, 1, B)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import torch
from torch import Tensor

from voronoi_circuits.circuits.leaves.base import starting_rows
from voronoi_circuits.circuits.leaves.categorical import Parts


class Histogram(Parts):
    """Bins of constant density from the first edge to the last, nothing outside.

    An inner edge belongs to the bin on its right. Until it is started the bins divide [0, 1]; ``start``
    divides the range of the data, widened by ``margin`` times its length on each side.

    >>> leaf = Histogram(experts=1, regions=1, units=1, bins=4)
    >>> leaf.log_mass(torch.tensor([[[[0.125]]]]), torch.tensor([[[[0.75]]]])).exp().item()
    0.625
    """

    family: ClassVar[str] = "histogram"
    edges: Tensor

    def __init__(
        self, experts: int, regions: int, units: int, bins: int = 32, margin: float = 0.1, **options: Any
    ) -> None:
        if bins < 1:
            raise ValueError(f"bins must be at least 1, not {bins}")
        if not 0 < margin < math.inf:
            raise ValueError(f"margin must be a positive share of the range, not {margin}")
        super().__init__(experts, regions, units, bins, **options)
        self.margin = margin
        self.register_buffer("edges", torch.linspace(0, 1, bins + 1).repeat(regions, 1))

    def sides(self, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Neighbouring edges."""
        edges = self.edges.to(dtype)
        return edges[:, :-1], edges[:, 1:]

    def locate(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """The number of inner edges at or below x."""
        left, right = (side.unsqueeze(1) for side in self.sides(x.dtype))
        inner = left[..., 1:].expand(*x.shape[:-1], -1).contiguous()
        inside = (x >= left[..., :1]) & (x <= right[..., -1:])
        return torch.searchsorted(inner, x.detach().contiguous(), right=True), inside

    @torch.no_grad()
    def start(
        self, columns: Tensor, generator: torch.Generator | None = None, weights: Tensor | None = None
    ) -> None:
        """Equal bins over the widened range of each column, then frequencies as for any parts."""
        rows, _ = starting_rows(self, columns, weights)
        low, high = rows.amin(0), rows.amax(0)
        span = torch.where(high > low, high - low, 1.0)
        low, high = low - self.margin * span, torch.where(high > low, high, low + span) + self.margin * span
        steps = torch.linspace(0, 1, self.parts + 1, dtype=torch.float64, device=rows.device)
        edges = torch.lerp(low.unsqueeze(-1), high.unsqueeze(-1), steps).to(self.edges.dtype)
        flat = ~(edges.diff() > 0).all(-1)
        if bool(flat.any()):
            where = flat.nonzero().flatten().tolist()
            raise ValueError(
                f"column(s) of region(s) {where} vary too little about too large a value "
                f"for {self.parts} bins: standardise them"
            )
        self.edges.copy_(edges)
        super().start(columns, generator, weights)
