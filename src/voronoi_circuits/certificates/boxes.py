"""The paper's initial bounds: one inner and one outer box a cell, propagated through the circuit.

# R rows, D variables, K cells, M units at a site

Algorithm "Certified Bound Computation". Where gates lie below gates, the boxes are intersected on the way
down and the bounds go up. A row's evidence slices every box: a box counts only if the evidence lies in it (it
is never projected), from below strictly inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from voronoi_circuits.certificates.inner_boxes import conservative_box, optimised_box
from voronoi_circuits.certificates.outer_boxes import outer_box
from voronoi_circuits.certificates.sites import Site, replaced, site_moments, sites, units_of
from voronoi_circuits.circuits.questions import Gates, Question, ValueGate
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel

_REACH = 4.0
"""Deviations of an expert within which its inner box is optimised."""


class CellBoxes(NamedTuple):
    """Boxes (K, d) of a gate's cells in its own variables."""

    low: Tensor
    high: Tensor


def inner_boxes(model: VTModel, site: Site) -> CellBoxes:
    """For each cell the closed-form box or the optimised one, whichever holds more of the cell's expert."""
    gate = site.gate
    columns = list(gate.variables)
    centroids = gate.tessellation.centroids.detach().double()
    mean, deviation = (part[: gate.n_cells, columns] for part in site_moments(model, site))
    low, high = model.domain_sides(mean)
    left = torch.maximum(mean - _REACH * deviation, low[columns])
    right = torch.minimum(mean + _REACH * deviation, high[columns])
    closed = CellBoxes(*conservative_box(centroids))
    best = CellBoxes(*optimised_box(centroids, torch.minimum(left, right), torch.maximum(left, right)))
    kept = _mass(model, site, best) >= _mass(model, site, closed)
    return CellBoxes(*(torch.where(kept.unsqueeze(1), b, c) for b, c in zip(best, closed, strict=True)))


def _mass(model: VTModel, site: Site, boxes: CellBoxes) -> Tensor:
    """The mass of each cell's own unit in its box, (K,), summed over experts below the root."""
    _, low, high = model.whole()
    rows = len(boxes.low)
    low, high = _met(low.expand(rows, -1), high.expand(rows, -1), site.gate, boxes)
    values = model.experts.circuit.run(Question(None, low, high), upto=site.gate.region)[site.gate.region]
    if site.gate.region == model.experts.root:
        return values.flatten(0, 1).diagonal()
    return values.exp().sum(0).diagonal()


def outer_boxes(model: VTModel, gate: VoronoiGate) -> CellBoxes:
    """For each cell the smallest box around it within the domain, proven by the duals of its programs."""
    centroids = gate.tessellation.centroids.detach().double()
    columns = list(gate.variables)
    low, high = (side[columns].expand_as(centroids) for side in model.domain_sides(centroids))
    return CellBoxes(*outer_box(centroids, low, high))


def _met(low: Tensor, high: Tensor, gate: VoronoiGate, boxes: CellBoxes) -> tuple[Tensor, Tensor]:
    """Row k of the sides met with the box of cell k."""
    columns = list(gate.variables)
    low, high = low.clone(), high.clone()
    low[:, columns] = torch.maximum(low[:, columns], boxes.low)
    high[:, columns] = torch.minimum(high[:, columns], boxes.high)
    return low, high


def initial_bounds(model: VTModel, x: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """Bounds (R,) of log ∫ f over ``[low, high]`` at evidence ``x``: an inner and an outer box a cell."""
    with torch.no_grad():
        forest = sites(model)
        sides: list[Tensor] = []
        for outward in (-1, 1):
            chosen = {id(site): _cells(model, site, outward) for site in _every(forest)}
            gates = {
                site.gate.region: replaced(_integrals(model, site, chosen, x, low, high, outward))
                for site in forest
            }
            sides.append(model.experts.total(Question(x, low, high), Gates(values=gates), outward))
        ceiling = model.experts.total(Question(x, low, high), outward=1)
    return sides[0], torch.minimum(sides[1], ceiling)


def _every(forest: list[Site]) -> list[Site]:
    return [found for site in forest for found in (site, *_every(list(site.below)))]


def _cells(model: VTModel, site: Site, outward: int) -> CellBoxes:
    return inner_boxes(model, site) if outward < 0 else outer_boxes(model, site.gate)


def _integrals(
    model: VTModel,
    site: Site,
    boxes: Mapping[int, CellBoxes],
    x: Tensor,
    low: Tensor,
    high: Tensor,
    outward: int,
) -> Tensor:
    """log of each unit's integral over its cell's box and the sides given, (M, R)."""
    gate, rows = site.gate, len(x)
    own = boxes[id(site)]
    cells = torch.arange(gate.n_cells).repeat_interleave(rows)
    chosen = CellBoxes(own.low[cells], own.high[cells])
    point = x.repeat(gate.n_cells, 1)
    met = _met(low.repeat(gate.n_cells, 1), high.repeat(gate.n_cells, 1), gate, chosen)
    below: dict[int, ValueGate] = {
        under.gate.region: replaced(_integrals(model, under, boxes, point, *met, outward))
        for under in site.below
    }
    run = model.experts.circuit.run(
        Question(point, *met), Gates(values=below), outward=outward, upto=gate.region
    )
    values = run[gate.region].flatten(0, 1).view(units_of(model, site), gate.n_cells, rows)
    at = torch.arange(units_of(model, site)) % gate.n_cells
    values = values[torch.arange(len(values)), at]
    given = point[:, list(gate.variables)]
    within = (given > chosen.low) & (given < chosen.high)
    if outward > 0:
        within = (given >= chosen.low) & (given <= chosen.high)
    sliced = torch.isnan(given) | within
    holds = sliced.all(1).view(gate.n_cells, rows)[at]
    return torch.where(holds, values, -torch.inf)
