"""Inner boxes against exact rational arithmetic, and their volume against SciPy's optimiser."""

# K cells, d variables

from fractions import Fraction

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from voronoi_circuits.certificates.inner_boxes import conservative_box, optimised_box


def excess(centroids, k, low, high):
    """The largest a_j·x − b_j over the box and all other centroids, in rationals."""
    worst = -float("inf")
    for other in centroids.tolist():
        total = Fraction(0)
        sides = zip(other, centroids[k].tolist(), low.tolist(), high.tolist(), strict=True)
        for c_j, c_k, low_i, high_i in sides:
            a = Fraction(c_j) - Fraction(c_k)
            x = high_i if a > 0 else low_i
            if a and abs(x) == float("inf"):
                return float("inf")
            total += a * (Fraction(x) - (Fraction(c_j) + Fraction(c_k)) / 2) if a else 0
        if other != centroids[k].tolist():
            worst = max(worst, total)
    return worst


def owns(centroids, k):
    return not (centroids[:k] == centroids[k]).all(1).any()


def tessellations(count, offsets=(0.0, 1e6)):
    """Random centroids at random scales, in both precisions, some of them far from the origin."""
    rng = np.random.default_rng(7)
    for n in range(count):
        cells, d = int(rng.integers(2, 9)), int(rng.integers(1, 6))
        scale = 10.0 ** rng.uniform(-3, 3, size=d)
        points = (rng.normal(size=(cells, d)) + offsets[n % len(offsets)]) * scale
        yield torch.tensor(points, dtype=torch.float32 if n % 3 == 0 else torch.float64)


def expected_boxes(centroids, rng):
    """A finite box about each centroid, as the quantiles of an expert would give."""
    spread = centroids.double().std(0) + 1e-9
    centre = centroids.double() + spread * torch.tensor(rng.normal(size=tuple(centroids.shape)))
    width = spread * torch.tensor(rng.uniform(1, 5, size=tuple(centroids.shape)))
    return centre - width, centre + width


def test_inner_box_construction():
    """Prop. "Inner Box Construction": the box lies in V_k exactly, with the radius stated."""
    for centroids in tessellations(80):
        low, high = conservative_box(centroids)
        points = centroids.double()
        for k in range(len(points)):
            assert excess(points, k, low[k], high[k]) <= 0
            others = points[(points != points[k]).any(1)]
            radius = (others - points[k]).norm(dim=1).min() / (2 * points.shape[1] ** 0.5)
            if owns(points, k):
                slack = 1e-9 + 1e-12 * float(points.abs().max() / radius)
                assert ((high[k] - low[k]) / 2).tolist() == pytest.approx(
                    [float(radius)] * len(low[k]), rel=slack
                )


def test_the_closed_form_without_its_proof_leaves_the_cell():
    """The same formula in plain floats: what the exact check above is there to catch."""
    violations = 0
    for centroids in tessellations(80, offsets=(0.0,)):
        points = centroids.double()
        for k in range(len(points)):
            others = torch.cat([points[:k], points[k + 1 :]])
            radius = (others - points[k]).norm(dim=1).min() / (2 * points.shape[1] ** 0.5)
            violations += excess(points, k, points[k] - radius, points[k] + radius) > 0
    assert violations > 0


def test_optimised_boxes_lie_in_their_cells():
    rng = np.random.default_rng(3)
    for centroids in tessellations(80):
        points, (low, high) = centroids.double(), expected_boxes(centroids, rng)
        inner_low, inner_high = optimised_box(centroids, low, high)
        for k in range(len(points)):
            assert excess(points, k, inner_low[k], inner_high[k]) <= 0
            assert (inner_low[k] <= inner_high[k]).all()


def test_optimised_boxes_have_the_largest_volume():
    rng = np.random.default_rng(5)
    for centroids in tessellations(12, offsets=(0.0,)):
        points = centroids.double().numpy()
        low, high = expected_boxes(centroids, rng)
        found = [side.numpy() for side in optimised_box(centroids, low, high)]
        plain = [side.numpy() for side in conservative_box(centroids)]
        low, high = low.numpy(), high.numpy()
        for k in range(len(points)):
            volume = log_volume(np.maximum(found[0][k], low[k]), np.minimum(found[1][k], high[k]))
            start = np.maximum(plain[0][k], low[k]), np.minimum(plain[1][k], high[k])
            if (start[0] >= start[1]).any():
                continue  # the centroid lies outside the finite box: SciPy has no start
            assert volume >= log_volume(*start) - 1e-9
            assert volume >= largest_volume(points, k, low[k], high[k], start) - 1e-5


def log_volume(low, high):
    return float(np.log(np.maximum(high - low, 1e-300)).sum())


def largest_volume(points, k, low, high, start):
    """SLSQP's optimum, in units of the finite box, from the conservative box; a lower bound on the truth."""
    d, scale = len(low), high - low
    normals = np.delete(points, k, 0) - points[k]
    offsets = (normals * (np.delete(points, k, 0) + points[k])).sum(1) / 2 - normals @ low
    rows = np.concatenate([-np.maximum(-normals, 0) * scale, np.maximum(normals, 0) * scale], 1)
    sizes = np.abs(rows).sum(1)
    constraint = {
        "type": "ineq",
        "fun": lambda z: (offsets - rows @ z) / sizes,
        "jac": lambda z: -rows / sizes[:, None],
    }

    def loss(z):
        return -np.log(np.maximum(z[d:] - z[:d], 1e-12)).sum()

    def slope(z):
        steps = 1.0 / np.maximum(z[d:] - z[:d], 1e-12)
        return np.concatenate([steps, -steps])

    first = np.concatenate([(start[0] - low) / scale, (start[1] - low) / scale])
    found = minimize(
        loss, first, jac=slope, bounds=[(0, 1)] * (2 * d), constraints=constraint, method="SLSQP"
    )
    feasible = (constraint["fun"](found.x) >= -1e-7).all()
    return -found.fun + float(np.log(scale).sum()) if feasible else -np.inf


def test_a_diagonal_facet_is_met_at_its_best_corner():
    """Cell {x + y ≤ 2} in [−1, 3]²: the square [−1, 1]², and the cell never ends downwards."""
    low, high = optimised_box(
        torch.tensor([[0.0, 0.0], [2.0, 2.0]]), torch.full((2, 2), -1.0), torch.full((2, 2), 3.0)
    )
    assert low[0].tolist() == [-torch.inf, -torch.inf]
    assert torch.allclose(high[0], torch.ones(2).double(), atol=1e-6)
    assert (high[0] < 1).all()


def test_sides_are_infinite_exactly_where_the_cell_never_ends():
    for centroids in tessellations(40, offsets=(0.0,)):
        spread = 20 * centroids.abs().amax(0).expand_as(centroids)
        low, high = optimised_box(centroids, -spread, spread)
        assert torch.equal(high == torch.inf, centroids == centroids.amax(0))
        assert torch.equal(low == -torch.inf, centroids == centroids.amin(0))


def test_cells_that_miss_their_finite_box_get_the_conservative_one():
    centroids = torch.tensor([[0.0, 0.0], [4.0, 1.0], [1.0, 4.0]])
    low = torch.tensor([[50.0, 50.0], [-60.0, -60.0], [0.5, 3.5]])
    inner, plain = optimised_box(centroids, low, low + 1), conservative_box(centroids)
    for side, expected in zip(inner, plain, strict=True):
        assert torch.equal(side[:2], expected[:2])
        assert not torch.equal(side[2], expected[2])


def test_a_centroid_outside_its_finite_box_still_has_a_large_box():
    centroids = torch.tensor([[0.0, 0.0], [10.0, 3.0]])
    low, high = torch.tensor([[1.0, 1.0], [9.0, 9.0]]), torch.tensor([[3.0, 2.0], [9.5, 9.5]])
    inner_low, inner_high = optimised_box(centroids, low, high)
    assert torch.allclose(inner_high[0], high[0].double(), atol=1e-6)  # the whole finite box lies in the cell
    assert inner_low[0].tolist() == [-torch.inf, -torch.inf]


@pytest.mark.parametrize("d", [1, 3])
def test_one_cell_is_all_of_space(d):
    ends = torch.full((1, d), torch.inf)
    for low, high in (
        conservative_box(torch.zeros(1, d)),
        optimised_box(torch.zeros(1, d), -(ends**0), ends**0),
    ):
        assert torch.equal(low, -ends.double())
        assert torch.equal(high, ends.double())


def test_of_equal_centroids_the_first_owns_the_cell():
    centroids = torch.tensor([[1.0, 0.0], [1.0, 0.0], [5.0, 0.0]])
    finite = centroids.double() - 9, centroids.double() + 9
    for low, high in (conservative_box(centroids), optimised_box(centroids, *finite)):
        assert torch.equal(low[1], centroids[1].double())
        assert torch.equal(high[1], centroids[1].double())
        assert (high[0] > low[0]).all()


def test_many_cells_in_many_variables():
    """40 cells in 34 variables: all proven, and far larger than the closed form."""
    generator = torch.Generator().manual_seed(0)
    centroids = torch.randn(40, 34, generator=generator, dtype=torch.float64)
    low, high = optimised_box(centroids, centroids - 2, centroids + 2)
    plain_low, plain_high = conservative_box(centroids)
    widths = high.minimum(centroids + 2) - low.maximum(centroids - 2)
    gain = widths.log().sum(1) - (plain_high - plain_low).log().sum(1)
    assert (gain > 10).all()
    assert all(excess(centroids, k, low[k], high[k]) <= 0 for k in range(0, 40, 8))


@pytest.mark.parametrize("change", ["shape", "infinite", "empty", "centroid", "vector"])
def test_bad_input_is_named(change):
    centroids, low, high = torch.tensor([[0.0, 0.0], [4.0, 0.0]]), -torch.ones(2, 2), torch.ones(2, 2)
    if change == "shape":
        low = low[:1]
    elif change == "infinite":
        high[1, 0] = torch.inf
    elif change == "empty":
        low[0, 1] = 1.0
    elif change == "centroid":
        centroids[1, 0] = torch.nan
    else:
        centroids = centroids[0]
    message = {
        "shape": "shape of the centroids",
        "infinite": "cell 1, variable 0",
        "empty": "cell 0, variable 1",
        "centroid": r"centroids\[1, 0\] is nan",
        "vector": r"shape \(cells, variables\)",
    }[change]
    with pytest.raises(ValueError, match=message):
        optimised_box(centroids, low, high)
