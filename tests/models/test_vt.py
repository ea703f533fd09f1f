"""VT models by their definition: hard f, its integral, draws, facets, and what is refused."""

import itertools

import numpy as np
import pytest
import torch
from scipy import stats

from tests.models.examples import PLAIN, VTS, build, points, rows, seeded
from tests.oracle import bisectors, grid_2d, nodes, vt_log_f
from voronoi_circuits.certificates.sites import sites
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.models.base import NotExactError
from voronoi_circuits.models.vt import VTModel, outward_difference
from voronoi_circuits.specs import VT, Circuit

INF = float("inf")
PLANE = {
    "own": VT(Circuit(units=2), 4),
    "shared": VT(Circuit("einet", "tucker", 3), 5, shared=True),
}


def smooth(model: VTModel) -> VTModel:
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key == "experts.logits":
                parameter.normal_(generator=seeded(1))
            if key.endswith("raw"):
                parameter.clamp_(min=-1.2)
    return model


def plane(name: str) -> VTModel:
    return smooth(PLANE[name].build(rows()[:, :2], seeded()))


def centroids(model: VTModel) -> np.ndarray:
    return model.placed[0].tessellation.centroids.detach().double().numpy()


def cell_mass(model: VTModel, x: np.ndarray, axis: int) -> np.ndarray:
    """∫ f along one axis, exactly: each cell meets the line in an interval, whose mass its expert knows."""
    c = centroids(model)
    k = len(c)
    others = [i for i in range(c.shape[1]) if i != axis]
    low, high = np.full((k, len(x)), -INF), np.full((k, len(x)), INF)
    for own, other in itertools.permutations(range(k), 2):
        a, b = c[other] - c[own], (c[other] @ c[other] - c[own] @ c[own]) / 2
        room = b - x[:, others] @ a[others]
        side = room / a[axis]
        if a[axis] > 0:
            high[own] = np.minimum(high[own], side)
        else:
            low[own] = np.maximum(low[own], side)
    total = np.zeros(len(x))
    weights = model.experts.log_weights(torch.float64).exp().detach().numpy()
    for own in range(k):
        rows_, sides = torch.tensor(x).clone(), torch.full((2, *x.shape), INF).double()
        rows_[:, axis] = torch.nan
        sides[0] = -INF
        sides[0, :, axis], sides[1, :, axis] = torch.tensor(low[own]), torch.tensor(high[own])
        with torch.no_grad():
            part = model.experts.values(Question(rows_, sides[0], sides[1]))[own].exp().numpy()
        total += weights[own] * np.where(low[own] < high[own], part, 0.0)
    return total


@pytest.mark.parametrize("name", PLANE)
def test_hard_f_integrates_to_the_sum_of_the_cells_masses(name):
    model = plane(name)
    planes = bisectors(centroids(model))
    x, w = grid_2d(-9, 9, planes, width=0.8, order=10)
    with torch.no_grad():
        z = (model.log_unnormalized(x).exp() * w).sum().item()
    assert 0.05 < z < 1.0
    corners = [np.linalg.solve([a, b], [s, t])[0] for (a, s), (b, t) in itertools.combinations(planes, 2)]
    first, v = nodes(-9, 9, corners, 0.25, 12)
    mass = cell_mass(model, np.stack([first, np.zeros_like(first)], 1), axis=1)
    assert (mass * v).sum() == pytest.approx(z, abs=1e-6)
    drawn = model.draw(4000, generator=seeded(2))
    assert drawn.acceptance == pytest.approx(z, abs=5 * np.sqrt(z * (1 - z) / 4000))


def test_three_dimensions_with_one_axis_integrated_exactly():
    model = smooth(VT(Circuit(units=2), 3).build(rows(), seeded()))
    side, w = nodes(-9, 9, width=0.3, order=4)
    grid = np.stack(np.meshgrid(side, side, indexing="ij"), -1).reshape(-1, 2)
    weights = np.outer(w, w).ravel()
    found = []
    for axis in (0, 2):
        x = np.insert(grid, axis, 0.0, axis=1)
        found.append((cell_mass(model, x, axis) * weights).sum())
    assert found[0] == pytest.approx(found[1], abs=1e-4)
    acceptance = model.draw(8000, generator=seeded()).acceptance
    assert acceptance == pytest.approx(found[0], abs=5 * np.sqrt(found[0] * (1 - found[0]) / 8000))
    line, v = nodes(-9, 9, [], 0.01, 4)
    for first, second in ((0.3, -0.4), (-1.0, 0.9)):
        x = np.stack([np.full_like(line, first), np.full_like(line, second), line], 1)
        with torch.no_grad():
            along = (model.log_unnormalized(torch.tensor(x)).exp().numpy() * v).sum()
        assert along == pytest.approx(cell_mass(model, np.array([[first, second, 0.0]]), 2)[0], abs=1e-4)


@pytest.mark.parametrize("name", VTS)
def test_f_and_its_ungated_twin_by_explicit_loops(name):
    model, x = build(name), points(name, 25)
    np.testing.assert_allclose(
        model.log_unnormalized(x).detach(), vt_log_f(model, x.numpy()), rtol=1e-11, atol=1e-11
    )
    ungated = vt_log_f(model, x.numpy(), gated=False)
    np.testing.assert_allclose(model.ungated().log_prob(x).detach(), ungated, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", PLANE)
def test_draws_follow_f(name):
    model = plane(name)
    drawn = model.draw(4000, generator=seeded(3)).rows
    edges = [-9.0, -0.8, 0.3, 9.0]
    planes = [*bisectors(centroids(model)), *((np.eye(2)[v], e) for v in (0, 1) for e in edges[1:3])]
    x, w = grid_2d(-9, 9, planes, width=0.8, order=8)
    with torch.no_grad():
        f = model.log_unnormalized(x).exp() * w
    inner = torch.tensor(edges[1:3]).double()
    place = torch.bucketize(x.contiguous(), inner) @ torch.tensor([3, 1])
    mass = torch.bincount(place, f, minlength=9)
    counts = torch.bincount(torch.bucketize(drawn, inner) @ torch.tensor([3, 1]), minlength=9)
    assert stats.chisquare(counts, 4000 * mass / mass.sum()).pvalue > 1e-4


def test_draws_of_a_cell_and_draws_given_evidence():
    model = plane("own")
    for cell in range(4):
        rows_ = model.draw(200, cell=cell, generator=seeded(cell)).rows
        assert (model.placed[0].cells(rows_) == cell).all()
    evidence = torch.tensor([0.4, torch.nan])
    conditional = model.draw(2000, given=evidence, generator=seeded(5)).rows
    assert (conditional[:, 0] == evidence[0].double()).all()
    free = model.sample(60_000, seeded(6))
    near = free[(free[:, 0] - 0.4).abs() < 0.02]
    assert stats.ks_2samp(conditional[:, 1], near[:, 1]).pvalue > 1e-4
    with pytest.raises(ValueError, match="cell 4 does not exist: take 0 to 3"):
        model.draw(1, cell=4)
    with pytest.raises(ValueError, match="no gate at the root"):
        build("vt, internal").draw(1, cell=0)


@pytest.mark.parametrize("name", ["vt, internal", "vt, nested", "vt, nested, shared"])
def test_nested_draws_lie_in_their_cells_and_accept_z(name):
    model = build(name)
    drawn = model.draw(500, generator=seeded())
    assert model.log_unnormalized(drawn.rows).isfinite().all()
    base = model.ungated().sample(20_000, seeded(1))
    with torch.no_grad():
        ratio = (model.log_unnormalized(base) - model.ungated().log_prob(base)).exp()
    assert drawn.acceptance == pytest.approx(ratio.mean().item(), abs=0.1)
    assert [len(site.all_below()) for site in sites(model)] == ([1] if "nested" in name else [0])


def test_rows_on_a_facet_go_to_the_lower_index_and_bounds_hold_both_sides():
    model = plane("own")
    with torch.no_grad():
        model.placed[0].tessellation.centroids.copy_(
            torch.tensor([[1.0, 0.0], [-1.0, 0.0], [9.0, 9.0], [9.0, 9.0]])
        )
    x = torch.tensor([[0.0, 0.7], [0.0, -3.0]]).double()
    assert model.placed[0].cells(x).tolist() == [0, 0]
    both = torch.stack([model.routed(x, torch.full((2,), k)) for k in (0, 1)])
    assert torch.equal(model.log_unnormalized(x), both[0])
    low, high = model.log_unnormalized_bounds(x)
    slack = 1e-12 * both.abs().amax(0)
    assert (low <= both.amin(0)).all()
    assert (high >= both.amax(0)).all()
    assert ((both.amin(0) - low) < slack).all()
    assert ((high - both.amax(0)) < slack).all()
    assert model.placed[0].cells(torch.tensor([[9.0, 9.0]])).tolist() == [2]  # of equal centroids too


@pytest.mark.parametrize("name", VTS)
def test_bounds_of_f_are_tight_away_from_facets(name):
    model, x = build(name), points(name)
    with torch.no_grad():
        low, high = model.log_unnormalized_bounds(x)
        value = model.log_unnormalized(x)
    assert (low <= value).all()
    assert (value <= high).all()
    assert (high - low < 1e-11 * (1 + value.abs())).all()


def test_more_cells_than_distinct_rows():
    x = rows(4)[:, :2].repeat(10, 1)
    model = VT(PLAIN, 12).build(x, seeded())
    value = model.log_unnormalized(x.double())
    assert value.isfinite().all()
    value.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_gates_read_no_categorical_column():
    model = build("vt, discrete column")
    assert model.placed[0].variables == (0, 2)
    x = points("vt, discrete column")
    moved = x.clone()
    moved[:, 1] = (x[:, 1] + 1) % 3
    assert torch.equal(model.placed[0].cells(x), model.placed[0].cells(moved))


def test_log_prob_is_refused_and_bounds_need_no_certificate():
    model, x = build("vt"), points("vt")
    questions = {
        model.log_prob: "log_prob_bounds",
        model.log_marginal: "marginal_bounds",
        lambda rows: model.log_conditional(rows, given=[0]): "conditional_bounds",
    }
    for question, instead in questions.items():
        with pytest.raises(NotExactError, match=instead):
            question(x)
    with pytest.raises(NotExactError, match="probability_bounds"):
        model.probability({})
    low, high = model.log_prob_bounds(x)
    assert (high == INF).all()

    class Known:
        lower, upper = -0.7, -0.2

    tight = model.log_prob_bounds(x, Known())
    value = model.log_unnormalized(x)
    torch.testing.assert_close(tight[0], value + 0.2, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(tight[1], value + 0.7, rtol=1e-12, atol=1e-12)
    assert (low < tight[0]).all()
    outside = outward_difference(torch.tensor([-INF, 1.0]).double(), -INF, 1)
    assert outside.tolist() == [-INF, INF]


def test_one_cell_is_the_plain_circuit():
    model = build("vt, one cell")
    x = points("vt")
    torch.testing.assert_close(model.log_unnormalized(x), model.ungated().log_prob(x), rtol=1e-13, atol=1e-13)
    assert model.draw(50, generator=seeded()).acceptance == 1.0
    assert "one cell" in str(model.exactness)
