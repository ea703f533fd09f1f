"""What each epoch trains: the inverse temperature of its gates, and whether log Z is part of the loss.

# T epochs
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from voronoi_circuits.models.base import Model
from voronoi_circuits.training.cells import cells_of, median_margin

PAPER = (1.0, 50.0)


class Phase(NamedTuple):
    """One epoch: α, inf for hard gates and NaN where there are none; whether the loss holds log Z."""

    alpha: float
    normalized: bool = False

    @property
    def hard(self) -> bool:
        """Whether there are gates and they are hard."""
        return self.alpha == math.inf

    @property
    def soft(self) -> bool:
        """Whether there are gates and they are soft."""
        return self.alpha < math.inf


def phases(
    model: Model,
    x: Tensor,
    epochs: int,
    *,
    routing: str,
    anneal: str | Sequence[float],
    objective: str,
) -> list[Phase]:
    """The epochs: α along ``anneal``, or hard; the last fifth normalised where the objective is.

    >>> import torch
    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows)
    >>> plan = phases(model, rows, 3, routing="soft", anneal=(1, 50), objective="likelihood")
    >>> [phase.alpha for phase in plan]
    [1.0, 25.5, 50.0]
    """
    last = max(1, epochs // 5) if objective == "normalized" else 0
    if not cells_of(model):
        alphas, end = [math.nan] * (epochs - last), math.nan
    elif routing == "hard":
        alphas, end = [math.inf] * (epochs - last), math.inf
    else:
        alphas, end = linear(*annealing(model, x, anneal), epochs - last), math.inf
    return [Phase(alpha) for alpha in alphas] + [Phase(end, normalized=True)] * last


def linear(start: float, end: float, epochs: int) -> list[float]:
    """α_t = start + (end − start)(t − 1)/(T − 1), t = 1, ..., T; the end alone for one epoch.

    >>> linear(1.0, 50.0, 3)
    [1.0, 25.5, 50.0]
    """
    if epochs == 1:
        return [end]
    return [start + (end - start) * t / (epochs - 1) for t in range(epochs)]


def annealing(model: Model, x: Tensor, anneal: str | Sequence[float]) -> tuple[float, float]:
    """Both ends of the schedule: as given, or for "auto" 1/m and 50/m with m the median margin of the rows.

    Squared distances grow with the dimension and the scale of the data, and so do margins: measured in them,
    the gates of every dataset begin equally soft and end equally hard.

    >>> import torch
    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> start, end = annealing(VT(Circuit(units=2), cells=3).build(rows), rows, "auto")
    >>> round(end / start)
    50
    """
    if not isinstance(anneal, str):
        start, end = anneal
        return float(start), float(end)
    margin = median_margin(model, x) or 1.0
    return PAPER[0] / margin, PAPER[1] / margin
