import json
import random
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.circuits.graphs import grow, random_regions
from voronoi_circuits.circuits.region_graph import Region, RegionGraph, StructureError, scope_name


def leaf(variable: int, units: int = 2, **options: int) -> Region:
    return Region((variable,), units, "leaf", leaf="gaussian", **options)


def node(
    kind: str, children: tuple[int, ...], scope: tuple[int, ...] = (0, 1), units: int = 1, **options
) -> Region:
    return Region(scope, units, kind, children, **options)


PAIR = (leaf(0), leaf(1))
THREE = (*PAIR, leaf(2))

FAULTS = {
    "empty": ((), "at least one region"),
    "kind": ((*PAIR, node("tuker", (0, 1))), r"region 2 .*unknown kind 'tuker' \(did you mean 'tucker'\?\)"),
    "kind, far from all": ((*PAIR, node("zzz", (0, 1))), "unknown kind 'zzz'; use one of 'leaf', 'sum'"),
    "empty scope": (
        (Region((), 1, "leaf", leaf="gaussian"),),
        r"region 0 \(leaf over variables none\): its scope",
    ),
    "unsorted scope": ((*PAIR, node("cp", (0, 1), (1, 0))), "region 2 .*sorted and without repeats"),
    "repeated scope": ((*PAIR, node("cp", (0, 1), (0, 0, 1))), "region 2 .*sorted and without repeats"),
    "negative scope": ((leaf(-1),), "region 0 .*from 0 on"),
    "units": (
        (leaf(0), leaf(1, units=0), node("cp", (0, 1))),
        r"region 1 \(leaf over variable 1\): it has 0 units",
    ),
    "cells": (
        (leaf(0, units=4, cells=3), leaf(1), node("cp", (0, 1))),
        "region 0 .*4 units do not divide into 3",
    ),
    "no cells": ((leaf(0, cells=0), leaf(1), node("cp", (0, 1))), "region 0 .*2 units do not divide into 0"),
    "wide leaf": ((Region((0, 1), 1, "leaf", leaf="gaussian"),), "region 0 .*a leaf covers one variable"),
    "leaf with children": ((leaf(0), replace(leaf(0), children=(0,))), r"region 1 .*no children, got \(0,\)"),
    "leaf without family": ((Region((0,), 1, "leaf"),), "region 0 .*a leaf needs a family"),
    "family without leaf": (
        (*PAIR, node("cp", (0, 1), leaf="gaussian")),
        "region 2 .*'gaussian' and is no leaf",
    ),
    "no children": (
        (*PAIR, node("sum", ())),
        "region 2 .*0 children and kind 'sum' takes at least 1; name them",
    ),
    "cp of one": (
        (leaf(0), node("cp", (0,), (0,))),
        "region 1 .*1 children and kind 'cp' takes at least 2; .*'sum'",
    ),
    "tucker of three": (
        (*THREE, node("tucker", (0, 1, 2), (0, 1, 2))),
        "region 3 .*takes at most 2; binarise",
    ),
    "joint of four": (
        (*THREE, leaf(3), node("joint", (0, 1, 2, 3), (0, 1, 2, 3))),
        "region 4 .*takes at most 3; binarise",
    ),
    "late child": ((leaf(0), node("cp", (0, 2)), leaf(1)), "region 1 .*child 2 is not an earlier region"),
    "negative child": ((leaf(0), node("cp", (0, -1))), "region 1 .*child -1 is not an earlier region"),
    "own child": ((leaf(0), node("sum", (1,), (0,))), "region 1 .*child 1 is not an earlier region"),
    "same child twice": ((leaf(0), node("sum", (0, 0), (0,))), "region 1 .*names child 0 2 times"),
    "not smooth": (
        (*PAIR, node("sum", (0, 1))),
        r"region 2 .*sums region 0 \(leaf over variable 0\).*not smooth",
    ),
    "not decomposable": (
        (leaf(0), leaf(0), leaf(1), node("cp", (0, 1, 2))),
        "region 3 .*children share 0, so it is not decomposable",
    ),
    "uncovered": ((*PAIR, node("tucker", (0, 1), (0, 1, 2))), "region 2 .*no child of it covers 2"),
    "covered too much": ((*THREE, node("cp", (0, 1, 2))), "region 3 .*children cover 2 outside its scope"),
    "oblique factor": (
        (*THREE, node("tucker", (0, 1), units=4, cells=2), node("joint", (2, 3), (0, 1, 2))),
        r"region 4 .*its factor region 3 \(tucker .*no products of intervals",
    ),
    "too many cells": (
        (leaf(0, cells=2), leaf(1), node("joint", (0, 1), units=3, cells=3)),
        "region 2 .*3 cells and its factors make only 2 joint cells; ask for at most 2",
    ),
    "unreachable": ((*THREE, node("cp", (0, 1))), r"region 2 \(leaf over variable 2\): it is not reachable"),
    "gap": ((leaf(0), leaf(2), node("cp", (0, 1), (0, 2))), r"region 2 .*variables 0 to D-1 without a gap"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_named(name):
    regions, message = FAULTS[name]
    with pytest.raises(StructureError, match=message):
        RegionGraph(regions)


def test_numbers_must_be_whole():
    with pytest.raises(StructureError, match=r"units must hold whole numbers, got 2\.5"):
        Region((0,), 2.5, "leaf", leaf="gaussian")
    with pytest.raises(StructureError, match="scope must hold whole numbers, got '0'"):
        Region(("0",), 2, "leaf", leaf="gaussian")
    assert type(Region((np.int64(3),), np.int32(2), "leaf").scope[0]) is int


def test_a_structure_error_is_a_value_error():
    assert issubclass(StructureError, ValueError)


@given(random_regions())
def test_every_smooth_and_decomposable_graph_is_accepted_and_survives_json(regions):
    graph = RegionGraph(tuple(regions))
    assert RegionGraph.from_json(graph.to_json()) == graph
    assert graph.n_variables == len(regions[-1].scope)
    assert graph.root == len(regions) - 1


@given(random_regions(max_variables=5), st.data())
def test_a_changed_scope_is_caught(regions, data):
    """Of the regions with children, none may change its scope and stay smooth or decomposable."""
    inner = [i for i, region in enumerate(regions) if region.children]
    if not inner:
        return
    position = data.draw(st.sampled_from(inner))
    scope = data.draw(
        st.sets(st.integers(0, 6), min_size=1).filter(lambda s: s != set(regions[position].scope))
    )
    regions[position] = replace(regions[position], scope=tuple(sorted(scope)))
    with pytest.raises(StructureError, match=rf"^region {position} "):
        RegionGraph(tuple(regions))


@given(random_regions())
def test_height_depth_and_parents_by_all_paths(regions):
    graph = RegionGraph(tuple(regions))

    def down(position: int) -> int:
        return max((1 + down(child) for child in regions[position].children), default=0)

    parents = [
        [p for p, r in enumerate(regions) if position in r.children] for position in range(len(regions))
    ]

    def up(position: int) -> int:
        return max((1 + up(parent) for parent in parents[position]), default=0)

    assert graph.parents() == tuple(map(tuple, parents))
    assert graph.height() == tuple(map(down, range(len(regions))))
    assert graph.depth() == tuple(map(up, range(len(regions))))


def test_units_and_roots_are_replaced():
    graph = RegionGraph((*PAIR, node("tucker", (0, 1), units=3)))
    assert [r.units for r in graph.with_units(7).regions] == [7, 7, 3]
    assert [r.units for r in graph.with_units({1: 5}).regions] == [2, 5, 3]
    assert [r.units for r in graph.with_roots(9).regions] == [2, 2, 9]
    with pytest.raises(StructureError, match="units names region 3; the graph has regions 0 to 2"):
        graph.with_units({3: 1})
    with pytest.raises(StructureError, match=r"region 2 .*0 units"):
        graph.with_roots(0)


def test_leaf_families_hold_the_positions_of_their_leaves():
    histogram = replace(leaf(1), leaf="histogram")
    graph = RegionGraph((leaf(0), histogram, leaf(2), node("cp", (0, 1, 2), (0, 1, 2))))
    assert graph.leaf_families() == {"gaussian": (0, 2), "histogram": (1,)}


def test_describe_shows_kinds_units_cells_and_sharing():
    regions = (
        leaf(0, units=4, cells=2),
        leaf(1),
        node("joint", (0, 1)),
        node("sum", (2,), units=3),
        node("sum", (2, 3)),
    )
    expected = """\
4: sum over 0-1, 1 unit
├─ 2: joint over 0-1, 1 unit
│  ├─ 0: leaf gaussian over 0, 4 units in 2 cells
│  └─ 1: leaf gaussian over 1, 2 units
└─ 3: sum over 0-1, 3 units
   └─ 2: joint over 0-1, 1 unit (above)"""
    assert str(RegionGraph(regions)) == RegionGraph(regions).describe() == expected


def test_scopes_are_written_short():
    assert scope_name((3,)) == "3"
    assert scope_name((0, 1, 4, 5, 6, 9)) == "0-1, 4-6, 9"
    assert scope_name(range(200)) == "0-199"
    assert scope_name(tuple(range(0, 200, 2))) == "0, 2, 4, 6, 8, 10, ... (100 variables)"


def changed(**entry: object) -> str:
    document = json.loads(RegionGraph((*PAIR, node("tucker", (0, 1)))).to_json())
    document["regions"][1] |= entry
    return json.dumps(document)


def without(key: str) -> str:
    document = json.loads(changed())
    del document["regions"][2][key]
    return json.dumps(document)


@pytest.mark.parametrize(
    "text, message",
    [
        ("{", "not JSON"),
        ("[]", "'format' is not 'voronoi-circuits region graph'"),
        ('{"format": "other"}', "'format' is not"),
        (changed().replace('"version": 1', '"version": 2'), "'version' is 2 and this library reads 1"),
        ('{"format": "voronoi-circuits region graph", "version": 1}', "'regions' is not a list"),
        (
            '{"format": "voronoi-circuits region graph", "version": 1, "regions": [3]}',
            r"regions\[0\] is not an object",
        ),
        (changed(color=1), r"regions\[1\] has an unknown field 'color'"),
        (without("units"), r"regions\[2\] has no field 'units'"),
        (changed(units="2"), r"regions\[1\].units is '2', not of type int"),
        (changed(units=True), r"regions\[1\].units is True, not of type int"),
        (changed(scope=[0.5]), r"regions\[1\]: scope must hold whole numbers, got 0\.5"),
        (changed(scope=[0]), r"region 2 \(tucker over variables 0-1\): its children share 0"),
    ],
)
def test_a_wrong_file_is_refused_with_the_reason(text, message):
    with pytest.raises(StructureError, match=message):
        RegionGraph.from_json(text)


def test_two_hundred_variables_are_checked_at_once():
    regions = grow(random.Random(0), 200)
    start = time.perf_counter()
    graph = RegionGraph(tuple(regions))
    graph.height(), graph.depth(), graph.describe(), RegionGraph.from_json(graph.to_json())
    assert time.perf_counter() - start < 2
