"""The top-down twin of the pass: draws, also given evidence and intervals.

# n draws, D variables, B rows of evidence, U units
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from voronoi_circuits.circuits.folded import FoldedCircuit, Values
from voronoi_circuits.circuits.questions import OPEN, Gates, Question
from voronoi_circuits.circuits.region_graph import Region

_TERMS = 1 << 22


@dataclass(frozen=True)
class Draws:
    """Rows (n, D), and for every region the unit (n,) that each row came through, -1 for none."""

    rows: Tensor
    units: dict[int, Tensor]


def draw(
    circuit: FoldedCircuit,
    values: Values,
    question: Question,
    evidence: Tensor,
    experts: Tensor,
    roots: Tensor,
    gates: Gates = OPEN,
    generator: torch.Generator | None = None,
) -> Draws:
    """Draws from the circuit given what ``question`` states and what ``values``, its pass, found.

    Draw i uses row ``evidence[i]`` of the question, expert ``experts[i]`` and root unit ``roots[i]``. A unit
    of a sum is chosen with probability proportional to weight times value, leaf by leaf down to the
    variables; given points are kept.
    """
    width = max(_terms(circuit, region) for region in circuit.graph.regions)
    size = max(1, _TERMS // width)
    parts = [
        _draw(circuit, values, question, *chunk, gates, generator)
        for chunk in zip(evidence.split(size), experts.split(size), roots.split(size), strict=True)
    ]
    units = {region: torch.cat([part.units[region] for part in parts]) for region in parts[0].units}
    return Draws(torch.cat([part.rows for part in parts]), units)


def _terms(circuit: FoldedCircuit, region: Region) -> int:
    """How many terms a sum of the region adds, cells counted in full; 1 for a leaf."""
    sizes = [circuit.graph.regions[c].units for c in region.children]
    return sum(sizes) if region.kind in ("sum", "cp") else math.prod(sizes)


def _draw(
    circuit: FoldedCircuit,
    values: Values,
    question: Question,
    evidence: Tensor,
    experts: Tensor,
    roots: Tensor,
    gates: Gates,
    generator: torch.Generator | None,
) -> Draws:
    regions = circuit.graph.regions
    n, root = len(evidence), len(regions) - 1
    rows = torch.full((n, circuit.graph.n_variables), torch.nan, dtype=torch.float64)
    units = {index: torch.full((n,), -1, dtype=torch.long) for index in range(len(regions))}
    units[root] = roots.clone()
    for index in range(root, -1, -1):
        here = torch.nonzero(units[index] >= 0).squeeze(-1)
        if len(here) == 0:
            continue
        expert, row, unit = experts[here], evidence[here], units[index][here]
        region = regions[index]
        if region.kind == "leaf":
            drawn = _leaf(circuit, index, question, row, expert, unit, gates, generator)
            rows[here, region.scope[0]] = drawn
            continue
        children = [values[c][expert, :, row].double() for c in region.children]
        chosen = _choose(circuit, index, expert, unit, children, gates, generator)
        for child, at in zip(region.children, chosen, strict=True):
            units[child][here] = at
    return Draws(rows, units)


def _choose(
    circuit: FoldedCircuit,
    index: int,
    expert: Tensor,
    unit: Tensor,
    children: Sequence[Tensor],
    gates: Gates,
    generator: torch.Generator | None,
) -> list[Tensor]:
    """The unit of each child that each draw goes through; -1 where a sum chose another child."""
    region = circuit.graph.regions[index]
    weights = [w.log() for w in circuit.weights(index)]
    if region.kind == "cp":
        mixed = zip(weights, children, strict=True)
        return [categorical(weight[expert, unit] + child, generator) for weight, child in mixed]
    if region.kind == "sum":
        flat = categorical(weights[0][expert, unit] + torch.cat(list(children), -1), generator)
        chosen: list[Tensor] = []
        for child in children:
            size = child.shape[-1]
            chosen.append(torch.where((flat >= 0) & (flat < size), flat, -1))
            flat = flat - size
        return chosen
    if region.kind == "tucker":
        terms = weights[0][expert, unit] + children[0].unsqueeze(-1) + children[1].unsqueeze(-2)
        return _unravel(categorical(terms.flatten(1), generator), terms.shape[1:])
    return _choose_joint(circuit, index, weights[0], expert, unit, children, gates, generator)


def _choose_joint(
    circuit: FoldedCircuit,
    index: int,
    weight: Tensor,
    expert: Tensor,
    unit: Tensor,
    children: Sequence[Tensor],
    gates: Gates,
    generator: torch.Generator | None,
) -> list[Tensor]:
    """A joint cell and a unit in each of its factors: terms (n, K_1, ..., K_m, n_1, ..., n_m)."""
    region = circuit.graph.regions[index]
    per_cell = region.units // region.cells
    cells = [circuit.graph.regions[c].cells for c in region.children]
    m = len(cells)
    terms = weight[expert, unit % per_cell].unflatten(1, cells)
    route = gates.routes.get(index)
    if route is not None:
        share = route.double()[unit // per_cell].unflatten(1, cells)
        terms = terms + share.reshape(*share.shape, *[1] * m)
    for slot, (child, k) in enumerate(zip(children, cells, strict=True)):
        shape = [1] * (2 * m)
        shape[slot], shape[m + slot] = k, child.shape[1] // k
        terms = terms + child.view(-1, *shape)
    found = _unravel(categorical(terms.flatten(1), generator), terms.shape[1:])
    sizes = terms.shape[1 + m :]
    return [cell * size + u for cell, u, size in zip(found[:m], found[m:], sizes, strict=True)]


def _unravel(flat: Tensor, shape: Sequence[int]) -> list[Tensor]:
    """Positions in a flattened array, one index tensor for each axis."""
    found: list[Tensor] = []
    for size in reversed(shape):
        found.insert(0, flat % size)
        flat = flat // size
    return found


def categorical(log_weights: Tensor, generator: torch.Generator | None) -> Tensor:
    """One index a row, with probability proportional to exp(log_weights): (n, I) -> (n,).

    >>> categorical(torch.tensor([[0.0, -torch.inf]]), None).tolist()
    [0]
    """
    uniform = torch.rand(log_weights.shape, generator=generator, dtype=torch.float64)
    return (log_weights - (-uniform.log()).log()).argmax(-1)


def _leaf(
    circuit: FoldedCircuit,
    index: int,
    question: Question,
    row: Tensor,
    expert: Tensor,
    unit: Tensor,
    gates: Gates,
    generator: torch.Generator | None,
) -> Tensor:
    """A leaf's variable: what the question gives, or a draw of the unit within interval and support."""
    leaf, position = circuit.leaf(index)
    variable = circuit.graph.regions[index].scope[0]
    low = torch.full(row.shape, -torch.inf, dtype=torch.float64)
    high = -low
    if question.low is not None and question.high is not None:
        low, high = (_at(side, expert, row, variable) for side in (question.low, question.high))
    if index in gates.supports:
        support = gates.supports[index]
        low = torch.maximum(low, support[0].double()[unit])
        high = torch.minimum(high, support[1].double()[unit])
    drawn = leaf.draw(expert, torch.full_like(unit, position), unit, low, high, generator).double()
    if question.x is None:
        return drawn
    given = _at(question.x, expert, row, variable)
    return torch.where(torch.isnan(given), drawn, given)


def _at(rows: Tensor, expert: Tensor, row: Tensor, variable: int) -> Tensor:
    """Entries of a question's tensor, (B, D) or (E, B, D)."""
    picked = rows[row, variable] if rows.dim() == 2 else rows[expert, row, variable]
    return picked.double()
