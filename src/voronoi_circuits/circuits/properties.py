"""Structural properties that one can ask of any circuit, each answered with the reason."""

# Regions are asked as a checked graph or as a bare list, so that a wrong structure gets an answer too.

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from voronoi_circuits.circuits.region_graph import (
    Region,
    RegionGraph,
    children_faults,
    decomposability_faults,
    region_name,
    smoothness_faults,
)

NO_GATES: Mapping[int, int] = MappingProxyType({})


@dataclass(frozen=True)
class Property:
    """Whether a property holds, and why; its truth value is `holds`.

    >>> "smooth" if Property(True, "it has no sums") else "not smooth"
    'smooth'
    """

    holds: bool
    reason: str

    def __bool__(self) -> bool:
        return self.holds


def smoothness(graph: RegionGraph | Sequence[Region]) -> Property:
    """Smoothness: the inputs of every sum share its scope.

    >>> leaves = [Region((v,), 2, "leaf", leaf="gaussian") for v in range(2)]
    >>> print(smoothness([*leaves, Region((0, 1), 1, "sum", (0, 1))]).reason)
    region 2 (sum over variables 0-1): it sums region 0 (leaf over variable 0), whose scope is not ...
    """
    return _everywhere(graph, smoothness_faults, "the inputs of every sum share its scope")


def decomposability(graph: RegionGraph | Sequence[Region]) -> Property:
    """Decomposability: the factors of every product have disjoint scopes, and together they are its scope.

    >>> leaves = [Region((v,), 2, "leaf", leaf="gaussian") for v in range(2)]
    >>> decomposability([*leaves, Region((0, 1), 1, "tucker", (0, 1))]).reason
    'the factors of every product are disjoint and make up its scope'
    """
    reason = "the factors of every product are disjoint and make up its scope"
    return _everywhere(graph, decomposability_faults, reason)


def determinism(graph: RegionGraph, gated: Mapping[int, int] = NO_GATES) -> Property:
    """Determinism: at every complete row at most one input of a sum is not 0, but for facets of measure 0.

    Args:
        graph: the structure; its root units are not summed here.
        gated: the regions with a hard gate, and the number of cells that its units are divided into
            (unit = cell * units_per_cell + u).

    >>> leaves = [Region((v,), 2, "leaf", leaf="gaussian") for v in range(2)]
    >>> graph = RegionGraph((*leaves, Region((0, 1), 1, "tucker", (0, 1))))
    >>> print(determinism(graph, gated={0: 2}).reason)
    region 2 (tucker over variables 0-1): it sums the 2 units of region 1 (leaf over variable 1), which ...
    >>> determinism(graph, gated={0: 2, 1: 2}).holds
    True
    """
    for position, answer in enumerate(determinism_by_region(graph, gated)):
        if not answer:
            return Property(False, f"{graph.name(position)}: {answer.reason}")
    return Property(
        True, "every sum has one input, or inputs on disjoint cells (facets, of measure 0, aside)"
    )


def determinism_by_region(graph: RegionGraph, gated: Mapping[int, int] = NO_GATES) -> tuple[Property, ...]:
    """For each region, whether the sums it takes over its children's units are deterministic.

    CP mixes the units of each child, Tucker and joint regions sum over pairs of units: either way two inputs
    are disjoint where two units of one child are. A sum region of several children also sums over those.

    >>> leaf = Region((0,), 2, "leaf", leaf="gaussian")
    >>> [p.reason for p in determinism_by_region(RegionGraph((leaf, Region((0,), 1, "sum", (0,)))), {0: 2})]
    ['it has no sum', 'it sums over disjoint cells']
    """
    for position, cells in gated.items():
        if not 0 <= position <= graph.root:
            raise ValueError(f"gated names region {position}; the graph has regions 0 to {graph.root}")
        if cells < 1 or graph.regions[position].units % cells:
            raise ValueError(
                f"gated gives {graph.name(position)} {cells} cells, and it has "
                f"{graph.regions[position].units} units; give a number of cells that divides them"
            )
    return tuple(_deterministic(graph, region, gated) for region in graph.regions)


def _deterministic(graph: RegionGraph, region: Region, gated: Mapping[int, int]) -> Property:
    if region.kind == "leaf":
        return Property(True, "it has no sum")
    if region.kind == "sum" and len(region.children) > 1:
        return Property(
            False, f"it sums over {len(region.children)} children, which may all be positive on a row"
        )
    for child in region.children:
        units, cells = graph.regions[child].units, gated.get(child, 1)
        if units > cells:
            why = (
                f"share {cells} cells, {units // cells} to each" if cells > 1 else "no hard gate tells apart"
            )
            return Property(False, f"it sums the {units} units of {graph.name(child)}, which {why}")
    if all(graph.regions[child].units == 1 for child in region.children):
        return Property(True, "each of its sums has one input")
    return Property(True, "it sums over disjoint cells")


def _everywhere(
    graph: RegionGraph | Sequence[Region],
    faults: Callable[[Sequence[Region], int], Iterable[str]],
    reason: str,
) -> Property:
    """No region has such a fault; the first that has one is the reason."""
    regions = graph.regions if isinstance(graph, RegionGraph) else graph
    for position, region in enumerate(regions):
        for check in (children_faults, faults):
            for fault in check(regions, position):
                return Property(False, f"{region_name(position, region)}: {fault}")
    return Property(True, reason)
