"""The shared partition of one site into boxes, each labelled inside, outside or boundary for every cell.

# R rows of a question, N open boxes, K cells, M units at the site, D variables

A box that lies inside one cell of every gate is settled: it counts in full for its cell from below and above.
Open boxes count from above for each cell they may touch. All sums are kept relative to the site's ungated
values ``whole``, so that every ratio is at most 1, but for rounding.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from voronoi_circuits.certificates.sites import (
    Site,
    log_mean,
    replaced,
    scaled,
    site_moments,
    site_values,
    spread,
    units_of,
)
from voronoi_circuits.circuits.leaves.interval_mass import gaussian_interval_quantile
from voronoi_circuits.circuits.questions import Gates, Question, ValueGate
from voronoi_circuits.circuits.rounding import UNIT
from voronoi_circuits.models.tiles import tile
from voronoi_circuits.models.vt import VTModel

_CHUNK = 1 << 21
_LOST = 1e-290
"""Shares smaller than this count as none from below and as this much from above."""
_REACH = 6.0
"""Deviations within which a side is measured and halved; beyond, it is split at a quantile."""


class Boxes(NamedTuple):
    """Open boxes (N, D) with their rows (N,), the cells (N, K) they may touch and their shares.

    A share (N, M) is the part of every unit's integral that the box holds, from below and from above.
    """

    low: Tensor
    high: Tensor
    row: Tensor
    touches: Tensor
    lower: Tensor
    upper: Tensor

    def take(self, index: Tensor) -> Boxes:
        """The boxes at an index or mask."""
        return Boxes(*(part[index] for part in self))

    def join(self, other: Boxes) -> Boxes:
        """Both sets of boxes."""
        return Boxes(*(torch.cat(pair) for pair in zip(self, other, strict=True)))


class Settled(NamedTuple):
    """The shares (R, M) of all settled boxes from below and above, and the number (R,) of boxes weighed."""

    lower: Tensor
    upper: Tensor
    boxes: Tensor


class Partition:
    """One site's partition for all rows, and what it proves of the site's integrals."""

    def __init__(self, model: VTModel, site: Site, x: Tensor, low: Tensor, high: Tensor) -> None:
        self.model, self.site, self.x = model, site, x
        self.units = units_of(model, site)
        self.whole = site_values(model, site, Question(x, low, high), Gates(), 0)
        self.mean, self.deviation = site_moments(model, site)
        nothing = torch.zeros(len(x), self.units, dtype=torch.float64)
        self.settled = Settled(nothing, nothing, torch.zeros(len(x), dtype=torch.long))
        given = ~torch.isnan(x)
        low, high = torch.where(given, x, low), torch.where(given, x, high)
        every = torch.ones(len(x), site.gate.n_cells, dtype=torch.bool)
        self.open, self.settled = self._added(low, high, torch.arange(len(x)), every)

    @property
    def count(self) -> Tensor:
        """Boxes weighed so far, (R,)."""
        return self.settled.boxes

    def _added(self, low: Tensor, high: Tensor, row: Tensor, touches: Tensor) -> tuple[Boxes, Settled]:
        """Labels and weighs new boxes: the open ones, and what is settled with them. Changes nothing."""
        lower, upper = self.settled.lower, self.settled.upper
        count = self.settled.boxes + torch.bincount(row, minlength=len(self.settled.boxes))
        size = max(1, _CHUNK // max(1, self.units * 8))
        parts: list[Boxes] = []
        for at in torch.arange(len(low)).split(size):
            boxes, settled = self._weigh(low[at], high[at], row[at], touches[at])
            done = boxes.take(settled)
            lower, upper = lower.index_add(0, done.row, done.lower), upper.index_add(0, done.row, done.upper)
            parts.append(boxes.take(~settled))
        return Boxes(*(torch.cat(column) for column in zip(*parts, strict=True))), Settled(
            lower, upper, count
        )

    def _weigh(self, low: Tensor, high: Tensor, row: Tensor, touches: Tensor) -> tuple[Boxes, Tensor]:
        """The boxes with their shares, and which of them are settled."""
        gate = self.site.gate
        columns = list(gate.variables)
        inside, touched = gate.tessellation.classify(low[:, columns], high[:, columns], touches)
        settled = inside.any(1) | ~touched.any(1)
        below: tuple[dict[int, Tensor], dict[int, Tensor]] = ({}, {})
        for other in self.site.all_below():
            at = list(other.variables)
            labels = other.tessellation.classify(low[:, at], high[:, at])
            settled = settled & labels[0].any(1)
            for gates, label in zip(below, labels, strict=True):
                share = torch.where(spread(self.model, other, label), 0.0, -torch.inf)
                gates[other.region] = share.T.double()
        sides = (low, high, row)
        lower = self._shares(sides, spread(self.model, gate, inside), below[0], -1)
        upper = self._shares(sides, spread(self.model, gate, touched), below[1], 1)
        return Boxes(low, high, row, touched, lower, upper), settled

    def _shares(
        self, sides: tuple[Tensor, Tensor, Tensor], wanted: Tensor, below: Mapping[int, Tensor], outward: int
    ) -> Tensor:
        """Integrals over boxes (low, high, row) of the units ``wanted`` (N, M), relative to ``whole``."""
        low, high, row = sides
        out = torch.zeros(wanted.shape, dtype=torch.float64)
        if self.site.gate.region == self.model.experts.root and self.model.experts.roots == 1 and not below:
            box, unit = torch.nonzero(wanted, as_tuple=True)
            if len(box):
                tiles = tile(unit, self.units, largest=512)
                asked = box[tiles.rows]
                question = Question(self.x[row[asked]], low[asked], high[asked])
                values = self.model.experts.circuit(question, experts=tiles.owners, outward=outward)
                mass = values[:, 0].reshape(-1)[tiles.places]
                out[box, unit] = self._relative(mass, self.whole[unit, row[box]])
            return out
        box = torch.nonzero(wanted.any(1)).squeeze(1)
        if len(box):
            question = Question(self.x[row[box]], low[box], high[box])
            gates = Gates(values={region: scaled(labels[:, box]) for region, labels in below.items()})
            mass = site_values(self.model, self.site, question, gates, outward)
            shares = self._relative(mass, self.whole[:, row[box]]).T
            out[box] = torch.where(wanted[box], shares, 0.0)
        return out

    def _relative(self, mass: Tensor, whole: Tensor) -> Tensor:
        return torch.where(whole == -torch.inf, 0.0, (mass - whole).exp())

    def ratios(self) -> tuple[Tensor, Tensor]:
        """Bounds (R, M) of each unit's gated integral relative to ``whole``, rounded outward.

        The upper one may pass 1: ``whole`` is a computed number, not the ungated integral itself. What lies
        below ``_LOST`` may have lost its digits to underflow.
        """
        lower = self.settled.lower.index_add(0, self.open.row, self.open.lower)
        upper = self.settled.upper.index_add(0, self.open.row, self.open.upper)
        slack = UNIT * (2.0 * self.count.unsqueeze(1) + 2000)
        lower = torch.where(lower > _LOST, lower * (1 - slack), 0.0)
        return lower, upper * (1 + slack) + _LOST

    def gates(self) -> tuple[ValueGate, ValueGate]:
        """The site's proven integrals from below and above, put in the place of its values."""
        sides: list[ValueGate] = []
        for ratio, direction in zip(self.ratios(), (-1, 1), strict=True):
            log_ratio = log_mean(ratio).T
            value = self.whole + log_ratio
            slack = 8 * UNIT * (1 + self.whole.abs() + log_ratio.abs())
            sides.append(replaced(torch.where(torch.isfinite(value), value + direction * slack, value)))
        return sides[0], sides[1]

    def gaps(self, weight: Tensor) -> Tensor:
        """What each open box adds to the gap, (N,), given the weight (R, M) of every unit in its row.

        A box that has no side to split, a point in the gates' variables, adds nothing.
        """
        gap = ((self.open.upper - self.open.lower) * weight[self.open.row]).sum(1)
        return torch.where(self._free(self.open).any(1), gap, 0.0)

    def _free(self, boxes: Boxes) -> Tensor:
        """The sides (N, D) that may be split: those of positive length in a variable that a gate reads."""
        read = torch.zeros(boxes.low.shape[1], dtype=torch.bool)
        read[self.site.variables] = True
        return read & (boxes.low < boxes.high)

    def split(self, chosen: Tensor, weight: Tensor) -> None:
        """Bisects the chosen boxes at the side longest in the deviations of the expert that adds most."""
        boxes, rest = self.open.take(chosen), self.open.take(~chosen)
        owner = ((boxes.upper - boxes.lower) * weight[boxes.row]).argmax(1)
        mean, deviation = self.mean[owner], self.deviation[owner]
        a, b = (boxes.low - mean) / deviation, (boxes.high - mean) / deviation
        length = b.clamp(max=_REACH) - a.clamp(min=-_REACH)
        length = torch.where(self._free(boxes), length, -torch.inf)
        side = length.argmax(1, keepdim=True)
        where = _cut(*(part.gather(1, side) for part in (boxes.low, boxes.high, mean, deviation, a, b)))
        left, right = boxes.high.scatter(1, side, where), boxes.low.scatter(1, side, where)
        children, settled = self._added(
            torch.cat([boxes.low, right]),
            torch.cat([left, boxes.high]),
            boxes.row.repeat(2),
            boxes.touches.repeat(2, 1),
        )
        self.open, self.settled = rest.join(children), settled


def _cut(low: Tensor, high: Tensor, mean: Tensor, deviation: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """Where a side is split: its middle, or the median of N(mean, deviation²) on it where it reaches far out.

    Far in a tail rounding may put the median on an end: the cut is then the middle, or a step from the end.
    """
    step = deviation + torch.where(torch.isinf(low), high, low).abs()
    left = torch.where(torch.isinf(low), high - 2 * step, low)
    right = torch.where(torch.isinf(high), low + 2 * step, high)
    middle = left / 2 + right / 2
    median = mean + deviation * gaussian_interval_quantile(torch.full_like(a, 0.5), a, b)
    near = (a >= -_REACH) & (b <= _REACH)
    where = torch.where(near, middle, median)
    return torch.where((where > low) & (where < high), where, middle)
