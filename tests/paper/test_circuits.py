"""Section 2: Definitions "Probabilistic circuit", "Scope", "Smoothness", "Decomposability", "Determinism"."""

import numpy as np
import pytest
import torch

from tests.paper.scenes import FOUR, build, gated, rows, scopes, unfold, values
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.properties import (
    decomposability,
    determinism,
    determinism_by_region,
    smoothness,
)
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.specs import HFV, VT, Circuit

LEAVES = tuple(Region((v,), 2, "leaf", leaf="gaussian") for v in range(3))
OWN = RegionGraph((
    *LEAVES,
    Region((0, 1), 3, "cp", (0, 1)),
    Region((0, 1), 2, "tucker", (0, 1)),
    Region((0, 1), 2, "sum", (3, 4)),
    Region((0, 1, 2), 2, "tucker", (5, 2)),
    Region((0, 1, 2), 1, "sum", (6,)),
))  # fmt: skip


def circuit(graph: RegionGraph = OWN) -> FoldedCircuit:
    return build(Circuit(graph), graph.n_variables, 0).experts.circuit


def test_definition_probabilistic_circuit() -> None:
    """A circuit of one's own is its leaves, products and weighted sums, node by node."""
    model = build(Circuit(OWN), 3, 1)
    nodes, _ = unfold(model.experts.circuit)
    x = rows(2, 50, 3)
    truth = values(nodes, x.numpy())[-1]
    torch.testing.assert_close(model.log_prob(x).exp(), torch.from_numpy(truth), rtol=1e-12, atol=0)
    for node in nodes:
        if node.kind == "sum":
            assert min(node.weights) >= 0
            assert sum(node.weights) == pytest.approx(1, abs=1e-14)


def test_definition_scope() -> None:
    """scope(n) is the union of the children's scopes, and what f_n depends on."""
    folded = circuit()
    nodes, units = unfold(folded)
    found = scopes(nodes)
    for region, own in zip(folded.graph.regions, units, strict=True):
        assert {found[unit] for unit in own} == {frozenset(region.scope)}
    x = rows(3, 1, 3).numpy()
    for variable in range(3):
        moved = x + np.eye(3)[variable]
        changed = values(nodes, x)[:, 0] != values(nodes, moved)[:, 0]
        assert [bool(c) for c in changed] == [variable in scope for scope in found]


def test_definition_smoothness() -> None:
    """The children of every sum node share its scope; where a region's do not, it is named."""
    nodes, _ = unfold(circuit())
    found = scopes(nodes)
    assert all(len({found[c] for c in node.children}) == 1 for node in nodes if node.kind == "sum")
    assert smoothness(OWN)
    answer = smoothness([*LEAVES, Region((0, 1), 1, "sum", (0, 1))])
    assert not answer
    assert "whose scope is not" in answer.reason


def test_definition_decomposability() -> None:
    """The children of every product node have disjoint scopes; where a region's overlap, it is named."""
    nodes, _ = unfold(circuit())
    found = scopes(nodes)
    for node in nodes:
        if node.kind == "product":
            assert sum(len(found[c]) for c in node.children) == len(
                frozenset().union(*(found[c] for c in node.children))
            )
    assert decomposability(OWN)
    answer = decomposability([*LEAVES, Region((0, 1), 1, "cp", (0, 1)), Region((0, 1), 1, "tucker", (3, 1))])
    assert not answer
    assert "region 4" in answer.reason


def test_definition_determinism() -> None:
    """A plain circuit is not deterministic, and says which sum is why; rows show it."""
    nodes, _ = unfold(circuit())
    positive = values(nodes, rows(4, 5, 3).numpy()) > 0
    assert any(positive[list(node.children)].sum(0).max() > 1 for node in nodes if node.kind == "sum")
    answer = determinism(OWN)
    assert not answer
    assert "which no hard gate tells apart" in answer.reason


def test_a_hard_gated_root_is_deterministic_up_to_facets() -> None:
    """Exactly one π_k g_k p_k is positive, where all π_k p_k are; a facet goes to the lower index."""
    model = build(VT(Circuit(units=2), cells=4), 2, 5)
    gate, x = model.root_gate, rows(6, 500, 2)
    ungated = model.experts.values(Question.density(x)).T + model.experts.log_weights(x.dtype)
    assert ungated.isfinite().all()
    terms = ungated + gate.hard(x)
    assert ((terms > -torch.inf).sum(1) == 1).all()
    torch.testing.assert_close(terms.amax(1), model.log_unnormalized(x))
    diagonal = gated(np.array([[0.0, 1.0], [1.0, 0.0]]), np.zeros((2, 2)), np.ones((2, 2)))
    on_facet = torch.tensor([[0.25, 0.25], [-3.0, -3.0]])
    assert diagonal.root_gate.cells(on_facet).tolist() == [0, 0]
    low, high = diagonal.log_unnormalized_bounds(on_facet)
    assert (low <= high).all()


@pytest.mark.parametrize("units_per_cell", [1, 2])
def test_determinism_of_hfv_is_answered_with_its_reason(units_per_cell: int) -> None:
    """One unit a cell: deterministic. Several: not, "share 3 cells, 2 to each"."""
    model = build(HFV(Circuit(units=1), cells=3, units_per_cell=units_per_cell), 2, 7)
    graph = model.experts.circuit.graph
    answer = determinism(graph, {i: region.cells for i, region in enumerate(graph.regions)})
    assert answer.holds == (units_per_cell == 1)
    assert units_per_cell == 1 or "share 3 cells, 2 to each" in answer.reason


def test_an_internal_gate_makes_the_sum_above_it_deterministic() -> None:
    model = build(VT(Circuit(FOUR), cells=2, gate_at=(0, 1)), 4, 8)
    graph = model.experts.circuit.graph
    reasons = [p.reason for p in determinism_by_region(graph, {4: 2})]
    assert "region 5" in reasons[6]
    one = graph.with_units({5: 1})
    assert determinism_by_region(one, {4: 2})[6].reason == "it sums over disjoint cells"
