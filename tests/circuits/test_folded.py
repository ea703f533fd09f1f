"""The one pass against explicit loops over SciPy's leaves, for every kind of region, leaf and question."""

import math
import random
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from torch.func import functional_call

from tests.circuits.examples import GRAPHS, MIXED, build, routed, rows, seeded
from tests.circuits.graphs import grow
from tests.oracle import evaluate, nodes
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Gates, Question
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.structures import random_binary_tree

INF = float("inf")
ALL = pytest.mark.parametrize("name", GRAPHS)
UNGATED = pytest.mark.parametrize("name", [name for name in GRAPHS if "joint" not in name])
JOINT = pytest.mark.parametrize("name", ["joint of two", "joint of three"])


def arrays(gates: Gates) -> dict:
    supports = {r: tuple(side.numpy() for side in sides) for r, sides in gates.supports.items()}
    return {"supports": supports, "routes": {r: route.numpy() for r, route in gates.routes.items()}}


def question(graph: RegionGraph, n: int = 12, seed: int = 0):
    """Rows where each variable is a point, missing, or an interval, row by row."""
    rng = np.random.default_rng(seed)
    x = rows(graph, n, seed)
    x[rng.random(x.shape) < 0.5] = np.nan
    low = rng.normal(-1, 1, x.shape)
    high = low + rng.exponential(2, x.shape)
    low[rng.random(x.shape) < 0.3], high[rng.random(x.shape) < 0.3] = -INF, INF
    return x, low, high


@UNGATED
def test_density_by_explicit_loops(name):
    circuit = build(name, experts=2)
    x = rows(circuit.graph, 8)
    values = circuit.run(Question.density(torch.tensor(x)))
    for expert in range(2):
        for region, want in enumerate(evaluate(circuit, x, expert=expert)):
            np.testing.assert_allclose(values[region][expert].detach(), want, rtol=1e-12, atol=1e-12)


@UNGATED
def test_density_on_some_and_mass_on_others_row_by_row(name):
    circuit = build(name)
    x, low, high = question(circuit.graph)
    got = circuit(Question(torch.tensor(x), torch.tensor(low), torch.tensor(high)))[0].detach()
    np.testing.assert_allclose(got, evaluate(circuit, x, low, high)[-1], rtol=1e-11, atol=1e-11)


@UNGATED
def test_marginals_and_the_whole_mass(name):
    circuit = build(name)
    x, _, _ = question(circuit.graph, seed=1)
    got = circuit(Question.density(torch.tensor(x)))[0].detach()
    np.testing.assert_allclose(got, evaluate(circuit, x)[-1], rtol=1e-12, atol=1e-12)
    whole = circuit(Question.everything(circuit.graph.n_variables)).detach()
    np.testing.assert_allclose(whole, 0.0, atol=1e-13)


@UNGATED
def test_mass_of_boxes(name):
    circuit = build(name)
    _, low, high = question(circuit.graph, seed=2)
    got = circuit(Question.mass(torch.tensor(low), torch.tensor(high)))[0].detach()
    want = evaluate(circuit, np.full(low.shape, np.nan), low, high)[-1]
    np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)


@JOINT
@pytest.mark.parametrize("soft", [False, True])
def test_gated_sums_by_explicit_loops(name, soft):
    circuit = build(name)
    gates = routed(circuit.graph, soft=soft)
    x, low, high = question(circuit.graph, n=40, seed=3)
    asked = Question(torch.tensor(x), torch.tensor(low), torch.tensor(high))
    got = circuit(asked, gates)[0].detach()
    np.testing.assert_allclose(
        got, evaluate(circuit, x, low, high, **arrays(gates))[-1], rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("seed", range(12))
def test_random_graphs_with_shared_regions(seed):
    families = {v: random.Random(100 * seed + v).choice(MIXED) for v in range(5)}
    grown = grow(random.Random(seed), 1 + seed % 5)
    graph = RegionGraph(tuple(replace(r, leaf=r.leaf and families[r.scope[0]]) for r in grown))
    options = {r.scope[0]: {"categories": 3} for r in graph.regions if r.leaf == "categorical"}
    circuit = FoldedCircuit(graph, 2, options)
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.normal_(generator=seeded(seed))
    x = rows(graph, 5, seed)
    x[0, 0] = np.nan
    got = circuit(Question.density(torch.tensor(x))).detach()
    for expert in range(2):
        np.testing.assert_allclose(
            got[expert], evaluate(circuit, x, expert=expert)[-1], rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("name", ["cp", "tucker", "mixed units", "repetitions"])
def test_density_integrates_to_one(name):
    """One variable at a time, the others marginalised or given: each conditional integrates to 1."""
    circuit = build(name)
    graph = circuit.graph
    x = torch.tensor(rows(graph, 1, 5))
    for variable in range(graph.n_variables):
        bounded = any(r.leaf == "histogram" and r.scope == (variable,) for r in graph.regions)
        points, weights = nodes(0, 1, np.linspace(0, 1, 33)) if bounded else nodes(-60, 60, width=0.25)
        grid = x.repeat(len(points), 1)
        grid[:, variable] = torch.tensor(points)
        missing = x.clone()
        missing[:, variable] = torch.nan
        total = (circuit(Question.density(grid)).exp()[0] * torch.tensor(weights)).sum(-1)
        np.testing.assert_allclose(
            total.detach(), circuit(Question.density(missing)).exp()[0, :, 0].detach(), rtol=1e-9
        )


@ALL
def test_gradients_of_whole_circuits(name):
    circuit = build(name).double()
    gates = routed(circuit.graph)
    names = [n for n, _ in circuit.named_parameters()]
    x, low, high = (torch.tensor(t) for t in question(circuit.graph, n=3, seed=6))
    x[0] = torch.tensor(rows(circuit.graph, 1, 7))[0]
    asked = Question(x, low, high)

    def root(*parameters):
        out = functional_call(circuit, dict(zip(names, parameters, strict=True)), (asked, gates))
        return torch.where(out == -INF, 0.0, out)

    assert torch.autograd.gradcheck(
        root, [p.detach().requires_grad_() for p in circuit.parameters()], fast_mode=True
    )


@pytest.mark.parametrize("name", ["cp", "tucker", "repetitions"])
def test_gradients_of_the_rows(name):
    circuit = build(name).double()
    x = torch.tensor(rows(circuit.graph, 3)).requires_grad_()
    assert torch.autograd.gradcheck(lambda rows: circuit(Question(rows, complete=True)), [x])


@UNGATED
def test_experts_side_by_side_are_separate_circuits(name):
    circuit = build(name, experts=3)
    x = torch.tensor(rows(circuit.graph, 6))
    together = circuit(Question.density(x))
    for expert in range(3):
        alone = FoldedCircuit(circuit.graph, 1, circuit.leaf_options)
        state = {
            key: value[expert : expert + 1] if key in dict(circuit.named_parameters()) else value
            for key, value in circuit.state_dict().items()
        }
        alone.load_state_dict(state)
        torch.testing.assert_close(alone(Question.density(x))[0], together[expert], rtol=1e-14, atol=1e-14)
    own = circuit(Question.density(x.expand(3, *x.shape)))
    torch.testing.assert_close(own, together, rtol=1e-14, atol=1e-14)
    chosen = torch.tensor([2, 2, 0])
    torch.testing.assert_close(
        circuit(Question.density(x), experts=chosen), together[chosen], rtol=1e-14, atol=1e-14
    )


@UNGATED
def test_single_precision(name):
    circuit = build(name)
    x, low, high = (torch.tensor(t) for t in question(circuit.graph, seed=8))
    double = circuit(Question(x, low, high))
    single = circuit(Question(x.float(), low.float(), high.float()))
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=1e-3)


def test_parts_of_a_pass():
    circuit = build("mixed units")
    asked = Question.density(torch.tensor(rows(circuit.graph, 4)))
    whole, part = circuit.run(asked), circuit.run(asked, upto=3)
    assert torch.equal(whole[3], part[3])
    assert len(part.layers) < len(whole.layers)
    with pytest.raises(ValueError, match="region 0 is a leaf"):
        circuit.weights(0)
    with pytest.raises(ValueError, match="region 5 is not a leaf"):
        circuit.leaf(5)


def standard_normals(n: int) -> FoldedCircuit:
    """N(0, 1) in every variable, whichever unit is taken."""
    circuit = FoldedCircuit(random_binary_tree(n, units=2, generator=seeded())).double()
    with torch.no_grad():
        for key, parameter in circuit.named_parameters():
            parameter.normal_(generator=seeded(1)) if "weight" in key else parameter.zero_()
            if "raw" in key:
                parameter.fill_(math.log(1 - 1e-4))
    return circuit


def test_a_thousand_deviations_out_and_the_far_tail():
    circuit = standard_normals(2)
    x = torch.tensor([[1000.0, -1000.0]], dtype=torch.float64, requires_grad=True)
    value = circuit(Question(x, complete=True))
    assert value.item() == pytest.approx(-1e6 - math.log(2 * math.pi), rel=1e-10)
    value.sum().backward()
    assert x.grad.flatten().tolist() == pytest.approx([-1000.0, 1000.0], rel=1e-9)
    low = torch.tensor([[20.0, -INF]], dtype=torch.float64, requires_grad=True)
    mass = circuit(Question.mass(low, torch.tensor([[21.0, INF]], dtype=torch.float64)))
    with mpmath.workdps(50):
        truth = mpmath.log((mpmath.erfc(20 / mpmath.sqrt(2)) - mpmath.erfc(21 / mpmath.sqrt(2))) / 2)
    assert float(truth) == pytest.approx(-203.917, abs=1e-3)
    assert mass.item() == pytest.approx(float(truth), rel=1e-10)
    mass.sum().backward()
    assert all(p.grad.isfinite().all() for p in circuit.parameters())
    assert low.grad[0, 0].item() == pytest.approx(float(-mpmath.npdf(20) / mpmath.exp(truth)), rel=1e-9)


@pytest.mark.parametrize("dtype, deep", [(torch.float64, 40.0), (torch.float32, 15.0)])
def test_identity_weights_inside_a_circuit(dtype, deep):
    """Two far components that only the identity tells apart: values 0 and -800 (float32: below -103)."""
    graph = RegionGraph((Region((0,), 2, "leaf", leaf="gaussian"), Region((0,), 2, "sum", (0,))))
    circuit = FoldedCircuit(graph)
    state = circuit.state_dict()
    weight = next(k for k in state if "weight" in k)
    location = next(k for k in state if "location" in k)
    state[weight] = torch.tensor([[[[0.0, -INF], [-INF, 0.0]]]])
    state[location] = torch.tensor([[[0.0, deep]]])
    circuit.load_state_dict(state)
    x = torch.zeros(1, 1, dtype=dtype)
    out = circuit(Question.density(x))[0, :, 0]
    s = 1 + 1e-4
    want = [-math.log(s) - 0.5 * math.log(2 * math.pi) - 0.5 * (m / s) ** 2 for m in (0.0, deep)]
    assert out.tolist() == pytest.approx(want, rel=1e-6)
    out[1].backward()
    gradient = dict(circuit.named_parameters())[location].grad.flatten().tolist()
    assert gradient == pytest.approx([0.0, -deep / s**2], rel=1e-5)


def test_supports_are_half_open_and_decided_in_double_precision():
    graph = RegionGraph((Region((0,), 2, "leaf", leaf="gaussian", cells=2), Region((0,), 2, "sum", (0,))))
    circuit = build_two_cells(graph)
    edge = 0.1  # rounds up in float32
    side = torch.tensor([edge], dtype=torch.float64)
    line = torch.tensor([INF], dtype=torch.float64)
    gates = Gates(supports={0: (torch.cat([-line, side]), torch.cat([side, line]))})
    for dtype, owner in ((torch.float64, 0), (torch.float32, 1)):
        x = torch.tensor([[edge]], dtype=dtype)
        leaf = circuit.run(Question.density(x), gates)[0][0, :, 0]
        assert leaf.isfinite().tolist() == [owner == 0, owner == 1]


def build_two_cells(graph: RegionGraph) -> FoldedCircuit:
    circuit = FoldedCircuit(graph)
    circuit.start(torch.randn(20, 1, generator=seeded()), seeded())
    return circuit
