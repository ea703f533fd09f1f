"""The paper's initial bounds: inner and outer boxes, and their way through gates above gates."""

import numpy as np
import pytest
import torch

from tests.certificates.random_models import random_case
from tests.certificates.scenes import everything, gaussians
from tests.certificates.truth import Asked, asked, by_samples, log_f, nearest
from voronoi_circuits.certificates import certify, integral_bounds
from voronoi_circuits.certificates.boxes import initial_bounds, inner_boxes, outer_boxes
from voronoi_circuits.certificates.sites import sites


@pytest.mark.parametrize("seed", range(6))
def test_inner_boxes_lie_in_cells_and_outer_boxes_around_them(seed):
    model = gaussians(seed, cells=5, variables=1 + seed % 3)
    site = sites(model)[0]
    inner, outer = inner_boxes(model, site), outer_boxes(model, site.gate)
    points = np.random.default_rng(seed).normal(0, 3, (20_000, model.n_variables))
    cells = nearest(points, model.placed[0].tessellation.centroids.detach().double().numpy())
    for k in range(5):
        within = ((points >= inner.low[k].numpy()) & (points <= inner.high[k].numpy())).all(1)
        around = ((points >= outer.low[k].numpy()) & (points <= outer.high[k].numpy())).all(1)
        assert (cells[within] == k).all()
        assert around[cells == k].all()
        assert within.any()


@pytest.mark.parametrize("seed", range(4))
def test_bounds_are_sums_of_masses_of_boxes(seed):
    """Σ π_k P_k(inner box) and Σ π_k P_k(outer box), by SciPy's Gaussians, in log space."""
    model = gaussians(seed, cells=4)
    site = sites(model)[0]
    lower, upper = initial_bounds(model, *everything(model))
    for found, boxes in ((lower, inner_boxes(model, site)), (upper, outer_boxes(model, site.gate))):
        x = np.full((4, 2), np.nan)
        own = [np.arange(4)]
        terms = log_f(model, Asked(x, boxes.low.numpy(), boxes.high.numpy()), own)
        assert float(found) == pytest.approx(float(np.logaddexp.reduce(terms)), abs=1e-10)


def test_the_better_inner_box_is_kept():
    """An expert away from its centroid: the box about the centroid holds almost nothing of it."""
    model = gaussians(0, cells=2)
    with torch.no_grad():
        c = model.placed[0].tessellation.centroids
        c.copy_(torch.tensor([[0.0, 0.0], [1.0, 0.0]]))
        for index in range(2):
            leaf, at = model.experts.circuit.leaf(index)
            leaf.location[0, at, 0] = -5.0
    box = inner_boxes(model, sites(model)[0])
    assert float(box.low[0, 0]) == -torch.inf
    assert float(box.high[0, 0]) < -3


def test_boxes_are_met_on_the_way_down():
    """Audit row 7, nested gates: the truth by samples lies between, and no gate is forgotten."""
    cases = [c for c in map(random_case, range(400)) if c.place in ("nested", "shared parts")]
    for case in cases[:12]:
        whole = asked(case.model, np.full(case.model.n_variables, np.nan))
        known = by_samples(case.model, whole, 50_000, np.random.default_rng(0))
        lower, upper = (float(side) for side in initial_bounds(case.model, *everything(case.model)))
        assert lower <= known.high
        assert known.low <= upper


def test_a_shared_region_s_gate_lies_below_both_of_its_parents():
    case = next(
        c for c in map(random_case, range(400)) if c.place == "shared parts" and len(c.model.placed) == 3
    )
    forest = sites(case.model)
    below = [{gate.region for gate in site.all_below()} for site in forest]
    assert len(forest) == 2
    assert below[0] == below[1] == {case.model.placed[-1].region}


def test_a_gate_of_one_cell_below_the_root_changes_nothing():
    """A region's integral, not the root's, is what is put in the region's place."""
    cases = [
        c for c in map(random_case, range(600)) if c.place == "internal" and c.model.placed[0].n_cells == 1
    ]
    for case in cases[:6]:
        model = case.model
        row = torch.full((1, model.n_variables), torch.nan, dtype=torch.float64)
        free = next(v for v in range(model.n_variables) if v not in model.placed[0].variables[:1])
        row[0, free] = case.centre[free]
        exact = model.ungated().log_integral(model.ungated().within(row)).item()
        certificate = certify(model)
        lower, upper = integral_bounds(model, row)
        assert float(lower) <= exact + 1e-12
        assert float(upper) >= exact - 1e-12
        assert float(upper - lower) < 1e-9
        assert certificate.gap < 1e-9 or model.domain is not None
