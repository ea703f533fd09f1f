"""Builders of region graphs: EinsumNet's random binary tree, the hidden Chow-Liu tree, their HFV form."""

# D variables, U units, K cells. A draft is a growing list of regions; builders speak in positions within it.

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import chain

import torch

from voronoi_circuits.circuits.region_graph import (
    PRODUCTS,
    Region,
    RegionGraph,
    StructureError,
    scope_name,
    valid_name,
)

Size = Callable[[tuple[int, ...], tuple[int, ...]], tuple[int, int]]  # (scope, children) -> (units, cells)


class _Draft:
    def __init__(self) -> None:
        self.regions: list[Region] = []

    def add(self, region: Region) -> int:
        self.regions.append(region)
        return len(self.regions) - 1

    def scope(self, children: Sequence[int]) -> tuple[int, ...]:
        return tuple(sorted(set(chain.from_iterable(self.regions[child].scope for child in children))))

    def product(self, kind: str, children: tuple[int, ...], units: int, cells: int = 1) -> int:
        return self.add(Region(self.scope(children), units, kind, children, cells=cells))

    def pairs(self, kind: str, children: tuple[int, ...], size: Size, widest: int = 2) -> tuple[int, ...]:
        """A wide partition as a chain of pairs ((c1, c2), c3), ...: the children of the last one."""
        if len(children) <= widest:
            return children
        first, *middle, last = children
        for child in middle:
            pair = (first, child)
            first = self.product(kind, pair, *size(self.scope(pair), pair))
        return first, last

    def largest(self, scope: tuple[int, ...], children: tuple[int, ...]) -> tuple[int, int]:
        """The size of a region that a chain of pairs brings in: its children's units."""
        return max(self.regions[child].units for child in children), 1

    def rooted(self, tops: Sequence[int], roots: int) -> RegionGraph:
        """The graph with one root above the tops; a single Tucker region has the roots and is the root."""
        if len(tops) > 1 or self.regions[tops[0]].kind != "tucker":
            self.add(Region(self.scope(tops), roots, "sum", tuple(tops)))
        return RegionGraph(tuple(self.regions))


def _families(leaf: str | Sequence[str], n_variables: int) -> list[str]:
    families = [leaf] * n_variables if isinstance(leaf, str) else list(leaf)
    if len(families) != n_variables:
        raise StructureError(
            f"leaf names {len(families)} families for {n_variables} variables; name each once"
        )
    return families


def _positive(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise StructureError(f"{name} must be at least 1, got {count}")


def random_binary_tree(
    n_variables: int,
    *,
    units: int,
    roots: int = 1,
    product: str = "tucker",
    leaf: str | Sequence[str] = "gaussian",
    repetitions: int = 1,
    generator: torch.Generator,
) -> RegionGraph:
    """EinsumNet's random balanced binary tree: each scope is shuffled and halved, down to single variables.

    Every repetition is a tree of its own with leaves of its own; a sum region over them is the root. A Tucker
    tree has its roots at its top region, a CP tree in a sum region above it.

    >>> print(random_binary_tree(2, units=3, product="cp", generator=torch.Generator().manual_seed(0)))
    3: sum over 0-1, 1 unit
    └─ 2: cp over 0-1, 3 units
       ├─ 0: leaf gaussian over 0, 3 units
       └─ 1: leaf gaussian over 1, 3 units
    """
    _positive(n_variables=n_variables, units=units, roots=roots, repetitions=repetitions)
    kind = valid_name("product", product, PRODUCTS[:2])
    families = _families(leaf, n_variables)
    draft = _Draft()

    def grow(scope: list[int], top: bool = False) -> int:
        if len(scope) == 1:
            return draft.add(Region(tuple(scope), units, "leaf", leaf=families[scope[0]]))
        order = torch.randperm(len(scope), generator=generator)
        halves = [sorted(scope[int(i)] for i in half) for half in order.tensor_split(2)]
        children = tuple(map(grow, sorted(halves)))
        return draft.product(kind, children, roots if top and kind == "tucker" else units)

    return draft.rooted([grow(list(range(n_variables)), top=True) for _ in range(repetitions)], roots)


def hidden_chow_liu(
    parents: Sequence[int],
    *,
    units: int,
    roots: int = 1,
    product: str = "cp",
    leaf: str | Sequence[str] = "gaussian",
) -> RegionGraph:
    """The hidden Chow-Liu tree of a tree over variables: parents[i] is the parent of X_i, -1 at the root.

    Each X_i has a hidden variable Z_i above it, and the tree is that of the Z: the region of Z_i is the
    product of the leaf of X_i and of the regions of its children; for Tucker it is a chain of pairs.

    >>> print(hidden_chow_liu([1, -1, 1], units=3))
    4: sum over 0-2, 1 unit
    └─ 3: cp over 0-2, 3 units
       ├─ 2: leaf gaussian over 1, 3 units
       ├─ 1: leaf gaussian over 0, 3 units
       └─ 0: leaf gaussian over 2, 3 units
    """
    above = [int(parent) for parent in parents]
    _positive(n_variables=len(above), units=units, roots=roots)
    kind = valid_name("product", product, PRODUCTS[:2])
    families = _families(leaf, len(above))
    order, below = _tree(above)
    draft = _Draft()
    hidden: dict[int, int] = {}  # the region of Z_i
    for variable in reversed(order):
        top = draft.add(Region((variable,), units, "leaf", leaf=families[variable]))
        if below[variable]:
            factors = (top, *(hidden[child] for child in below[variable]))
            if kind == "tucker":
                factors = draft.pairs(kind, factors, draft.largest)
            top = draft.product(kind, factors, roots if kind == "tucker" and variable == order[0] else units)
        hidden[variable] = top
    return draft.rooted([hidden[order[0]]], roots)


def _tree(parents: list[int]) -> tuple[list[int], list[list[int]]]:
    """The variables of a tree, parents first, and the children of each."""
    for variable, parent in enumerate(parents):
        if not -1 <= parent < len(parents) or parent == variable:
            raise StructureError(f"parents[{variable}] is {parent}; name another variable, or -1 at the root")
    order = [variable for variable, parent in enumerate(parents) if parent == -1]
    if len(order) != 1:
        raise StructureError(f"parents has {len(order)} roots ({scope_name(order)}); write -1 exactly once")
    below: list[list[int]] = [[] for _ in parents]
    for variable, parent in enumerate(parents):
        if parent >= 0:
            below[parent].append(variable)
    for variable in order:
        order.extend(below[variable])
    if lost := sorted(set(range(len(parents))) - set(order)):
        raise StructureError(f"parents is no tree: {scope_name(lost)} hang on a circle; give one tree")
    return order, below


def binarise(graph: RegionGraph) -> RegionGraph:
    """The graph with each CP partition of more than two factors as a chain of pairs ((c1, c2), c3), ...

    A region that comes in between has as many units as the larger of its factors.

    >>> [r.kind for r in binarise(hidden_chow_liu([-1, 0, 0], units=3)).regions]
    ['leaf', 'leaf', 'leaf', 'cp', 'cp', 'sum']
    """
    draft, new = _Draft(), list[int]()
    for region in graph.regions:
        children = tuple(new[child] for child in region.children)
        if region.kind == "cp":
            children = draft.pairs("cp", children, draft.largest)
        new.append(draft.add(replace(region, children=children)))
    return RegionGraph(tuple(draft.regions))


def partition_levels(graph: RegionGraph) -> tuple[int, ...]:
    """The number of partitions above each region: the topmost has level 0, under a sum region or not.

    >>> partition_levels(hidden_chow_liu([-1, 0, 1], units=2))
    (2, 2, 1, 1, 0, 0)
    """
    levels = [0] * len(graph.regions)
    for position in reversed(range(len(graph.regions))):
        region = graph.regions[position]
        for child in region.children:
            levels[child] = max(levels[child], levels[position] + (region.kind in PRODUCTS))
    return tuple(levels)


def hfv_graph(
    graph: RegionGraph,
    cells: int | Mapping[int | tuple[int, ...], int],
    units_per_cell: int = 1,
    levels: str | Collection[int] = "all",
    continuous: Collection[int] | None = None,
    widest: int = 2,
) -> RegionGraph:
    """The graph with its partitions at these levels gated (Definition "HFV-Gated Sum Node"), exact by shape.

    A gated partition becomes a joint region. Each of its factors has cells x units_per_cell units: intervals
    where it is a leaf, products of intervals where it is joint. The topmost keep their units, in one cell.

    Args:
        graph: leaves, sum, CP and Tucker regions.
        cells: K for every gated factor, or one for each: keyed by variable, or by scope (a tuple).
        units_per_cell: units that share a cell.
        levels: "all", or levels of partitions (0 is the topmost). A gated partition's factors must be leaves
            or gated too: a cell of several ungated variables is oblique to their own split.
        continuous: the variables a gate may read, by default those without a categorical leaf. A factor
            without any has a single cell.
        widest: 2 or 3, the factors a gated partition may have; wider ones become chains of pairs.

    >>> print(hfv_graph(hidden_chow_liu([-1, 0], units=4), cells=3, units_per_cell=2))
    3: sum over 0-1, 1 unit
    └─ 2: joint over 0-1, 4 units
       ├─ 1: leaf gaussian over 0, 6 units in 3 cells
       └─ 0: leaf gaussian over 1, 6 units in 3 cells
    """
    _positive(units_per_cell=units_per_cell, **({} if isinstance(cells, Mapping) else {"cells": cells}))
    if widest not in (2, 3):
        raise StructureError(f"widest must be 2 or 3, got {widest}")
    if continuous is None:
        categorical = {region.scope[0] for region in graph.regions if region.leaf == "categorical"}
        continuous = set(range(graph.n_variables)) - categorical
    gated = _gated(graph, levels)
    factors = {child for position in gated for child in graph.regions[position].children}
    if graph.n_variables == 1:  # no partition to gate: the sum over the cells of the one variable is the gate
        factors = {position for position, region in enumerate(graph.regions) if region.kind == "leaf"}
    size, asked = _sizes(cells, units_per_cell, set(continuous))
    draft, new = _Draft(), list[int]()
    for position, region in enumerate(graph.regions):
        children = tuple(new[child] for child in region.children)
        if position in gated:
            children = draft.pairs("joint", children, size, widest)
        units, count = size(region.scope, children) if position in factors else (region.units, 1)
        kind = "joint" if position in gated else region.kind
        new.append(draft.add(replace(region, units=units, kind=kind, children=children, cells=count)))
    if isinstance(cells, Mapping) and (unused := sorted(set(map(_scope, cells)) - asked)):
        raise StructureError(
            f"cells names ({scope_name(unused[0])}), the scope of no gated factor; remove it"
        )
    return RegionGraph(tuple(draft.regions))


def _scope(key: int | tuple[int, ...]) -> tuple[int, ...]:
    return key if isinstance(key, tuple) else (key,)


def _sizes(
    cells: int | Mapping[int | tuple[int, ...], int], units_per_cell: int, continuous: set[int]
) -> tuple[Size, set[tuple[int, ...]]]:
    """The units and cells of a gated factor, and the scopes that were asked for so far."""
    asked: set[tuple[int, ...]] = set()
    chosen = {_scope(key): count for key, count in cells.items()} if isinstance(cells, Mapping) else {}

    def size(scope: tuple[int, ...], children: tuple[int, ...]) -> tuple[int, int]:
        asked.add(scope)
        readable = not continuous.isdisjoint(scope)
        default = 0 if isinstance(cells, Mapping) else cells
        count = chosen.get(scope, default if readable else 1)
        if count < 1:
            raise StructureError(
                f"cells gives gated factor ({scope_name(scope)}) no positive number; add one"
            )
        if count > 1 and not readable:
            raise StructureError(
                f"cells asks for {count} cells over ({scope_name(scope)}), where no variable is continuous "
                "and a gate has nothing to read; ask for 1"
            )
        return count * units_per_cell, count

    return size, asked


def _gated(graph: RegionGraph, levels: str | Collection[int]) -> set[int]:
    """The partitions to gate, or an error that names the region where inference would not be exact."""
    regions, at = graph.regions, partition_levels(graph)
    for position, region in enumerate(regions):
        if region.kind == "joint" or region.cells > 1:
            raise StructureError(f"{graph.name(position)}: it is gated already; give the graph without gates")
    partitions = [position for position, region in enumerate(regions) if region.kind in PRODUCTS]
    present = {at[position] for position in partitions}
    if isinstance(levels, str):
        chosen = present if valid_name("levels", levels, ("all",)) else set[int]()
    else:
        chosen = set(levels)
        if not chosen:
            raise StructureError('levels is empty, and HFV needs a gate; use "all" or levels such as [0, 1]')
        if unknown := sorted(chosen - present):
            raise StructureError(f"levels names {unknown[0]}; the partitions are at levels {sorted(present)}")
    gated = {position for position in partitions if at[position] in chosen}
    parents = graph.parents()
    for position in sorted(gated):
        for child in regions[position].children:
            if child not in gated and regions[child].kind != "leaf":
                is_sum = regions[child].kind == "sum"
                advice = "make it one partition or leaf" if is_sum else f"add {at[child]} to levels"
                raise StructureError(
                    f"{graph.name(child)}: it is a factor of gated {graph.name(position)} and not gated, so "
                    f"its cells would not follow its own split and inference not be exact; {advice}"
                )
            if ungated := [other for other in parents[child] if other not in gated]:
                raise StructureError(
                    f"{graph.name(child)}: gated {graph.name(position)} and ungated "
                    f"{graph.name(ungated[0])} share it; give each a region of its own"
                )
    return gated
