"""Outward passes bracket the exact value: whole circuits evaluated by mpmath with 50 digits."""

import itertools

import mpmath
import numpy as np
import pytest
import torch

from tests.circuits.examples import GRAPHS, build, routed, rows, seeded
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import OPEN, Gates, Question
from voronoi_circuits.circuits.rounding import UNIT, finite, widen

INF = float("inf")
SMALL = ["cp", "tucker", "families", "mixed units", "repetitions", "joint of two", "joint of three"]
mp = mpmath.mpf


@pytest.fixture(autouse=True)
def fifty_digits():
    with mpmath.workdps(50):
        yield


def softmax(logits: torch.Tensor) -> np.ndarray:
    weights = np.array([mpmath.exp(mp(w)) for w in logits.flatten().tolist()], dtype=object)
    return (weights / mpmath.fsum(weights)).reshape(logits.shape)


def normal_mass(a, b):
    if a >= b:
        return mp(0)
    a, b = (a, b) if a < 0 else (-b, -a)
    return (mpmath.erfc(-b / mpmath.sqrt(2)) - mpmath.erfc(-a / mpmath.sqrt(2))) / 2


def leaf_value(leaf, place, family, point, low, high):
    """The exact density or mass of one unit, point NaN for a mass."""
    if family == "gaussian":
        mean, s = mp(leaf.location[place].item()), mpmath.exp(mp(leaf.raw[place].item())) + mp(leaf.floor)
        if np.isnan(point):
            return normal_mass((mp(low) - mean) / s, (mp(high) - mean) / s)
        return mpmath.npdf((mp(point) - mean) / s) / s if low < point <= high else mp(0)
    weights = softmax(leaf.logits[place].detach())
    left, right = ([mp(v) for v in side[place[1]].tolist()] for side in leaf.sides(torch.float64))
    total = mp(0)
    for w, a, b in zip(weights, left, right, strict=True):
        if np.isnan(point):
            share = (
                mp(max(a, low) <= min(b, high))
                if a == b
                else max(mp(0), min(b, mp(high)) - max(a, mp(low))) / (b - a)
            )
        else:
            share = mp(a == point) if a == b else mp(a <= point < b) / (b - a)
        total += w * share
    return total


def exact(circuit: FoldedCircuit, x, low, high, gates: Gates = OPEN) -> list[list]:
    """The exact linear values of every unit of every region for one row."""
    graph, out = circuit.graph, []
    for index, region in enumerate(graph.regions):
        children = [out[c] for c in region.children]
        if region.kind == "leaf":
            leaf, position = circuit.leaf(index)
            v, values = region.scope[0], []
            for unit in range(region.units):
                support = gates.supports.get(index)
                a, b = (-INF, INF) if support is None else (support[0][unit].item(), support[1][unit].item())
                if np.isnan(x[v]):
                    a, b = max(a, low[v]), min(b, high[v])
                values.append(leaf_value(leaf, (0, position, unit), region.leaf, x[v], a, b))
            out.append(values)
            continue
        out.append([unit_value(circuit, index, o, children, gates) for o in range(region.units)])
    return out


def unit_value(circuit, index, o, children, gates):
    region = circuit.graph.regions[index]
    layer, position = circuit._place[index]
    module, count = circuit.layers[layer], len(circuit.folds[layer].regions)
    if region.kind == "cp":
        mixes = [softmax(module.edge(slot, position, count)[0, o].detach()) for slot in range(len(children))]
        return mpmath.fprod(mpmath.fdot(w, child) for w, child in zip(mixes, children, strict=True))
    per_cell = region.units // region.cells
    weight = softmax(module.weight[0, position, o % per_cell if region.kind == "joint" else o].detach())
    if region.kind == "sum":
        return mpmath.fdot(weight, itertools.chain(*children))
    if region.kind == "tucker":
        a, b = children
        return mpmath.fsum(weight[i, j] * a[i] * b[j] for i in range(len(a)) for j in range(len(b)))
    cells = [circuit.graph.regions[c].cells for c in region.children]
    route, top, bottom = gates.routes.get(index), mp(0), mp(0)
    for place in itertools.product(*map(range, weight.shape)):
        joint, units = place[0], place[1:]
        share = mp(1) if route is None else mpmath.exp(mp(route[o // per_cell, joint].item()))
        own = np.unravel_index(joint, cells)
        parts = [
            child[k * (len(child) // n) + u]
            for child, k, u, n in zip(children, own, units, cells, strict=True)
        ]
        top += share * weight[place] * mpmath.fprod(parts)
        bottom += share * weight[place]
    return top / bottom if bottom else mp(0)


def scaled(circuit: FoldedCircuit, raw: float, logit: float) -> FoldedCircuit:
    """Deviations around exp(raw), logits stretched and shifted far from 0."""
    with torch.no_grad():
        for key, p in circuit.named_parameters():
            if key.endswith("raw"):
                p.add_(raw)
            elif "location" not in key:
                p.mul_(logit).add_(3 * logit)
    return circuit


def questions(graph, n: int, far: float, seed: int):
    rng = np.random.default_rng(seed)
    x = rows(graph, n, seed)
    for region in graph.regions:
        if region.leaf == "gaussian":
            x[:, region.scope[0]] *= far
    x[rng.random(x.shape) < 0.4] = np.nan
    low = rng.normal(-1, 1, x.shape) * far
    high = low + rng.exponential(2, x.shape) * rng.choice([1e-6, 1.0, 30.0], x.shape)
    low[rng.random(x.shape) < 0.2], high[rng.random(x.shape) < 0.2] = -INF, INF
    return x, low, high


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "raw, logit, far",
    [(0.0, 1.0, 1.0), (-9.2, 1.0, 1e-4), (9.2, 1.0, 1e4), (-1.0, 40.0, 300.0), (0.0, 200.0, 1.0)],
)
def test_outward_passes_bracket_the_exact_value(name, raw, logit, far):
    circuit = scaled(build(name), raw, logit)
    gates = routed(circuit.graph, soft=False) if "joint" in name else OPEN
    x, low, high = questions(circuit.graph, 3, far, seed=1)
    asked = Question(*(torch.tensor(side) for side in (x, low, high)))
    with torch.no_grad():
        sides = {o: circuit.run(asked, gates, outward=o) for o in (-1, 0, 1)}
    for row in range(len(x)):
        for region, values in enumerate(exact(circuit, x[row], low[row], high[row], gates)):
            for unit, value in enumerate(values):
                below, middle, above = (sides[o][region][0, unit, row].item() for o in (-1, 0, 1))
                if value == 0:
                    assert below == middle == above == -INF
                    continue
                truth = mpmath.log(value)
                assert mp(below) <= truth <= mp(above)
                assert above - below <= 1e-10 * (1 + abs(truth))


def test_soft_routes_are_bracketed():
    circuit = scaled(build("joint of three"), 0.0, 30.0)
    gates = routed(circuit.graph, soft=True)
    x, low, high = questions(circuit.graph, 3, 1.0, seed=2)
    asked = Question(*(torch.tensor(side) for side in (x, low, high)))
    with torch.no_grad():
        below, above = (circuit(asked, gates, outward=o)[0, 0] for o in (-1, 1))
    for row in range(3):
        truth = mpmath.log(exact(circuit, x[row], low[row], high[row], gates)[-1][0])
        assert mp(below[row].item()) <= truth <= mp(above[row].item())


@pytest.mark.parametrize("units", [4, 12])
def test_a_thousand_deviations_out_is_bracketed(units):
    graph = GRAPHS["cp"].with_units(units)
    circuit = FoldedCircuit(graph)
    circuit.start(torch.randn(50, 3, generator=seeded()), seeded())
    x = np.array([[1000.0, -1000.0, 700.0]])
    with torch.no_grad():
        below, above = (
            circuit(Question.density(torch.tensor(x)), outward=o)[0, 0, 0].item() for o in (-1, 1)
        )
    truth = mpmath.log(exact(circuit, x[0], None, None)[-1][0])
    assert mp(below) <= truth <= mp(above)
    assert above - below < 1e-10 * abs(truth)


def test_widening():
    out = torch.tensor([0.0, -5.0, -INF]).double().view(1, 1, 3, 1)
    top = torch.tensor([[[[0.0]]]]).double()
    assert torch.equal(widen(out, top, 3, 0), out)
    for outward in (-1, 1):
        moved = widen(out, top, 3, outward)
        assert (torch.sign(moved[0, 0, :2] - out[0, 0, :2]) == outward).all()
        assert moved[0, 0, 2] == -INF
    assert finite(torch.tensor([INF, -INF, 2.0])).tolist() == [0.0, 0.0, 2.0]
    assert np.finfo(np.float64).eps == 2 * UNIT


@pytest.mark.parametrize("offset", [-1e5, 1e5])
def test_logits_far_from_zero_cost_digits_that_the_bound_counts(offset):
    """A joint cell's weight is a log-sum-exp of its logits, rounded at their size and not at their spread."""
    circuit = build("joint of two")
    with torch.no_grad():
        for key, p in circuit.named_parameters():
            if "weight" in key:
                p.add_(offset)
    gates = routed(circuit.graph)
    x, low, high = questions(circuit.graph, 4, 1.0, seed=3)
    asked = Question(*(torch.tensor(side) for side in (x, low, high)))
    with torch.no_grad():
        below, above = (circuit.run(asked, gates, outward=o) for o in (-1, 1))
    for row in range(4):
        for region, values in enumerate(exact(circuit, x[row], low[row], high[row], gates)):
            for unit, value in enumerate(values):
                if value:
                    sides = (side[region][0, unit, row].item() for side in (below, above))
                    assert mp(next(sides)) <= mpmath.log(value) <= mp(next(sides))
