"""What is worth a remark about the cells of a trained model: those that nothing falls in.

# B rows, D variables
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from voronoi_circuits.models.base import Model
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training.diagnosis import broken_parameters


@torch.no_grad()
def remarks(model: Model, x: Tensor) -> tuple[str, ...]:
    """One sentence for each gated region with cells that share a centroid or hold no row of ``x`` (B, D).

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> remarks(model, rows), remarks(model, rows[:1])
    ((), ('gate at region 3: cells [0, 2] hold no training row',))
    """
    broken = broken_parameters(model)
    if broken:
        return (f"parameter {broken[0]} is no longer finite: lower learning_rate",)
    if isinstance(model, VTModel):
        return tuple(_of_gates(model, x))
    return tuple(_of_intervals(model, x)) if isinstance(model, HFVModel) else ()


def _of_gates(model: VTModel, x: Tensor) -> Iterator[str]:
    """Duplicates and unreached cells of every gate."""
    for gate in model.placed:
        where = f"gate at region {gate.region}"
        for first, second in gate.tessellation.duplicates():
            yield f"{where}: cells {first} and {second} share a centroid"
        unreached = gate.tessellation.unreached(gate.points(x))
        if unreached:
            yield f"{where}: cells {unreached} hold no training row"


def _of_intervals(model: HFVModel, x: Tensor) -> Iterator[str]:
    """Duplicates and unreached intervals of every gated leaf, and coarse cells without fine ones."""
    for key in model.intervals:
        cells, where = model.interval_cells(int(key)), f"HFV region {key}"
        for _, cell in cells.duplicates():
            yield f"{where}: intervals {cell - 1} and {cell} share a centroid"
        unreached = [cell for _, cell in cells.unreached(x[:, model.gate_variables(int(key))])]
        if unreached:
            yield f"{where}: intervals {unreached} hold no training row"
    for region, empty in model.empty_cells().items():
        yield f"HFV region {region}: coarse cells {empty} are empty"
