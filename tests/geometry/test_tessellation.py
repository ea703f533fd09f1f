from fractions import Fraction
from math import exp

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.geometry.distances import log_soft_cells


def random_cells(seed: int, cells: int, dimensions: int, dtype: torch.dtype = torch.float64) -> Tessellation:
    return Tessellation(torch.randn(cells, dimensions, generator=exact.generator(seed), dtype=dtype))


def rows(seed: int, count: int, dimensions: int, scale: float = 2.0) -> Tensor:
    return scale * torch.randn(count, dimensions, generator=exact.generator(seed), dtype=torch.float64)


@st.composite
def lattices(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Rows and centroids on a coarse lattice, so that ties and duplicates are common, at any offset."""
    dimensions = draw(st.integers(1, 4))
    point = st.lists(st.integers(-4, 4), min_size=dimensions, max_size=dimensions)
    centroids = torch.tensor(draw(st.lists(point, min_size=1, max_size=7)), dtype=torch.float64)
    points = torch.tensor(draw(st.lists(point, min_size=1, max_size=9)), dtype=torch.float64)
    offset, step = draw(st.sampled_from([0.0, 1e4, -(2.0**40)])), draw(st.sampled_from([0.5, 2.0**-10]))
    return points * step + offset, centroids * step + offset


@given(lattices())
@settings(max_examples=150)
def test_cells_partition_space(case: tuple[Tensor, Tensor]) -> None:
    """Every row has one cell, the lowest index of least exact distance, and satisfies its half-spaces."""
    u, centroids = case
    cells = Tessellation(centroids)
    nearest = cells.nearest(u)
    assert nearest.tolist() == exact.nearest(u, centroids)
    ties = torch.tensor([[d == min(row) for d in row] for row in exact.squared_distances(u, centroids)])
    assert (cells.candidates(u) >= ties).all()
    normals, offsets = cells.halfspaces()
    error = 1e-15 * (normals[nearest].abs() * u[:, None].abs()).sum(-1) + cells.offset_error()[nearest]
    assert ((normals[nearest] * u[:, None]).sum(-1) <= offsets[nearest] + 4 * error).all()


def test_float32_rows_at_an_offset_are_decided_rightly() -> None:
    g = exact.generator(0)
    centroids = 1e4 + torch.randn(6, 3, generator=g)
    u = 1e4 + torch.randn(800, 3, generator=g)
    truth = exact.nearest(u, centroids)
    assert Tessellation(centroids).nearest(u).tolist() == truth
    by_matrix_product = torch.cdist(u, centroids, compute_mode="use_mm_for_euclid_dist").argmin(-1)
    assert (by_matrix_product != torch.tensor(truth)).any()  # so the rows above are hard enough


@pytest.mark.parametrize("offset", [0.0, 1e4, 1e8])
def test_rows_on_a_facet_go_to_the_lower_index(offset: float) -> None:
    centroids = torch.tensor([[3.0, 1.0], [1.0, -1.0], [7.0, 7.0]]) + offset
    middle = (centroids[0] + centroids[1]).double() / 2
    u = middle + torch.linspace(-1, 1, 9, dtype=torch.float64)[:, None] * torch.tensor([1.0, -1.0])
    assert exact.nearest(u, centroids) == [0] * 9
    assert Tessellation(centroids).nearest(u).tolist() == [0] * 9
    assert Tessellation(centroids[[1, 0, 2]]).nearest(u).tolist() == [0] * 9
    assert Tessellation(centroids).candidates(u)[:, :2].all()


def test_candidates_hold_the_exact_cell_of_rows_within_rounding_of_a_facet() -> None:
    centroids = torch.randn(5, 3, generator=exact.generator(1), dtype=torch.float64) + 100.0
    direction = torch.randn(400, 3, generator=exact.generator(2), dtype=torch.float64)
    normal = centroids[1] - centroids[0]
    direction -= (direction @ normal)[:, None] * normal / (normal @ normal)
    u = (centroids[0] + centroids[1]) / 2 + direction * torch.logspace(-3, 6, 400, dtype=torch.float64)[
        :, None
    ]
    cells = Tessellation(centroids)
    truth = torch.tensor(exact.nearest(u, centroids))
    candidates = cells.candidates(u)
    assert candidates[torch.arange(400), truth].all()
    assert candidates[torch.arange(400), cells.nearest(u)].all()
    assert candidates.sum(1).max() > 1
    assert (Tessellation(centroids).candidates(rows(3, 1000, 3) + 100.0).sum(1) == 1).all()


@pytest.mark.parametrize("scale", [1e30, 1e200, 1e300])
def test_far_rows_find_their_cell(scale: float) -> None:
    cells, u = random_cells(4, 8, 3), rows(5, 50, 3, scale)
    assert cells.nearest(u).tolist() == exact.nearest(u, cells.centroids.detach())


def test_duplicates_belong_to_the_lower_index_and_are_reported() -> None:
    cells = Tessellation(torch.tensor([[1.0, 1.0], [0.0, 0.0], [1.0, 1.0], [1.0, 1.0]]))
    assert cells.duplicates() == [(0, 2), (0, 3), (2, 3)]
    u = rows(6, 200, 2)
    assert set(cells.nearest(u).tolist()) == {0, 1}
    assert cells.unreached(u) == [2, 3]
    assert cells.margin(torch.tensor([[2.0, 2.0]])).item() == 0.0
    normals, offsets = cells.halfspaces()
    holds = (u[:, None, None] * normals).sum(-1) <= offsets
    assert not holds.all(-1)[:, [2, 3]].any()
    assert holds.all(-1)[:, [0, 1]].any(1).all()


def test_one_cell_is_everything() -> None:
    cells, u = random_cells(7, 1, 2), rows(8, 5, 2)
    assert cells.nearest(u).tolist() == [0] * 5
    assert cells.margin(u).tolist() == [float("inf")] * 5
    assert cells.log_soft(u, 2.0).tolist() == [[0.0]] * 5


def test_no_rows_have_no_cells() -> None:
    cells, u = random_cells(7, 3, 2), torch.zeros(0, 2)
    assert cells.nearest(u).shape == cells.margin(u).shape == (0,)
    assert cells.candidates(u).shape == cells.log_soft(u, 1.0).shape == (0, 3)


def test_many_rows_are_cut_into_blocks_without_a_seam() -> None:
    cells, u = random_cells(9, 300, 2), rows(10, 20_000, 2)
    distance = (u[:, None] - cells.centroids.detach()).square().sum(-1)
    assert torch.equal(cells.nearest(u), distance.argmin(1))
    best = distance.topk(2, largest=False).values
    torch.testing.assert_close(cells.margin(u), best[:, 1] - best[:, 0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_margin_is_the_gap_to_the_second_nearest(offset: float) -> None:
    centroids = random_cells(11, 6, 3).centroids.detach() + offset
    u = rows(12, 100, 3) + offset
    truth = [sorted(row)[1] - min(row) for row in exact.squared_distances(u, centroids)]
    expected = torch.tensor([float(t) for t in truth], dtype=torch.float64)
    torch.testing.assert_close(Tessellation(centroids).margin(u), expected, rtol=1e-11, atol=1e-13)


def test_margin_of_far_rows_does_not_cancel() -> None:
    cells, u = random_cells(24, 6, 3), rows(25, 100, 3, 1e12)
    truth = [sorted(row)[1] - min(row) for row in exact.squared_distances(u, cells.centroids.detach())]
    expected = torch.tensor([float(t) for t in truth], dtype=torch.float64)
    torch.testing.assert_close(cells.margin(u), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_soft_gate_is_the_softmax_of_minus_alpha_times_squared_distance(offset: float) -> None:
    centroids = random_cells(13, 5, 3).centroids.detach() + offset
    u = rows(14, 20, 3) + offset
    log_w = Tessellation(centroids).log_soft(u, 7.5)
    with mpmath.workdps(50):
        for row, distances in enumerate(exact.squared_distances(u, centroids)):
            logits = [-mpmath.mpf("7.5") * mpmath.mpf(d.numerator) / d.denominator for d in distances]
            norm_constant = mpmath.log(mpmath.fsum(mpmath.exp(x) for x in logits))
            expected = torch.tensor([float(x - norm_constant) for x in logits], dtype=torch.float64)
            torch.testing.assert_close(log_w[row], expected, rtol=1e-12, atol=1e-12)


def test_soft_gate_keeps_its_gradient_far_away() -> None:
    cells = random_cells(15, 4, 3, torch.float32)
    u = rows(16, 6, 3, 1e25).float().requires_grad_()
    log_w = cells.log_soft(u, 50.0)
    assert torch.equal(log_w.argmax(1), cells.nearest(u))
    log_w.exp()[:, 0].sum().backward()
    for gradient in (u.grad, cells.centroids.grad):
        assert gradient is not None
        assert gradient.isfinite().all()


def test_soft_to_hard_limit() -> None:
    """(i): off the facets w_k(u; α) tends to the indicator of V_k."""
    cells, u = random_cells(17, 7, 2), rows(18, 300, 2)
    u = u[cells.margin(u) > 1e-3]
    hard = torch.nn.functional.one_hot(cells.nearest(u), 7).double()
    gaps = [(cells.log_soft(u, alpha).exp() - hard).abs().max().item() for alpha in (1.0, 1e2, 1e3, 1e5)]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-9


@given(st.integers(0, 10_000), st.integers(1, 8), st.integers(1, 4), st.floats(0.01, 100.0))
@settings(max_examples=60)
def test_soft_to_hard_rate(seed: int, cells: int, dimensions: int, alpha: float) -> None:
    """(ii): 1 − w_{k*}(u; α) <= (K − 1) exp(−αγ(u))."""
    tessellation, u = random_cells(seed, cells, dimensions), rows(seed + 1, 50, dimensions)
    own = tessellation.log_soft(u, alpha).gather(1, tessellation.nearest(u)[:, None]).squeeze(1)
    bound = (cells - 1) * torch.exp(-alpha * tessellation.margin(u))
    assert (-torch.expm1(own) <= bound * (1 + 1e-9) + 1e-15).all()


def test_soft_to_hard_rate_has_the_right_constant() -> None:
    """K − 1 rivals at one distance attain the bound as α grows, so no smaller constant would do."""
    angles = torch.arange(5, dtype=torch.float64) * 2 * torch.pi / 5
    centroids = torch.cat(
        [torch.zeros(1, 2, dtype=torch.float64), torch.stack([angles.cos(), angles.sin()], 1)]
    )
    log_w = Tessellation(centroids).log_soft(torch.zeros(1, 2, dtype=torch.float64), 20.0)
    assert -torch.expm1(log_w[0, 0]).item() == pytest.approx(5 * exp(-20.0), rel=1e-7)


def test_integral_convergence() -> None:
    """(iii): ∫ w_k p tends to ∫_{V_k} p; here p is a standard normal and V_0 an oblique half-space."""
    cells = Tessellation(torch.tensor([[-1.0, 0.0], [1.0, 1.0]], dtype=torch.float64))
    normals, offsets = cells.halfspaces()
    truth = norm.cdf(offsets[0, 1].item() / normals[0, 1].norm().item())
    axis = torch.linspace(-8, 8, 801, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    weight = torch.exp(-grid.square().sum(1) / 2) / (2 * torch.pi) * (axis[1] - axis[0]) ** 2
    errors = [
        abs((cells.log_soft(grid, a)[:, 0].exp() @ weight).item() - truth) for a in (0.1, 1.0, 10.0, 50.0)
    ]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-4 < errors[0]


def test_differentiability() -> None:
    """At every finite α the gate has derivatives in rows, centroids and α, those of finite differences."""
    centroids, u = random_cells(19, 4, 3).centroids.detach(), rows(20, 5, 3)
    alpha = torch.tensor(1.3, dtype=torch.float64)
    assert torch.autograd.gradcheck(log_soft_cells, [x.requires_grad_() for x in (u, centroids, alpha)])


@given(st.integers(0, 10_000), st.floats(0.05, 20.0))
@settings(max_examples=25)
def test_centroid_gradient(seed: int, alpha: float) -> None:
    """∇_{c_k} w_k = 2α w_k (1 − w_k)(u − c_k)."""
    cells, u = random_cells(seed, 4, 3), rows(seed + 1, 1, 3)
    for k in range(4):
        w = cells.log_soft(u, alpha).exp()[0, k]
        (gradient,) = torch.autograd.grad(w, cells.centroids)
        others = cells.log_soft(u, alpha).exp()[0].detach()
        rest = others[torch.arange(4) != k].sum()  # 1 − w_k without cancellation
        expected = 2 * alpha * w.detach() * rest * (u[0] - cells.centroids[k].detach())
        torch.testing.assert_close(gradient[k], expected, rtol=1e-8, atol=1e-14)


def test_proposition_1_two_centroids() -> None:
    """V_1 = {x_2 > x_1} for c_1 = (0, 1), c_2 = (1, 0); its mass is no product of masses of its shadows."""
    cells = Tessellation(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
    u = rows(21, 1000, 2)
    assert torch.equal(cells.nearest(u) == 0, u[:, 1] > u[:, 0])
    normals, offsets = cells.halfspaces()
    assert normals[0, 1].tolist() == [1.0, -1.0]
    assert offsets[0, 1].item() == 0.0
    quadrant = (
        u.abs()
    )  # V_1's part of it casts the whole of both axes as shadows, and yet has half of the mass
    assert (cells.nearest(quadrant) == 0).double().mean().item() == pytest.approx(0.5, abs=0.06)


def test_offsets_are_within_their_stated_error_of_the_exact_ones() -> None:
    centroids = random_cells(22, 6, 4).centroids.detach() + 1e6
    _, offsets = Tessellation(centroids).halfspaces()
    error = Tessellation(centroids).offset_error()
    naive = (centroids.square().sum(1)[None, :] - centroids.square().sum(1)[:, None]) / 2
    naive_fails = False
    for k in range(6):
        for j in range(6):
            a, b = ([Fraction(v) for v in centroids[i].tolist()] for i in (k, j))
            truth = sum((y - x) * (y + x) / 2 for x, y in zip(a, b, strict=True))
            assert abs(Fraction(offsets[k, j].item()) - truth) <= Fraction(error[k, j].item())
            naive_fails |= abs(Fraction(naive[k, j].item()) - truth) > Fraction(error[k, j].item())
    assert naive_fails  # the difference of squared norms cancels


@pytest.mark.parametrize(
    "centroids", [torch.zeros(3), torch.zeros(0, 2), torch.zeros(2, 0), torch.zeros(2, 2, dtype=torch.long)]
)
def test_centroids_of_the_wrong_shape_or_type_are_refused(centroids: Tensor) -> None:
    with pytest.raises(ValueError, match="centroids must be a floating"):
        Tessellation(centroids)


def test_bad_rows_centroids_and_temperatures_are_refused_by_name() -> None:
    cells = random_cells(23, 2, 3)
    with pytest.raises(ValueError, match=r"centroids must be finite: the entry at \(1, 0\) is nan"):
        Tessellation(torch.tensor([[0.0], [float("nan")]]))
    with pytest.raises(ValueError, match=r"rows must have shape \(B, 3\)"):
        cells.nearest(torch.zeros(4, 2))
    with pytest.raises(ValueError, match=r"rows must be finite: the entry at \(0, 2\) is inf"):
        cells.margin(torch.tensor([[0.0, 0.0, float("inf")]]))
    for alpha in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="alpha must be a positive finite number"):
            cells.log_soft(torch.zeros(1, 3), alpha)
    assert cells.log_soft(torch.zeros(1, 3), torch.tensor(1.0)).exp().sum().item() == pytest.approx(1.0)
