"""Anytime refinement (Algorithm "Adaptive Anytime Bound Refinement"), for Z and for rows of evidence alike.

# R rows, D variables, M units at a site

A row is a point on the variables it gives and an interval on the others; its integral of f is bounded by
partitions that slice every box at the evidence. Z is the row that gives nothing. Rows are refined together,
each by its own priorities and its own number of boxes, so one row's bounds never depend on another's.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from voronoi_circuits.certificates.certificate import Status, Step
from voronoi_circuits.certificates.partition import Partition
from voronoi_circuits.certificates.sites import scaled, sites
from voronoi_circuits.circuits.questions import Gates, Question
from voronoi_circuits.models.vt import VTModel

BATCH = 2048
_SHARE = 1 / 8
"""A step splits the boxes whose part of the gap is at least this share of the largest."""


class Refinement:
    """Bounds (R,) of log ∫ f for rows, tightened box by box; what is proven never gets worse."""

    def __init__(self, model: VTModel, x: Tensor, low: Tensor, high: Tensor) -> None:
        self.model = model
        self.question = Question(x, low, high)
        with torch.no_grad():
            self.partitions = [Partition(model, site, x, low, high) for site in sites(model)]
        self.weights = self._weights()
        self.lower = torch.full((len(x),), -torch.inf, dtype=torch.float64)
        self.upper = torch.full((len(x),), torch.inf, dtype=torch.float64)
        with torch.no_grad():
            self.update()

    def _weights(self) -> list[Tensor]:
        """d log ∫ f / d log value of every site's units, (R, M), before any gate: what gaps count for."""
        taps = [torch.zeros_like(part.whole, requires_grad=True) for part in self.partitions]
        with torch.enable_grad():
            gates = {
                part.site.gate.region: scaled(tap) for part, tap in zip(self.partitions, taps, strict=True)
            }
            total = self.model.experts.total(self.question, Gates(values=gates))
            found = torch.autograd.grad(total.sum(), taps)
        return [gradient.T.nan_to_num(nan=0.0) for gradient in found]

    def update(self) -> None:
        """Propagates the sites' bounds to the root (Algorithm "Certified Bound Computation")."""
        pairs = [part.gates() for part in self.partitions]
        regions = [part.site.gate.region for part in self.partitions]
        sides: list[Tensor] = []
        for i, direction in enumerate((-1, 1)):
            gates = {region: pair[i] for region, pair in zip(regions, pairs, strict=True)}
            sides.append(self.model.experts.total(self.question, Gates(values=gates), direction))
        self.lower = torch.maximum(self.lower, sides[0])
        self.upper = torch.minimum(self.upper, sides[1])

    @property
    def gap(self) -> Tensor:
        """upper - lower, (R,); 0 where f is proven to vanish."""
        return torch.where(self.upper == -torch.inf, 0.0, self.upper - self.lower)

    @property
    def boxes(self) -> Tensor:
        """Boxes used so far, (R,)."""
        return torch.stack([part.count for part in self.partitions]).sum(0)

    def step(self, active: Tensor, batch: Tensor) -> bool:
        """Splits in every active row up to ``batch`` (R,) boxes that add most to its gap; False if none."""
        gaps = [part.gaps(weight) for part, weight in zip(self.partitions, self.weights, strict=True)]
        rows = torch.cat([part.open.row for part in self.partitions])
        every = torch.where(active[rows], torch.cat(gaps), 0.0)
        largest = torch.zeros(len(active), dtype=torch.float64).scatter_reduce(0, rows, every, "amax")
        chosen = (every > 0) & (every >= _SHARE * largest[rows])
        chosen &= _rank(rows, every, chosen) < batch[rows]
        for part, weight, mine in zip(
            self.partitions, self.weights, chosen.split([len(g) for g in gaps]), strict=True
        ):
            if bool(mine.any()):
                part.split(mine, weight)
        if not bool(chosen.any()):
            return False
        self.update()
        return True

    def run(
        self,
        tolerance: float,
        max_boxes: int,
        budget: float | None = None,
        batch: int = BATCH,
        on_step: Callable[[Step], None] | None = None,
    ) -> Status:
        """Refines until every gap is at most ``tolerance``, boxes or seconds are spent, or an interrupt."""
        start = time.perf_counter()
        try:
            with torch.no_grad():
                while True:
                    self._report(start, on_step)
                    wide = self.gap > tolerance
                    if not bool(wide.any()):
                        return Status.TOLERANCE
                    active = wide & (self.boxes < max_boxes)
                    if not bool(active.any()):
                        return Status.BOXES
                    if budget is not None and time.perf_counter() - start >= budget:
                        return Status.SECONDS
                    room = ((max_boxes - self.boxes) // 2).clamp(1, batch)
                    if not self.step(active, room):
                        return Status.BOXES
        except KeyboardInterrupt:
            return Status.INTERRUPTED

    def _report(self, start: float, on_step: Callable[[Step], None] | None) -> None:
        if on_step is not None:
            worst = int(self.gap.argmax())
            seconds = time.perf_counter() - start
            bounds = float(self.lower[worst]), float(self.upper[worst])
            on_step(Step(int(self.boxes.sum()), seconds, *bounds))


def _rank(rows: Tensor, values: Tensor, chosen: Tensor) -> Tensor:
    """The rank of each chosen value within its row, largest first; ties keep their order."""
    order = torch.argsort(torch.where(chosen, values, -1.0), descending=True, stable=True)
    order = order[torch.argsort(rows[order], stable=True)]
    counts = torch.bincount(rows, minlength=int(rows.max()) + 1 if len(rows) else 0)
    first = torch.cumsum(counts, 0) - counts
    rank = torch.empty_like(rows)
    rank[order] = torch.arange(len(rows)) - first[rows[order]]
    return rank
