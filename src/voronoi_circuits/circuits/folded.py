"""A region graph turned into layers, and the one bottom-up pass that answers every question.

# B rows, D variables, E experts, F folded regions, U units; values (E, F, U, B)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.layers import CPLayer, JointLayer, Layer, SumLayer, TuckerLayer
from voronoi_circuits.circuits.leaves import Leaf, leaf_family
from voronoi_circuits.circuits.questions import OPEN, Gates, Question
from voronoi_circuits.circuits.region_graph import Region, RegionGraph

LeafOptions = Mapping[int, Mapping[str, Any]]
_PLAIN: dict[str, Callable[..., Layer]] = {"sum": SumLayer, "cp": CPLayer, "tucker": TuckerLayer}


@dataclass(frozen=True)
class Fold:
    """The regions of one layer, by position, and for each child slot the places its children come from."""

    regions: tuple[int, ...]
    slots: tuple[tuple[tuple[int, int], ...], ...]


class Values:
    """The log values of a pass: one tensor (E, F, U, B) a layer, read region by region."""

    def __init__(self, place: Sequence[tuple[int, int]]) -> None:
        self._place = place
        self.layers: list[Tensor] = []

    def __getitem__(self, region: int) -> Tensor:
        """The values (E, U, B) of one region."""
        layer, position = self._place[region]
        return self.layers[layer][:, position]

    def gather(self, places: Sequence[tuple[int, int]]) -> Tensor:
        """The values of several regions side by side, (E, F, U, B)."""
        layer, first = places[0]
        if all(place == (layer, first + i) for i, place in enumerate(places)):
            return self.layers[layer].narrow(1, first, len(places))
        return torch.stack([self.layers[at][:, position] for at, position in places], 1)


class FoldedCircuit(nn.Module):
    """``experts`` circuits on one region graph, evaluated together.

    Parameters lead with [E, F, ...]; a plain circuit has one expert, K independent circuits have E = K.

    >>> from voronoi_circuits.circuits.structures import random_binary_tree
    >>> graph = random_binary_tree(2, units=3, generator=torch.Generator().manual_seed(0))
    >>> circuit = FoldedCircuit(graph)
    >>> circuit(Question.everything(2)).shape
    torch.Size([1, 1, 1])
    """

    def __init__(self, graph: RegionGraph, experts: int = 1, leaf_options: LeafOptions | None = None) -> None:
        super().__init__()
        self.graph, self.n_experts = graph, experts
        self.leaf_options = {v: dict(o) for v, o in (leaf_options or {}).items()}
        self.folds, self._place = _fold(graph, self.leaf_options)
        self.layers = nn.ModuleList(self._layer(fold) for fold in self.folds)

    def _layer(self, fold: Fold) -> nn.Module:
        regions = self.graph.regions
        first = regions[fold.regions[0]]
        if first.kind == "leaf":
            options = self.leaf_options.get(first.scope[0], {})
            return leaf_family(first.leaf)(self.n_experts, len(fold.regions), first.units, **options)
        children = [regions[c] for c in first.children]
        sizes = [child.units for child in children]
        if first.kind == "joint":
            cells = [child.cells for child in children]
            return JointLayer(self.n_experts, len(fold.regions), first.units, sizes, first.cells, cells)
        return _PLAIN[first.kind](self.n_experts, len(fold.regions), first.units, sizes)

    def start(self, rows: Tensor, generator: torch.Generator | None, weights: Tensor | None = None) -> None:
        """Starts the leaves from the rows (B, D), weighted (E, B) for each expert, and weights at random."""
        for fold, layer in zip(self.folds, self.layers, strict=True):
            if isinstance(layer, Leaf):
                layer.start(rows[:, self._variables(fold)], generator, weights)
            elif isinstance(layer, Layer):
                layer.start(generator)

    def _variables(self, fold: Fold) -> list[int]:
        return [self.graph.regions[r].scope[0] for r in fold.regions]

    def forward(
        self, question: Question, gates: Gates = OPEN, experts: Tensor | None = None, outward: int = 0
    ) -> Tensor:
        """The log values of the roots, (E, roots, B)."""
        return self.run(question, gates, experts, outward)[len(self.graph.regions) - 1]

    def run(
        self,
        question: Question,
        gates: Gates = OPEN,
        experts: Tensor | None = None,
        outward: int = 0,
        upto: int | None = None,
    ) -> Values:
        """The log values of all regions, or of those folded no later than region ``upto``.

        ``experts`` picks (and may repeat) entries of the expert axis. ``outward`` = +1 or -1 gives values
        that are proven to lie above or below the exact ones (docs/bounds.md).
        """
        values = Values(self._place)
        last = len(self.folds) - 1 if upto is None else self._place[upto][0]
        for fold, layer in zip(self.folds[: last + 1], self.layers, strict=False):
            if isinstance(layer, Leaf):
                out = self._ask(layer, fold, question, gates, experts)
                out = out if outward == 0 else out + outward * layer.rounding(out)
            else:
                children = [values.gather(slot) for slot in fold.slots]
                routes = [gates.routes.get(r) for r in fold.regions]
                out = layer(children, experts, routes, outward)
            values.layers.append(_gated(out, fold, gates))
        return values

    def _ask(
        self, leaf: Leaf, fold: Fold, question: Question, gates: Gates, experts: Tensor | None
    ) -> Tensor:
        """The leaves (E, F, U, B): density at a point, mass elsewhere, within the units' supports."""
        variables = self._variables(fold)
        low, high = _supports(fold, gates, self.graph.regions[fold.regions[0]].units)
        point = None if question.x is None else _columns(question.x, variables)
        if point is None:
            return leaf.log_mass(*_interval(question, variables, low, high), experts)
        missing = None if question.complete else torch.isnan(point)
        safe = point if missing is None else torch.where(missing, 0.0, point)
        density = leaf.log_density(safe, experts)
        if low is not None and high is not None:
            density = torch.where((low < safe.double()) & (safe.double() <= high), density, -torch.inf)
        if missing is None:
            return density
        if low is None and question.low is None:
            return torch.where(missing, 0.0, density)
        mass = leaf.log_mass(*_interval(question, variables, low, high), experts)
        return torch.where(missing, mass, density)

    def weights(self, region: int) -> tuple[Tensor, ...]:
        """The float64 weights of a region: (E, U, I), (E, U, I, J) for tucker, (E, u, P, ...) for joint.

        A cp region has one such (E, U, I) for each child.
        """
        layer, position = self._place[region]
        module = self.layers[layer]
        if isinstance(module, CPLayer):
            count = len(self.folds[layer].regions)
            edges = range(len(self.folds[layer].slots))
            return tuple(torch.softmax(module.edge(slot, position, count).double(), -1) for slot in edges)
        if isinstance(module, SumLayer | TuckerLayer | JointLayer):
            logits = module.weight[:, position].double()
            return (torch.softmax(logits.flatten(2), -1).view_as(logits),)
        raise ValueError(f"region {region} is a leaf: it has no weights")

    def leaf(self, region: int) -> tuple[Leaf, int]:
        """The leaf layer that holds a leaf region, and the region's position in it."""
        layer, position = self._place[region]
        module = self.layers[layer]
        if not isinstance(module, Leaf):
            raise ValueError(f"region {region} is not a leaf")
        return module, position


def _columns(rows: Tensor, variables: list[int]) -> Tensor:
    """(B, D) or (E, B, D) -> (E|1, F, 1, B): each leaf region's own column."""
    columns = rows.mT
    if variables != list(range(rows.shape[-1])):
        columns = columns[..., variables, :]
    return columns.unsqueeze(-2) if rows.dim() == 3 else columns.unsqueeze(-2).unsqueeze(0)


def _supports(fold: Fold, gates: Gates, units: int) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """The intervals (F, U, 1), float64, that a leaf layer's units are restricted to; None without any."""
    found = [gates.supports[region] for region in fold.regions if region in gates.supports]
    if not found:
        return None, None
    end = found[0][0].new_full((units,), torch.inf)
    sides = [gates.supports.get(region, (-end, end)) for region in fold.regions]
    low, high = (torch.stack([side[i].double() for side in sides]).unsqueeze(-1) for i in (0, 1))
    return low, high


def _interval(
    question: Question, variables: list[int], low: Tensor | None, high: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The interval asked for, met with the units' supports."""
    if question.low is None or question.high is None:
        shape = _columns(question.template, variables)
        asked = (torch.full_like(shape, -torch.inf), torch.full_like(shape, torch.inf))
    else:
        asked = (_columns(question.low, variables), _columns(question.high, variables))
    if low is None or high is None:
        return asked
    return torch.maximum(asked[0], low.to(asked[0])), torch.minimum(asked[1], high.to(asked[1]))


def _gated(out: Tensor, fold: Fold, gates: Gates) -> Tensor:
    """Lets the gates of a layer's regions act on their values."""
    if not any(region in gates.values for region in fold.regions):
        return out
    parts = [
        gates.values[r](part) if r in gates.values else part
        for r, part in zip(fold.regions, out.unbind(1), strict=True)
    ]
    return torch.stack(parts, 1)


def _fold(graph: RegionGraph, options: LeafOptions) -> tuple[list[Fold], list[tuple[int, int]]]:
    """Groups regions of one height, kind and size; the children in one slot lie side by side."""
    regions = graph.regions
    height = [0] * len(regions)
    slot, parent = [0] * len(regions), [len(regions)] * len(regions)
    for index, region in enumerate(regions):
        height[index] = 1 + max((height[c] for c in region.children), default=-1)
        for position, child in enumerate(region.children):
            slot[child], parent[child] = position, index
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, region in enumerate(regions):
        key = (height[index], *_kind(region, regions, options))
        groups.setdefault(key, []).append(index)
    ordered = sorted(groups.items(), key=lambda item: item[0][0])
    rank: dict[int, tuple[int, ...]] = {len(regions): ()}
    layers: list[list[int]] = []
    for _, members in reversed(ordered):
        members.sort(key=lambda r: (slot[r], rank[parent[r]], r))
        rank |= {r: (i,) for i, r in enumerate(members)}
        layers.insert(0, members)
    place = [(0, 0)] * len(regions)
    for at, members in enumerate(layers):
        for position, region in enumerate(members):
            place[region] = (at, position)
    folds = [
        Fold(
            tuple(members),
            tuple(
                tuple(place[regions[r].children[s]] for r in members)
                for s in range(len(regions[members[0]].children))
            ),
        )
        for members in layers
    ]
    return folds, place


def _kind(region: Region, regions: Sequence[Region], options: LeafOptions) -> tuple[Any, ...]:
    """What regions must share to be folded together."""
    if region.kind == "leaf":
        given = options.get(region.scope[0], {})
        return ("leaf", region.leaf, region.units, tuple(sorted((k, str(v)) for k, v in given.items())))
    children = tuple((regions[c].units, regions[c].cells) for c in region.children)
    return (region.kind, region.units, region.cells, children)
