"""Region graphs: the structure of a circuit as plain data, checked before any tensor exists."""

# D variables. A position is the index of a region in its graph: children come first, the root last.

from __future__ import annotations

import json
import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from difflib import get_close_matches
from itertools import pairwise
from math import prod
from typing import Any, SupportsIndex, cast

KINDS = ("leaf", "sum", "cp", "tucker", "joint")
PRODUCTS = ("cp", "tucker", "joint")
FORMAT, VERSION = "voronoi-circuits region graph", 1


class StructureError(ValueError):
    """A structure that cannot be what it is asked to be; the message names the region and says what to do."""


def valid_name(parameter: str, name: str, names: Sequence[str]) -> str:
    """The name, if it is one of the names; otherwise an error with the nearest valid one.

    >>> valid_name("product", "cp", ("cp", "tucker"))
    'cp'
    """
    if name not in names:
        near = get_close_matches(str(name), names, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]!r}?)" if near else ""
        raise StructureError(f"unknown {parameter} {name!r}{hint}; use one of {', '.join(map(repr, names))}")
    return name


def _whole(field: str, value: SupportsIndex) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise StructureError(f"{field} must hold whole numbers, got {value!r}") from None


@dataclass(frozen=True)
class Region:
    """A scope and its units: a leaf, or one way to put earlier regions together. `RegionGraph` checks it.

    >>> Region(scope=(0, 2), units=4, kind="cp", children=(0, 1)).scope
    (0, 2)
    """

    scope: tuple[int, ...]
    units: int
    kind: str
    children: tuple[int, ...] = ()
    leaf: str = ""
    cells: int = 1

    def __post_init__(self) -> None:
        for field in ("scope", "children"):
            object.__setattr__(self, field, tuple(_whole(field, v) for v in getattr(self, field)))
        for field in ("units", "cells"):
            object.__setattr__(self, field, _whole(field, getattr(self, field)))


def scope_name(scope: Sequence[int]) -> str:
    """A scope in few words: runs of neighbours are joined, and a long list is cut.

    >>> scope_name((0, 1, 2, 5)), scope_name(range(0, 40, 2))
    ('0-2, 5', '0, 2, 4, 6, 8, 10, ... (20 variables)')
    """
    breaks = [0, *(i for i, (a, b) in enumerate(pairwise(scope), 1) if b != a + 1), len(scope)]
    runs = [scope[a:b] for a, b in pairwise(breaks) if a < b]
    words = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return ", ".join(words) if len(words) <= 6 else ", ".join(words[:6]) + f", ... ({len(scope)} variables)"


def region_name(position: int, region: Region) -> str:
    """How messages call a region.

    >>> region_name(4, Region((0, 1), 3, "tucker", (2, 3)))
    'region 4 (tucker over variables 0-1)'
    """
    variables = "variable" if len(region.scope) == 1 else "variables"
    return f"region {position} ({region.kind} over {variables} {scope_name(region.scope) or 'none'})"


def children_faults(regions: Sequence[Region], position: int) -> Iterator[str]:
    """What is wrong with the positions of a region's children."""
    for child in regions[position].children:
        if not 0 <= child < position:
            yield f"its child {child} is not an earlier region; list children before their parents"
    for child, count in Counter(regions[position].children).items():
        if count > 1:
            yield f"it names child {child} {count} times; name each child once"


def smoothness_faults(regions: Sequence[Region], position: int) -> Iterator[str]:
    """Smoothness: the inputs of a sum share its scope."""
    region = regions[position]
    for child in region.children if region.kind == "sum" else ():
        if set(regions[child].scope) != set(region.scope):
            yield (
                f"it sums {region_name(child, regions[child])}, whose scope is not its own, so it is not "
                "smooth; sum regions of one scope only"
            )


def decomposability_faults(regions: Sequence[Region], position: int) -> Iterator[str]:
    """Decomposability: the factors of a product are disjoint, and together they are its scope."""
    region = regions[position]
    if region.kind not in PRODUCTS:
        return
    seen = Counter(v for child in region.children for v in regions[child].scope)
    shared = sorted(v for v, count in seen.items() if count > 1)
    if shared:
        yield f"its children share {scope_name(shared)}, so it is not decomposable; give it disjoint children"
    if missing := sorted(set(region.scope) - set(seen)):
        yield f"no child of it covers {scope_name(missing)}; add a child that does, or shrink its scope"
    if extra := sorted(set(seen) - set(region.scope)):
        yield f"its children cover {scope_name(extra)} outside its scope; its scope is their union"


def _shape_faults(region: Region) -> Iterator[str]:
    if not region.scope or list(region.scope) != sorted(set(region.scope)) or region.scope[0] < 0:
        yield f"its scope is {region.scope}; give one or more variables from 0 on, sorted and without repeats"
    if region.units < 1:
        yield f"it has {region.units} units; give it at least 1"
    if region.cells < 1 or region.units % region.cells:
        yield f"its {region.units} units do not divide into {region.cells} cells; make them a multiple"
    if region.kind == "leaf":
        if len(region.scope) != 1:
            yield "a leaf covers one variable; split its scope over several leaves"
        if region.children:
            yield f"a leaf has no children, got {region.children}; remove them or change its kind"
        if not region.leaf:
            yield "a leaf needs a family; name one, such as leaf='gaussian'"
        return
    if region.leaf:
        yield f"it names the leaf family {region.leaf!r} and is no leaf; remove it or make the kind 'leaf'"
    low, high = {"sum": (1, None), "cp": (2, None), "tucker": (2, 2), "joint": (2, 3)}[region.kind]
    count = len(region.children)
    if count < low:
        hint = "a product of one is kind 'sum'" if count == 1 else "name them"
        yield f"it has {count} children and kind {region.kind!r} takes at least {low}; {hint}"
    if high is not None and count > high:
        yield f"it has {count} children and kind {region.kind!r} takes at most {high}; binarise the partition"


def _cell_faults(regions: Sequence[Region], position: int) -> Iterator[str]:
    """The cells of a joint region are made of its factors' cells, which are intervals or joint themselves."""
    region = regions[position]
    if region.kind != "joint":
        return
    for child in region.children:
        if regions[child].cells > 1 and regions[child].kind not in ("leaf", "joint"):
            yield (
                f"its factor {region_name(child, regions[child])} has {regions[child].cells} cells that are "
                "no products of intervals, so inference is not exact; make it a leaf or a joint region"
            )
    available = prod(regions[child].cells for child in region.children)
    if region.cells > available:
        yield (
            f"it has {region.cells} cells and its factors make only {available} joint cells; "
            f"ask for at most {available}, or give its factors more"
        )


def _faults(regions: Sequence[Region], position: int) -> Iterator[str]:
    valid_name("kind", regions[position].kind, KINDS)
    yield from _shape_faults(regions[position])
    yield from children_faults(regions, position)
    yield from smoothness_faults(regions, position)
    yield from decomposability_faults(regions, position)
    yield from _cell_faults(regions, position)


@dataclass(frozen=True)
class RegionGraph:
    """A smooth and decomposable structure; building one checks it, and a fault raises a `StructureError`.

    A region may have several parents (a DAG with one root); only within one parent must children differ.

    >>> leaves = [Region((v,), units=3, kind="leaf", leaf="gaussian") for v in range(2)]
    >>> graph = RegionGraph((*leaves, Region((0, 1), units=1, kind="tucker", children=(0, 1))))
    >>> graph.n_variables, graph.root, graph.height()
    (2, 2, (0, 0, 1))
    """

    regions: tuple[Region, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "regions", tuple(self.regions))
        if not self.regions:
            raise StructureError("a region graph needs at least one region")
        for position, region in enumerate(self.regions):
            try:
                fault = next(_faults(self.regions, position), "")
            except StructureError as error:
                fault = str(error)
            if fault:
                raise StructureError(f"{region_name(position, region)}: {fault}")
        for position, above in enumerate(self.parents()[:-1]):
            if not above:
                raise StructureError(
                    f"{self.name(position)}: it is not reachable from the root, the last region; remove it"
                )
        scope = self.regions[self.root].scope
        if scope != tuple(range(len(scope))):
            raise StructureError(
                f"{self.name(self.root)}: the root must cover variables 0 to D-1 without a gap; renumber them"
            )

    @property
    def n_variables(self) -> int:
        """D, the number of variables."""
        return len(self.regions[-1].scope)

    @property
    def root(self) -> int:
        """The position of the root."""
        return len(self.regions) - 1

    def name(self, position: int) -> str:
        """How messages call the region at a position."""
        return region_name(position, self.regions[position])

    def parents(self) -> tuple[tuple[int, ...], ...]:
        """The positions of each region's parents."""
        above: list[list[int]] = [[] for _ in self.regions]
        for position, region in enumerate(self.regions):
            for child in region.children:
                above[child].append(position)
        return tuple(map(tuple, above))

    def height(self) -> tuple[int, ...]:
        """The longest way down from each region to a leaf; regions of one height can be computed together."""
        heights: list[int] = []
        for region in self.regions:
            heights.append(1 + max((heights[child] for child in region.children), default=-1))
        return tuple(heights)

    def depth(self) -> tuple[int, ...]:
        """The longest way down from the root to each region."""
        depths = [0] * len(self.regions)
        for position in reversed(range(len(self.regions))):
            for child in self.regions[position].children:
                depths[child] = max(depths[child], depths[position] + 1)
        return tuple(depths)

    def leaf_families(self) -> dict[str, tuple[int, ...]]:
        """The positions of the leaf regions of each family."""
        leaves = [(r.leaf, p) for p, r in enumerate(self.regions) if r.kind == "leaf"]
        return {family: tuple(p for f, p in leaves if f == family) for family in dict(leaves)}

    def with_units(self, units: int | Mapping[int, int]) -> RegionGraph:
        """The graph with these units at every region but the root, or at the positions of a mapping."""
        new = dict(units) if isinstance(units, Mapping) else dict.fromkeys(range(self.root), units)
        if unknown := sorted(set(new) - set(range(len(self.regions)))):
            raise StructureError(f"units names region {unknown[0]}; the graph has regions 0 to {self.root}")
        return RegionGraph(tuple(replace(r, units=new.get(p, r.units)) for p, r in enumerate(self.regions)))

    def with_roots(self, roots: int) -> RegionGraph:
        """The graph with this many units at its root."""
        return self.with_units({self.root: roots})

    def describe(self) -> str:
        """The graph as a tree of text, from the root down; a shared region's children are written once."""
        lines: list[str] = []
        written: set[int] = set()
        stack = [(self.root, "", "")]
        while stack:
            position, first, rest = stack.pop()
            region = self.regions[position]
            family = f" {region.leaf}" if region.leaf else ""
            cells = f" in {region.cells} cells" if region.cells > 1 else ""
            again = " (above)" if position in written and region.children else ""
            units = "1 unit" if region.units == 1 else f"{region.units} units"
            about = f"{region.kind}{family} over {scope_name(region.scope)}, {units}{cells}{again}"
            lines.append(f"{first}{position}: {about}")
            if position not in written:
                for child in reversed(region.children):
                    last = child == region.children[-1]
                    branch, below = ("└─ ", "   ") if last else ("├─ ", "│  ")
                    stack.append((child, rest + branch, rest + below))
            written.add(position)
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.describe()

    def to_json(self) -> str:
        """The graph as JSON, with the version of the format."""
        return json.dumps({"format": FORMAT, "version": VERSION, "regions": list(map(asdict, self.regions))})

    @staticmethod
    def from_json(text: str) -> RegionGraph:
        """The graph that `to_json` wrote, checked again."""
        try:
            document: object = json.loads(text)
        except json.JSONDecodeError as error:
            raise StructureError(f"not JSON: {error}; give what RegionGraph.to_json wrote") from None
        if not isinstance(document, dict) or cast("dict[str, object]", document).get("format") != FORMAT:
            raise StructureError(f"'format' is not {FORMAT!r}; give what RegionGraph.to_json wrote")
        content = cast("dict[str, object]", document)
        if content.get("version") != VERSION:
            raise StructureError(f"'version' is {content.get('version')!r} and this library reads {VERSION}")
        entries = content.get("regions")
        if not isinstance(entries, list):
            raise StructureError("'regions' is not a list of regions")
        return RegionGraph(tuple(_region(p, entry) for p, entry in enumerate(cast("list[object]", entries))))


def _region(position: int, entry: object) -> Region:
    """One region of the JSON form: an object with the fields of `Region`, each of its own type."""
    types = {"scope": list, "units": int, "kind": str, "children": list, "leaf": str, "cells": int}
    if not isinstance(entry, dict):
        raise StructureError(f"regions[{position}] is not an object")
    values = cast("dict[str, object]", entry)
    names = [field.name for field in fields(Region)]
    for field in [*values, *names]:
        if field not in names:
            raise StructureError(f"regions[{position}] has an unknown field {field!r}; use {names}")
        if field not in values:
            raise StructureError(f"regions[{position}] has no field {field!r}")
        if type(values[field]) is not types[field]:
            kind = types[field].__name__
            raise StructureError(f"regions[{position}].{field} is {values[field]!r}, not of type {kind}")
    try:
        return Region(**cast("dict[str, Any]", values))
    except StructureError as error:
        raise StructureError(f"regions[{position}]: {error}") from None
