import random
from collections import Counter
from math import ceil, log2, prod

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.circuits.graphs import random_regions
from voronoi_circuits.circuits.region_graph import Region, RegionGraph, StructureError
from voronoi_circuits.circuits.structures import (
    binarise,
    hfv_graph,
    hidden_chow_liu,
    partition_levels,
    random_binary_tree,
)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_parents(n_variables: int, seed: int) -> list[int]:
    """A random tree over shuffled names."""
    rng = random.Random(seed)
    names = rng.sample(range(n_variables), n_variables)
    parents = [-1] * n_variables
    for i in range(1, n_variables):
        parents[names[i]] = names[rng.randrange(i)]
    return parents


def kinds(graph: RegionGraph) -> Counter[str]:
    return Counter(region.kind for region in graph.regions)


# The random binary tree


@pytest.mark.parametrize("product", ["tucker", "cp"])
@pytest.mark.parametrize("repetitions", [1, 3])
def test_binary_tree_of_any_size_is_balanced(product, repetitions):
    for n_variables in [*range(1, 34), 64, 100, 199, 200]:
        graph = random_binary_tree(
            n_variables, units=5, roots=2, product=product, repetitions=repetitions, generator=seeded()
        )
        summed = product == "cp" or repetitions > 1 or n_variables == 1
        assert (
            kinds(graph)
            == Counter(
                {
                    "leaf": repetitions * n_variables,
                    product: repetitions * (n_variables - 1),
                    "sum": int(summed),
                }
            )
            - Counter()
        )
        assert graph.height()[-1] == ceil(log2(n_variables)) + summed
        assert graph.regions[-1].units == 2
        assert all(len(above) == 1 for above in graph.parents()[:-1])  # repetitions share nothing
        for region in graph.regions:
            if region.kind == product:
                left, right = (len(graph.regions[child].scope) for child in region.children)
                assert abs(left - right) <= 1


def test_every_halving_is_equally_likely():
    """Four variables halve into 3 pairs of pairs: of 600 trees 200 each, within 5 deviations."""
    generator = seeded()
    seen = Counter()
    for _ in range(600):
        graph = random_binary_tree(4, units=1, generator=generator)
        seen[next(r.scope for r in graph.regions if len(r.scope) == 2 and 0 in r.scope)] += 1
    assert len(seen) == 3
    assert all(abs(count - 200) < 5 * (600 * 2 / 9) ** 0.5 for count in seen.values())


def test_one_seed_gives_one_tree_and_repetitions_differ():
    first, again = (random_binary_tree(9, units=2, repetitions=2, generator=seeded(3)) for _ in range(2))
    assert first == again
    assert first != random_binary_tree(9, units=2, repetitions=2, generator=seeded(4))
    tops = [first.regions[child] for child in first.regions[-1].children]
    assert len({first.regions[top.children[0]].scope for top in tops}) == 2


def test_leaf_families_follow_their_variables():
    leaf = ["gaussian", "categorical", "histogram"]
    trees = (
        random_binary_tree(3, units=2, leaf=leaf, generator=seeded()),
        hidden_chow_liu([1, 2, -1], units=2, leaf=leaf),
    )
    for graph in trees:
        assert {r.scope[0]: r.leaf for r in graph.regions if r.kind == "leaf"} == dict(enumerate(leaf))


@pytest.mark.parametrize(
    "options, message",
    [
        ({"n_variables": 0}, "n_variables must be at least 1, got 0"),
        ({"units": 0}, "units must be at least 1, got 0"),
        ({"roots": -1}, "roots must be at least 1, got -1"),
        ({"repetitions": 0}, "repetitions must be at least 1, got 0"),
        (
            {"product": "tuker"},
            r"unknown product 'tuker' \(did you mean 'tucker'\?\); use one of 'cp', 'tucker'",
        ),
        ({"leaf": ["gaussian"]}, "leaf names 1 families for 3 variables; name each once"),
    ],
)
def test_a_wrong_binary_tree_is_refused(options, message):
    with pytest.raises(StructureError, match=message):
        random_binary_tree(**{"n_variables": 3, "units": 2, "generator": seeded(), **options})


# The hidden Chow-Liu tree


def subtrees(parents: list[int]) -> list[set[int]]:
    """The descendants of each variable and itself, by walking up from every variable."""
    below: list[set[int]] = [set() for _ in parents]
    for variable in range(len(parents)):
        walk = variable
        while walk >= 0:
            below[walk].add(variable)
            walk = parents[walk]
    return below


def test_hidden_chow_liu_of_any_size_follows_its_tree():
    for n_variables in [*range(1, 34), 64, 100, 199, 200]:
        parents = random_parents(n_variables, seed=n_variables)
        graph = hidden_chow_liu(parents, units=4, roots=3)
        below = subtrees(parents)
        inner = [v for v in range(n_variables) if len(below[v]) > 1]
        assert Counter(r.scope for r in graph.regions if r.kind == "cp") == Counter(
            tuple(sorted(below[v])) for v in inner
        )
        for region in graph.regions:
            if region.kind == "cp":
                variable = next(v for v in inner if below[v] == set(region.scope))
                factors = {graph.regions[child].scope for child in region.children}
                children = [v for v in range(n_variables) if parents[v] == variable]
                assert factors == {(variable,), *(tuple(sorted(below[v])) for v in children)}
        assert kinds(graph)["leaf"] == n_variables
        assert (graph.regions[-1].kind, graph.regions[-1].units) == ("sum", 3)


def test_tucker_trees_are_binary_with_the_roots_on_top():
    for n_variables in [2, 3, 10, 43, 200]:
        graph = hidden_chow_liu(random_parents(n_variables, 1), units=4, roots=3, product="tucker")
        assert kinds(graph) == {"leaf": n_variables, "tucker": n_variables - 1}
        assert {region.units for region in graph.regions[:-1]} == {4}
        assert graph.regions[-1].units == 3


def test_chains_and_stars_of_two_hundred_variables_are_built():
    assert hidden_chow_liu([-1, *range(199)], units=2).height()[-1] == 200
    assert hidden_chow_liu([-1] + [0] * 199, units=2).height()[-1] == 2


@pytest.mark.parametrize(
    "parents, message",
    [
        ([], "n_variables must be at least 1, got 0"),
        ([-1, 5], r"parents\[1\] is 5; name another variable, or -1 at the root"),
        ([-1, -2], r"parents\[1\] is -2"),
        ([-1, 1], r"parents\[1\] is 1"),
        ([1, 0], r"parents has 0 roots \(\); write -1 exactly once"),
        ([-1, 0, -1], r"parents has 2 roots \(0, 2\); write -1 exactly once"),
        ([-1, 2, 3, 1], "parents is no tree: 1-3 hang on a circle"),
    ],
)
def test_parents_that_are_no_tree_are_refused(parents, message):
    with pytest.raises(StructureError, match=message):
        hidden_chow_liu(parents, units=2)


# Pairs


@given(random_regions())
def test_binarise_keeps_scopes_units_and_meaning(regions):
    graph = RegionGraph(tuple(regions))
    pairs = binarise(graph)
    assert all(len(r.children) == 2 for r in pairs.regions if r.kind in ("cp", "tucker"))
    assert (pairs.regions[-1].scope, pairs.regions[-1].units) == (regions[-1].scope, regions[-1].units)
    added = sum(len(r.children) - 2 for r in regions if r.kind == "cp")
    assert len(pairs.regions) == len(regions) + added
    assert binarise(pairs) == pairs


def test_a_wide_partition_becomes_a_chain_in_order():
    graph = binarise(hidden_chow_liu([-1, 0, 0, 0], units=4))
    inner = [(region.scope, region.units) for region in graph.regions if region.kind == "cp"]
    leaves = [graph.regions[child].scope for r in graph.regions if r.kind == "cp" for child in r.children]
    assert inner == [((0, 1), 4), ((0, 1, 2), 4), ((0, 1, 2, 3), 4)]
    assert leaves == [(0,), (1,), (0, 1), (2,), (0, 1, 2), (3,)]


# HFV


@given(
    st.integers(1, 12),
    st.integers(0, 99),
    st.integers(1, 4),
    st.integers(1, 3),
    st.sampled_from(["cp", "tucker"]),
    st.sampled_from([2, 3]),
)
def test_hfv_at_every_level_has_product_cells_down_to_intervals(d, seed, cells, upc, product, widest):
    tree = hidden_chow_liu(random_parents(d, seed), units=5, roots=2, product=product)
    graph = hfv_graph(tree, cells, upc, widest=widest)
    assert set(kinds(graph)) <= {"leaf", "joint", "sum"}
    for region, above in zip(graph.regions, graph.parents(), strict=True):
        if region.kind == "joint":
            assert 2 <= len(region.children) <= widest
        if above and (d == 1 or graph.regions[above[0]].kind == "joint"):
            assert (region.cells, region.units) == (cells, cells * upc)
    top = graph.regions[-1] if product == "tucker" and d > 1 else graph.regions[-2]
    assert d == 1 or (top.cells, top.units) == (1, 2 if product == "tucker" else 5)
    assert (graph.regions[-1].units, graph.regions[-1].cells) == (2, 1)


def test_three_factors_stay_only_where_they_are_asked_for():
    star = hidden_chow_liu([-1, 0, 0], units=4)
    assert kinds(hfv_graph(star, 2)) == {"leaf": 3, "joint": 2, "sum": 1}
    assert kinds(hfv_graph(star, 2, widest=3)) == {"leaf": 3, "joint": 1, "sum": 1}
    wider = hidden_chow_liu([-1, 0, 0, 0], units=4)
    assert [len(r.children) for r in hfv_graph(wider, 2, widest=3).regions if r.kind == "joint"] == [2, 2, 2]


def test_levels_count_partitions_from_the_top():
    for product in ("cp", "tucker"):
        graph = random_binary_tree(8, units=3, product=product, generator=seeded())
        assert all(
            2 ** (3 - level) == len(r.scope)
            for r, level in zip(graph.regions, partition_levels(graph), strict=True)
        )


def test_chosen_levels_are_gated_and_the_rest_is_left():
    tree = random_binary_tree(8, units=6, generator=seeded())
    graph = hfv_graph(tree, 3, 2, levels=[1, 2])
    assert kinds(graph) == {"leaf": 8, "joint": 6, "tucker": 1}
    sizes = {len(r.scope): (r.kind, r.units, r.cells) for r in graph.regions}
    assert sizes == {8: ("tucker", 1, 1), 4: ("joint", 6, 1), 2: ("joint", 6, 3), 1: ("leaf", 6, 3)}
    lowest = hfv_graph(tree, 3, levels=[2])
    assert {len(r.scope): r.kind for r in lowest.regions} == {8: "tucker", 4: "tucker", 2: "joint", 1: "leaf"}
    assert hfv_graph(tree, 3, levels=[0, 1, 2]) == hfv_graph(tree, 3)


def test_a_level_above_an_ungated_one_is_refused_and_the_region_named():
    tree = random_binary_tree(4, units=3, product="cp", generator=seeded())
    with pytest.raises(
        StructureError, match=r"^region 2 \(cp over variables .*factor of gated region 6 .*add 1 to lev"
    ):
        hfv_graph(tree, 3, levels=[0])


@given(st.integers(2, 9), st.integers(0, 99), st.sets(st.integers(0, 3), min_size=1))
def test_levels_are_refused_exactly_where_a_gated_factor_is_neither_gated_nor_a_variable(d, seed, levels):
    tree = hidden_chow_liu(random_parents(d, seed), units=2)
    at = partition_levels(tree)
    levels &= {level for level, region in zip(at, tree.regions, strict=True) if region.kind == "cp"}
    if not levels:
        return
    exact = all(
        at[child] in levels or tree.regions[child].kind == "leaf"
        for region, level in zip(tree.regions, at, strict=True)
        if region.kind == "cp" and level in levels
        for child in region.children
    )
    if exact:
        assert kinds(hfv_graph(tree, 2, levels=levels))["joint"] >= 1
    else:
        with pytest.raises(StructureError, match=r"^region \d+ \(cp .*not gated"):
            hfv_graph(tree, 2, levels=levels)


def test_categorical_factors_have_one_cell():
    leaf = ["gaussian", "categorical", "categorical", "histogram"]
    graph = hfv_graph(hidden_chow_liu([-1, 0, 1, 0], units=4, leaf=leaf), 3, 2)
    cells = {region.scope: (region.cells, region.units) for region in graph.regions if region.kind != "sum"}
    assert cells == {
        (0,): (3, 6),
        (1,): (1, 2),
        (2,): (1, 2),
        (3,): (3, 6),
        (1, 2): (1, 2),
        (0, 1, 2): (3, 6),
        (0, 1, 2, 3): (1, 4),
    }
    chosen = hfv_graph(hidden_chow_liu([-1, 0], units=4), 3, continuous=[1])
    assert [region.cells for region in chosen.regions] == [3, 1, 1, 1]


def test_cells_may_differ_by_variable_and_scope():
    tree = hidden_chow_liu([-1, 0, 1], units=4)
    graph = hfv_graph(tree, {0: 2, 1: 3, (2,): 4, (1, 2): 5}, units_per_cell=2)
    assert {r.scope: r.cells for r in graph.regions[:-2]} == {(0,): 2, (1,): 3, (2,): 4, (1, 2): 5}
    assert all(r.units == 2 * r.cells for r in graph.regions[:-2])


def test_one_variable_is_gated_by_the_sum_over_its_cells():
    graph = hfv_graph(random_binary_tree(1, units=4, generator=seeded()), 3, 2)
    assert [(r.kind, r.units, r.cells) for r in graph.regions] == [("leaf", 6, 3), ("sum", 1, 1)]


def shared() -> RegionGraph:
    """Two products whose leaves of variables 0 and 2 are also factors of the level above."""
    leaves = [Region((v,), 2, "leaf", leaf="gaussian") for v in (0, 1, 2)]
    first = Region((0, 1), 2, "cp", (0, 1))
    other = Region((1, 2), 2, "cp", (1, 2))
    tops = (Region((0, 1, 2), 2, "cp", (3, 2)), Region((0, 1, 2), 2, "cp", (0, 4)))
    return RegionGraph((*leaves, first, other, *tops, Region((0, 1, 2), 1, "sum", (5, 6))))


def test_a_factor_shared_with_an_ungated_region_is_refused():
    with pytest.raises(
        StructureError, match=r"^region 0 \(leaf .*gated region 3 .* and ungated region 6 .* share it"
    ):
        hfv_graph(shared(), 2, levels=[1])
    assert kinds(hfv_graph(shared(), 2))["joint"] == 4


def test_a_sum_as_a_gated_factor_is_refused():
    leaves = [Region((v,), 2, "leaf", leaf="gaussian") for v in (0, 1)]
    graph = RegionGraph((*leaves, Region((1,), 2, "sum", (1,)), Region((0, 1), 1, "cp", (0, 2))))
    with pytest.raises(
        StructureError, match=r"^region 2 \(sum over variable 1\).*make it one partition or leaf"
    ):
        hfv_graph(graph, 2)


TREE = hidden_chow_liu([-1, 0, 1], units=4)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"cells": 0}, "cells must be at least 1, got 0"),
        ({"units_per_cell": 0}, "units_per_cell must be at least 1, got 0"),
        ({"widest": 4}, "widest must be 2 or 3, got 4"),
        ({"levels": "al"}, r"unknown levels 'al' \(did you mean 'all'\?\)"),
        ({"levels": []}, "levels is empty"),
        ({"levels": [0, 1, 7]}, r"levels names 7; the partitions are at levels \[0, 1\]"),
        ({"cells": {0: 2, 1: 2}}, r"cells gives gated factor \(2\) no positive number"),
        ({"cells": {0: 2, 1: 2, 2: 2}}, r"cells gives gated factor \(1-2\) no positive number"),
        ({"cells": {0: 2, 1: 2, 2: -1, (1, 2): 2}}, r"cells gives gated factor \(2\) no positive number"),
        (
            {"cells": {0: 2, 1: 2, 2: 2, (1, 2): 2, (0, 1): 3}},
            r"cells names \(0-1\), the scope of no gated factor",
        ),
        ({"cells": {0: 2, 1: 2, 2: 2, (1, 2): 5}}, r"region 2 \(joint .*5 cells and its factors make only 4"),
        (
            {"cells": {0: 2, 1: 2, 2: 2, (1, 2): 2}, "continuous": [0, 1]},
            r"2 cells over \(2\), where no variable is cont",
        ),
        ({"graph": hfv_graph(TREE, 2)}, r"region 0 \(leaf over variable 2\): it is gated already"),
    ],
)
def test_a_wrong_hfv_is_refused(options, message):
    with pytest.raises(StructureError, match=message):
        hfv_graph(**{"graph": TREE, "cells": 2, **options})


def test_joint_cells_are_the_product_of_the_factors():
    """Theorem "Tractability": K cells in each of m factors make K^m joint cells, and pairs keep m = 2."""
    graph = hfv_graph(hidden_chow_liu([-1] + [0] * 9, units=4), 3)
    joint = [prod(graph.regions[c].cells for c in r.children) for r in graph.regions if r.kind == "joint"]
    assert joint == [9] * 9
