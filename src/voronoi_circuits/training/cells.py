"""What training does with cells: measures their margins, moves their centroids, counts those in use.

# B rows, D variables, K cells, d variables of a gate
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry.distances import facet_margin, nearest_cell
from voronoi_circuits.models.base import Model
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel


class Cells(NamedTuple):
    """Cells of one gated region: where their centroids are kept, their points (K, d), their variables."""

    centroids: nn.Parameter
    points: Tensor
    variables: list[int]


def cells_of(model: Model) -> list[Cells]:
    """The cells of every gated region; none where the model has no gates."""
    if isinstance(model, VTModel):
        stored = [(gate.tessellation.centroids, gate.variables) for gate in model.placed]
        return [Cells(centroids, centroids.detach(), list(variables)) for centroids, variables in stored]
    if isinstance(model, HFVModel):
        placed = [(int(key), model.interval_cells(int(key)).centroids) for key in model.intervals]
        placed += [(int(key), model.coarse_cells(int(key)).centroids) for key in model.coarse]
        return [
            Cells(centroids, model.points(region).detach(), model.gate_variables(region))
            for region, centroids in placed
        ]
    return []


def median_margin(model: Model, x: Tensor) -> float | None:
    """The median over rows and gates of γ(u) = min_{j ≠ k*} ‖u − c_j‖² − ‖u − c_k*‖².

    Margins of 0 and of gates of one cell are left out; None where nothing is left.
    """
    margins = [facet_margin(x[:, cells.variables], cells.points) for cells in cells_of(model)]
    found = torch.cat([x.new_empty(0, dtype=torch.float64), *margins])
    found = found[(found > 0) & found.isfinite()]
    return float(found.median()) if len(found) else None


@torch.no_grad()
def lloyd_step(model: Model, x: Tensor, weights: Tensor | None) -> None:
    """Moves every centroid to the weighted mean of the rows of its cell; an empty cell stays where it is."""
    mass = torch.ones(len(x), dtype=torch.float64) if weights is None else weights.double()
    for cells in cells_of(model):
        rows = x[:, cells.variables].double()
        cell = nearest_cell(rows, cells.points)
        total = mass.new_zeros(len(cells.points)).index_add_(0, cell, mass).unsqueeze(1)
        sums = rows.new_zeros(cells.points.shape).index_add_(0, cell, rows * mass.unsqueeze(1))
        moved = torch.where(total > 0, sums / total, cells.points.double())
        cells.centroids.copy_(moved.reshape(cells.centroids.shape))


def cells_in_use(model: Model, x: Tensor) -> float:
    """How many cells of the topmost gate own one of the rows; NaN where there is no gate."""
    if isinstance(model, VTModel):
        return len(torch.unique(model.placed[0].cells(x)))
    if isinstance(model, HFVModel):
        return len(torch.unique(model.cells(x)))
    return float("nan")
