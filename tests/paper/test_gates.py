"""Section 3: Voronoi-gated sums, why a single one is intractable, and what alignment restores."""

import itertools

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from tests import oracle
from tests.paper.scenes import (
    FOUR,
    build,
    constraints,
    contributions,
    factorised,
    gated,
    rows,
    true_partition,
)
from voronoi_circuits.certificates import certify, marginal_bounds
from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.models import Kind, NotExactError, VoronoiGate, VTModel
from voronoi_circuits.specs import HFV, VT, Circuit

PAIR = np.array([[0.0, 1.0], [1.0, 0.0]])
MEANS, DEVIATIONS = np.array([[0.3, 0.1], [0.2, -0.4]]), np.array([[0.7, 1.2], [0.9, 0.5]])


def two_level() -> VTModel:
    """x_1 + x_2 + x_3 + x_4 <= 0.6 at the root, x_1 − x_2 <= 0.5 at the left child."""
    model = build(VT(Circuit(FOUR), cells=2, gate_at=["root", (0, 1)]), 4, 3)
    root, left = model.placed
    with torch.no_grad():
        root.tessellation.centroids.copy_(0.15 + torch.tensor([[-1.0], [1.0]]).expand(2, 4))
        left.tessellation.centroids.copy_(torch.tensor([[-0.25, 0.25], [0.75, -0.75]]))
        for variable, deviation in enumerate([1.5, 0.4, 0.6, 0.6]):
            leaf, at = model.experts.circuit.leaf(variable)
            leaf.raw[:, at] = torch.tensor(deviation - float(leaf.floor)).log()
    return model


@pytest.mark.parametrize("shared", [True, False])
def test_definition_voronoi_gated_sum_node(shared: bool) -> None:
    """f(x) = Σ_k 1[x in V_k] π_k p_k(x)."""
    model = build(VT(Circuit(units=3), cells=4, shared=shared), 3, 1)
    x = rows(2, 300, 3, 1.5)
    torch.testing.assert_close(
        model.log_unnormalized(x), torch.from_numpy(oracle.vt_log_f(model, x.numpy())), rtol=1e-11, atol=1e-11
    )
    assert model.experts.log_weights(torch.float64).exp().sum().item() == pytest.approx(1)


def test_proposition_single_layer_intractability() -> None:
    """Within V_1 = {x_2 > x_1} independent variables are dependent; within a quadrant they are not.

    If ∫ over V factored, the mass of {x_1 <= a, x_2 <= b} within V would be the product of those of
    {x_1 <= a} and {x_2 <= b} within V, over the mass of V.
    """
    one, two = (stats.norm(m, s) for m, s in zip(MEANS[0], DEVIATIONS[0], strict=True))

    def within(a: float, b: float, oblique: bool) -> float:
        if not oblique:
            return max(one.cdf(a) - one.cdf(0.0), 0.0) * max(two.cdf(b) - two.cdf(-0.5), 0.0)
        found = integrate.quad(
            lambda x: one.pdf(x) * max(two.cdf(b) - two.cdf(x), 0.0), -9, min(a, b), epsabs=1e-13
        )
        return found[0]

    for oblique in (True, False):
        whole = within(12, 12, oblique)
        gaps = [
            within(a, 12, oblique) * within(12, b, oblique) / whole - within(a, b, oblique)
            for a, b in [(0.2, 0.3), (0.8, 0.1), (1.5, 1.0)]
        ]
        assert (max(map(abs, gaps)) > 0.03) if oblique else (max(map(abs, gaps)) < 1e-12)


def test_a_voronoi_gated_sum_claims_no_exact_partition_function() -> None:
    """Its Z is Φ-valued here (x_2 − x_1 is normal), inside the certificate; an exact one is refused."""
    model = gated(PAIR, MEANS, DEVIATIONS, [0.4, -0.3])
    truth = true_partition(model)
    weights = torch.softmax(torch.tensor([0.4, -0.3], dtype=torch.float64), 0).numpy()
    above = stats.norm(MEANS[:, 1] - MEANS[:, 0], np.hypot(*DEVIATIONS.T)).sf(0)
    assert truth == pytest.approx(weights[0] * above[0] + weights[1] * (1 - above[1]), abs=1e-12)
    certificate = certify(model)
    assert certificate.lower <= np.log(truth) <= certificate.upper
    assert certificate.gap <= 1e-3
    assert model.exactness.kind is Kind.CERTIFIED
    with pytest.raises(NotExactError, match="certified by bounds, not exact"):
        model.log_prob(rows(0, 1, 2))


def test_theorem_alignment_enables_factorization() -> None:
    """∫ f by quadrature = Σ_k π_k (∫ over R_k^1 of p_k^1)(∫ over R_k^2 of p_k^2) by SciPy = the one pass."""
    model = build(HFV(Circuit(units=1), cells=3), 2, 4)
    regions = model.experts.circuit.graph.regions
    supports = oracle.hfv_supports(model)
    joint = model.joint_regions[-1]
    masses = []
    for child in regions[joint].children:
        leaf, at = model.experts.circuit.leaf(child)
        twins = [oracle.normal(leaf, (0, at, k)) for k in range(3)]
        masses.append([t.cdf(b) - t.cdf(a) for t, a, b in zip(twins, *supports[child], strict=True)])
    weight = model.experts.circuit.weights(joint)[0][0, 0].detach().numpy().reshape(3, 3)
    factored = sum(
        weight[i, j] * masses[0][i] * masses[1][j] for i, j in itertools.product(range(3), repeat=2)
    )
    assert model.log_partition().exp().item() == pytest.approx(factored, rel=1e-12)
    edges = {regions[c].scope[0]: supports[c][0][1:] for c in supports}
    x, wx = oracle.nodes(-9, 9, list(edges[0]))
    y, wy = oracle.nodes(-9, 9, list(edges[1]))
    grid = torch.cartesian_prod(torch.tensor(x), torch.tensor(y))
    direct = (
        model.log_unnormalized(grid).exp() * torch.outer(torch.tensor(wx), torch.tensor(wy)).flatten()
    ).sum()
    assert direct.item() == pytest.approx(factored, rel=1e-9)


def test_proposition_constraint_accumulation() -> None:
    """f is a sum over choices at every sum node, each within the cells of every gate on its way."""
    model = two_level()
    x = rows(5, 200, 4)
    total = np.zeros(len(x))
    for expert, found in contributions(model):
        density = stats.norm(found.mean, found.deviation).pdf(x.numpy()).prod(1)
        inside = [x.numpy() @ a <= b for a, b in constraints(model, expert, found.units)]
        assert len(inside) == 2
        total += found.weight * density * np.logical_and.reduce(inside)
    torch.testing.assert_close(model.log_unnormalized(x).exp(), torch.from_numpy(total), rtol=1e-11, atol=0)


def test_example_two_level_interaction() -> None:
    """Z needs the bivariate normal of both constraints: one by one is wrong, the certificate is not."""
    model = two_level()
    truth = true_partition(model)
    apart = 0.0
    for expert, found in contributions(model):
        cuts = [
            stats.norm(a @ found.mean, np.linalg.norm(a * found.deviation)).cdf(b)
            for a, b in constraints(model, expert, found.units)
        ]
        apart += found.weight * cuts[0] * cuts[1]
    assert abs(apart / truth - 1) > 0.03
    certificate = certify(model, max_boxes=5000)
    assert certificate.lower <= np.log(truth) <= certificate.upper


def test_example_two_level_interaction_context() -> None:
    """Without x_3, x_4 the root's constraint is no half-plane but a smooth function of x_1 + x_2."""
    model = two_level()
    x = torch.tensor(
        [[0.1, 0.3, torch.nan, torch.nan], [0.9, 1.1, torch.nan, torch.nan]], dtype=torch.float64
    )
    truth = np.zeros(2)
    for expert, found in contributions(model):
        (root, c), (left, e) = constraints(model, expert, found.units)
        seen = x[:, :2].numpy()
        room = c - seen @ root[:2]
        rest = stats.norm(root[2:] @ found.mean[2:], np.linalg.norm(root[2:] * found.deviation[2:]))
        density = stats.norm(found.mean[:2], found.deviation[:2]).pdf(seen).prod(1)
        truth += found.weight * density * (seen @ left[:2] <= e) * rest.cdf(room)
    low, high = marginal_bounds(model, x, certify(model, max_boxes=5000), max_boxes=1000)
    log_p = np.log(truth / true_partition(model))
    assert (low.numpy() <= log_p).all()
    assert (log_p <= high.numpy()).all()


def test_example_a_rotated_hyperplane() -> None:
    """x_1 + x_2 = c: one centroid pair is exact; a k × k grid misplaces mass, about 1/k of it."""
    c = 0.5
    pair = Tessellation(torch.tensor([[0.0, 0.0], [c, c]], dtype=torch.float64))
    x = rows(6, 5000, 2)
    assert torch.equal(pair.nearest(x) == 0, x.sum(1) <= c)
    misplaced = []
    for k in (2, 4, 8, 16):
        edges = stats.norm.ppf(np.linspace(0, 1, k + 1))
        t, w = oracle.nodes(-8, 8, [*edges[1:-1], *(c - edges[1:-1])])
        column = np.searchsorted(edges[1:-1], t)
        below = np.clip(stats.norm.cdf(c - t)[:, None] - stats.norm.cdf(edges[:-1]), 0, 1 / k)
        cells = np.zeros((k, k))
        np.add.at(cells, column, (w * stats.norm.pdf(t))[:, None] * below)
        assert cells.sum() == pytest.approx(stats.norm.cdf(c / 2**0.5), abs=1e-12)
        misplaced.append(np.minimum(cells, 1 / k**2 - cells).sum())
    ratios = np.array(misplaced[:-1]) / np.array(misplaced[1:])
    assert min(misplaced) > 0.02
    assert ((ratios > 1.3) & (ratios < 2.4)).all()


def test_factorised_experts_over_a_product_gate_have_a_product_integral() -> None:
    """The remark's m-way form: three blocks, cells of a grid of centroids, ∫ over R_k = Π_i ∫ over R_k^i."""
    axis = np.array([-0.6, 0.8])
    grid = np.array(list(itertools.product(axis, repeat=3)))
    means, deviations = 0.3 * grid, 0.6 + 0.1 * np.arange(24).reshape(8, 3) / 8
    circuit = factorised(means, deviations)
    model = VTModel(circuit, [VoronoiGate(3, range(3), Tessellation(torch.tensor(grid)))])
    middle = axis.mean()
    sides = stats.norm(means, deviations).cdf(middle)
    truth = np.where(grid < middle, sides, 1 - sides).prod(1).mean()
    certificate = certify(model)
    assert certificate.lower <= np.log(truth) <= certificate.upper
    assert certificate.gap < 1e-8
