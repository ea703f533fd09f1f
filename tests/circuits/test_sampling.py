"""Draws against densities and masses: chi-square on boxes of known mass, conditionals against rejection."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from tests.circuits.examples import GRAPHS, build, routed, rows, seeded
from tests.oracle import evaluate
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import OPEN, Gates, Question
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.sampling import categorical, draw

INF = float("inf")
N = 4000
ALL = pytest.mark.parametrize("name", GRAPHS)


def sample(circuit, n=N, asked=None, gates=OPEN, root=0, expert=0, seed=0, evidence=None):
    asked = Question.everything(circuit.graph.n_variables) if asked is None else asked
    evidence = torch.zeros(n, dtype=torch.long) if evidence is None else evidence
    with torch.no_grad():
        values = circuit.run(asked, gates)
    owner = torch.full((n,), expert), torch.full((n,), root)
    return draw(circuit, values, asked, evidence, *owner, gates, seeded(seed))


def gates_of(name: str) -> Gates:
    return routed(GRAPHS[name]) if "joint" in name else OPEN


def chi_square(x: np.ndarray, circuit, gates: Gates, asked_low, asked_high, root=0, expert=0) -> float:
    """p-value of the counts in a product grid of quantiles of the draws' first half, tested on the second."""
    first, second = np.array_split(x, 2)
    free = [v for v in range(x.shape[1]) if len(np.unique(x[:, v])) > 1][:3]
    cuts = {v: np.unique([-INF, *np.quantile(first[:, v], [0.3, 0.7]) + 1e-9, INF]) for v in free}
    boxes = list(itertools.product(*(list(itertools.pairwise(cuts[v])) for v in free)))
    low, high = (np.tile(side, (len(boxes), 1)) for side in (asked_low, asked_high))
    counts = np.empty(len(boxes))
    for i, box in enumerate(boxes):
        inside = np.ones(len(second), bool)
        for v, (a, b) in zip(free, box, strict=True):
            low[i, v], high[i, v] = max(a, low[i, v]), min(b, high[i, v])
            inside &= (second[:, v] > a) & (second[:, v] <= b)
        counts[i] = inside.sum()
    with torch.no_grad():
        masses = (
            circuit(Question.mass(torch.tensor(low), torch.tensor(high)), gates)[expert, root].exp().numpy()
        )
    keep = masses > 1e-9 * masses.sum()
    assert counts[~keep].sum() == 0
    expected = masses[keep] / masses.sum() * len(second)
    return stats.chisquare(counts[keep], expected).pvalue


@ALL
@pytest.mark.parametrize("bounded", [False, True])
def test_draws_follow_the_masses_of_boxes(name, bounded):
    circuit, gates = build(name, experts=2), gates_of(name)
    d, root = circuit.graph.n_variables, circuit.graph.regions[-1].units - 1
    low, high = np.full(d, -INF), np.full(d, INF)
    if bounded:
        low, high = np.full(d, 0.2), np.full(d, 1.4)
    asked = Question.mass(*(torch.tensor(side).unsqueeze(0) for side in (low, high)))
    drawn = sample(circuit, asked=asked, gates=gates, root=root, expert=1).rows
    assert bool(((drawn >= torch.tensor(low)) & (drawn <= torch.tensor(high))).all())
    assert chi_square(drawn.numpy(), circuit, gates, low, high, root, 1) > 1e-4


@ALL
def test_every_draw_lies_in_the_units_it_came_through(name):
    """Units below the chosen ones have density there, and those of the other repetitions are not reached."""
    circuit, gates = build(name), gates_of(name)
    drawn = sample(circuit, 300, gates=gates)
    supports = {r: tuple(s.numpy() for s in side) for r, side in gates.supports.items()}
    routes = {r: route.numpy() for r, route in gates.routes.items()}
    values = evaluate(circuit, drawn.rows.numpy(), supports=supports, routes=routes)
    reached = np.zeros(drawn.rows.shape, int)
    for index, region in enumerate(circuit.graph.regions):
        unit = drawn.units[index].numpy()
        here = np.flatnonzero(unit >= 0)
        assert np.isfinite(values[index][unit[here], here]).all()
        if region.kind == "leaf":
            reached[here, region.scope[0]] += 1
    assert (reached == 1).all()


@pytest.mark.parametrize("name", ["families", "n-ary cp"])
def test_draws_given_a_category_against_rejection(name):
    circuit = build(name, seed=4)
    discrete = next(r.scope[0] for r in circuit.graph.regions if r.leaf == "categorical")
    given = torch.full((1, circuit.graph.n_variables), torch.nan, dtype=torch.float64)
    given[0, discrete] = 1.0
    conditional = sample(circuit, asked=Question.density(given)).rows
    free = sample(circuit, 20_000, seed=1).rows
    kept = free[free[:, discrete] == 1.0]
    assert (conditional[:, discrete] == 1.0).all()
    assert len(kept) > 1000
    for v in range(circuit.graph.n_variables):
        if v != discrete:
            assert stats.ks_2samp(conditional[:, v], kept[:, v]).pvalue > 1e-4


@pytest.mark.parametrize("name", ["cp", "tucker chain", "mixed units", "joint of two"])
def test_draws_given_a_number_against_the_conditional_distribution_function(name):
    circuit, gates = build(name, seed=5), gates_of(name)
    d = circuit.graph.n_variables
    x = torch.full((2, d), torch.nan, dtype=torch.float64)
    x[:, 0] = torch.tensor([0.6, -1.1])
    evidence = torch.arange(2).repeat_interleave(1500)
    drawn = sample(circuit, 3000, Question.density(x), gates, evidence=evidence).rows.view(2, 1500, d)
    assert torch.equal(drawn[..., 0], x[:, :1].expand(2, 1500))
    for row in range(2):
        for v in range(1, d):

            def below(points, row=row, v=v):
                low = torch.full((len(points), d), -INF, dtype=torch.float64)
                high = -low
                high[:, v] = torch.tensor(points)
                rows = x[row].repeat(len(points), 1)
                with torch.no_grad():
                    part = circuit(Question(rows, low, high), gates)[0, 0]
                    return (part - circuit(Question(x[row : row + 1]), gates)[0, 0]).exp().numpy()

            assert stats.kstest(drawn[row, :, v].numpy(), below).pvalue > 1e-4


def test_tiny_masses_are_drawn_as_well():
    """Two units with densities e^-800 apart: the log values decide, not their exponentials."""
    circuit = build("cp", seed=6)
    x = torch.tensor(rows(circuit.graph, 1)) * 0 + 60.0
    x[0, 2] = torch.nan
    drawn = sample(circuit, 50, Question.density(x)).rows
    assert drawn.isfinite().all()


def test_a_seed_repeats_itself_and_no_rows_are_no_rows():
    circuit = build("families")
    assert torch.equal(sample(circuit, 20).rows, sample(circuit, 20).rows)
    assert not torch.equal(sample(circuit, 20).rows, sample(circuit, 20, seed=1).rows)
    assert sample(circuit, 0).rows.shape == (0, 3)


def test_a_single_leaf_is_a_circuit():
    graph = RegionGraph((Region((0,), 2, "leaf", leaf="gaussian"),))
    drawn = sample(FoldedCircuit(graph), 500, root=1)
    assert stats.kstest(drawn.rows[:, 0].numpy(), stats.norm(0, 1.0001).cdf).pvalue > 1e-4


def test_categorical_draws_by_weight():
    weights = torch.tensor([0.1, 0.0, 0.6, 0.3], dtype=torch.float64)
    drawn = categorical(weights.log().expand(5000, -1) + 1e5, seeded())
    counts = torch.bincount(drawn, minlength=4)
    assert counts[1] == 0
    assert stats.chisquare(counts[[0, 2, 3]], 5000 * weights[[0, 2, 3]]).pvalue > 1e-4
