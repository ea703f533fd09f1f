import random
from dataclasses import replace
from itertools import product
from math import prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.circuits.graphs import grow, random_regions
from voronoi_circuits.circuits.properties import (
    Property,
    decomposability,
    determinism,
    determinism_by_region,
    smoothness,
)
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.structures import hfv_graph, hidden_chow_liu, random_binary_tree


def leaf(variable: int, units: int = 2) -> Region:
    return Region((variable,), units, "leaf", leaf="gaussian")


def test_a_property_is_its_answer():
    assert Property(True, "because")
    assert not Property(False, "because")


@given(random_regions())
def test_smooth_and_decomposable_graphs_are_so(regions):
    assert smoothness(regions)
    assert smoothness(RegionGraph(tuple(regions)))
    assert decomposability(regions)
    assert decomposability(RegionGraph(tuple(regions)))


@given(random_regions(max_variables=5), st.data())
def test_a_wrong_list_is_answered_by_the_definitions(regions, data):
    """With one scope changed, the answers follow the definitions and name the first region that fails."""
    position = data.draw(st.integers(0, len(regions) - 1))
    scope = data.draw(st.sets(st.integers(0, 5), min_size=1))
    regions[position] = replace(regions[position], scope=tuple(sorted(scope)))

    def smooth(r: Region) -> bool:
        return r.kind != "sum" or all(regions[c].scope == r.scope for c in r.children)

    def decomposable(r: Region) -> bool:
        return r.kind not in ("cp", "tucker") or sorted(
            v for c in r.children for v in regions[c].scope
        ) == list(r.scope)

    for answer, definition in ((smoothness(regions), smooth), (decomposability(regions), decomposable)):
        wrong = [i for i, region in enumerate(regions) if not definition(region)]
        assert answer.holds == (not wrong)
        assert not wrong or answer.reason.startswith(f"region {wrong[0]} (")


def test_wrong_regions_are_named_with_the_reason():
    wrong = [leaf(0), leaf(1), Region((0, 1), 1, "sum", (0, 1))]
    assert "region 2 (sum over variables 0-1): it sums region 0" in smoothness(wrong).reason
    overlap = [leaf(0), leaf(0), Region((0,), 1, "tucker", (0, 1))]
    assert "region 2 (tucker over variable 0): its children share 0" in decomposability(overlap).reason
    dangling = [leaf(0), Region((0,), 1, "sum", (7,))]
    for answer in (smoothness(dangling), decomposability(dangling)):
        assert not answer
        assert "region 1 (sum over variable 0): its child 7 is not an earlier region" in answer.reason


def test_an_ordinary_circuit_is_not_deterministic():
    answer = determinism(hidden_chow_liu([-1, 0], units=3))
    assert not answer
    assert answer.reason == (
        "region 2 (cp over variables 0-1): it sums the 3 units of region 1 (leaf over variable 0), "
        "which no hard gate tells apart"
    )


def test_one_unit_everywhere_is_deterministic():
    generator = torch.Generator().manual_seed(0)
    assert determinism(random_binary_tree(5, units=1, generator=generator))
    twice = random_binary_tree(5, units=1, repetitions=2, generator=generator)
    assert "sums over 2 children" in determinism(twice).reason


def test_hfv_is_deterministic_below_its_top_with_one_unit_a_cell():
    graph = hfv_graph(hidden_chow_liu([-1, 0, 1, 1], units=1), cells=3)
    assert determinism(graph, {p: r.cells for p, r in enumerate(graph.regions)})
    several = hfv_graph(hidden_chow_liu([-1, 0, 1, 1], units=1), cells=3, units_per_cell=2)
    answer = determinism(several, {p: r.cells for p, r in enumerate(several.regions)})
    assert "sums the 6 units of" in answer.reason
    assert "share 3 cells, 2 to each" in answer.reason


def test_gates_that_cannot_be_are_refused():
    graph = hidden_chow_liu([-1, 0], units=3)
    with pytest.raises(ValueError, match="gated names region 9; the graph has regions 0 to 3"):
        determinism(graph, {9: 3})
    with pytest.raises(
        ValueError, match=r"gated gives region 0 \(leaf over variable 1\) 2 cells, and it has 3 units"
    ):
        determinism(graph, {0: 2})


@given(st.integers(0, 2**32), st.integers(1, 4), st.booleans())
def test_determinism_is_what_rows_show(seed, n_variables, hfv):
    """For rows in every combination of cells, count the inputs of each sum that are not 0."""
    rng = random.Random(seed)
    graph, gated = hfv_gates(rng, n_variables) if hfv else random_gates(rng, n_variables)
    routes = {
        position: {
            joint: rng.randrange(region.cells)
            for joint in product(*(range(graph.regions[child].cells) for child in region.children))
        }
        for position, region in enumerate(graph.regions)
        if region.kind == "joint"
    }
    most = [0] * len(graph.regions)
    gates = [position for position in gated if position not in routes]
    for cells in product(*(range(gated[position]) for position in gates)):
        inputs = positive_inputs(
            graph, {p: (cell, gated[p]) for p, cell in zip(gates, cells, strict=True)}, routes
        )
        most = list(map(max, most, inputs))
    assert [answer.holds for answer in determinism_by_region(graph, gated)] == [
        inputs <= 1 for inputs in most
    ]
    assert determinism(graph, gated).holds == (max(most) <= 1)


def hfv_gates(rng: random.Random, n_variables: int) -> tuple[RegionGraph, dict[int, int]]:
    parents = [-1, *(rng.randrange(v) for v in range(1, n_variables))]
    tree = hidden_chow_liu(parents, units=rng.randint(1, 2))
    graph = hfv_graph(tree, cells=2, units_per_cell=rng.randint(1, 2), widest=rng.choice([2, 3]))
    return graph, {p: r.cells for p, r in enumerate(graph.regions) if r.cells > 1}


def random_gates(rng: random.Random, n_variables: int) -> tuple[RegionGraph, dict[int, int]]:
    graph = RegionGraph(tuple(grow(rng, min(n_variables, 3))))
    gates = [p for p in range(len(graph.regions)) if rng.random() < 0.7][:7]
    return graph, {p: rng.choice([1, graph.regions[p].units, graph.regions[p].units]) for p in gates}


def positive_inputs(
    graph: RegionGraph,
    cell_of: dict[int, tuple[int, int]],
    routes: dict[int, dict[tuple[int, ...], int]],
) -> list[int]:
    """The largest number of positive inputs of a sum of each region, at a row that lies in these cells."""
    positive: list[set[int]] = []  # the units that are not 0
    inputs: list[int] = []
    for position, region in enumerate(graph.regions):
        below = [positive[child] for child in region.children]
        counts = list(map(len, below))
        inputs.append(
            {"leaf": 0, "sum": sum(counts), "cp": max(counts, default=0)}.get(region.kind, prod(counts))
        )
        cell, cells = cell_of.get(position, (0, 1))
        units = set(range(region.units // cells * cell, region.units // cells * (cell + 1)))
        if region.kind == "joint":
            sizes = [graph.regions[child].units // graph.regions[child].cells for child in region.children]
            joint = {tuple(u // n for u, n in zip(pair, sizes, strict=True)) for pair in product(*below)}
            reached = {routes[position][cells] for cells in joint}
            units = {u for u in units if u // (region.units // region.cells) in reached}
        positive.append(units)
    return inputs
