"""Margins, Lloyd's step and counts of cells."""

import math

import numpy as np
import pytest
import torch

from tests.training.scenes import built, pinwheel, seeded
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import VT, Circuit
from voronoi_circuits.training.cells import cells_in_use, cells_of, lloyd_step


def means_by_hand(points: np.ndarray, centroids: np.ndarray, mass: np.ndarray) -> np.ndarray:
    """The weighted mean of the rows nearest to each centroid; the centroid where there are none."""
    owner = ((points[:, None] - centroids[None]) ** 2).sum(-1).argmin(1)
    out = centroids.copy()
    for k in range(len(centroids)):
        if (owner == k).any():
            out[k] = np.average(points[owner == k], axis=0, weights=mass[owner == k])
    return out


@pytest.mark.parametrize("weighted", [False, True])
def test_a_lloyd_step_moves_centroids_to_weighted_means(weighted: bool) -> None:
    rows, _ = pinwheel(200)
    model = built("vt", rows)
    assert isinstance(model, VTModel)
    start = torch.tensor([[0.0, 0.5], [1.0, 1.0], [-0.3, -1.0], [50.0, 50.0]])
    centroids = model.placed[0].tessellation.centroids
    centroids.data.copy_(start)
    weights = torch.rand(200, generator=seeded(3)) if weighted else None
    lloyd_step(model, rows, weights)
    mass = np.ones(200) if weights is None else weights.double().numpy()
    expected = means_by_hand(rows.double().numpy(), start.double().numpy(), mass)
    assert np.allclose(centroids.detach().numpy(), expected, atol=1e-6)
    assert torch.equal(centroids[3], start[3])


def test_a_lloyd_step_moves_intervals_in_their_order() -> None:
    rows, _ = pinwheel(200)
    model = built("hfv", rows)
    assert isinstance(model, HFVModel)
    key = next(iter(model.intervals))
    cells = model.interval_cells(int(key))
    variable = model.gate_variables(int(key))[0]
    cells.centroids.data.copy_(torch.tensor([[1.0, -1.0, 0.1]]))
    lloyd_step(model, rows, None)
    column = rows[:, [variable]].double().numpy()
    expected = means_by_hand(column, np.array([[-1.0], [0.1], [1.0]]), np.ones(200))
    assert np.allclose(cells.sorted_centroids().detach().numpy(), expected.T, atol=1e-6)


def test_gates_are_found_wherever_they_are() -> None:
    rows = torch.randn(60, 4, generator=seeded())
    internal = Circuit("einet", "tucker", 2).graph(rows, seeded()).regions[-1].children
    scope = Circuit("einet", "tucker", 2).graph(rows, seeded()).regions[internal[0]].scope
    model = VT(Circuit("einet", "tucker", 2), cells=3, gate_at=["root", scope]).build(rows, seeded())
    assert [len(cells.variables) for cells in cells_of(model)] == [4, len(scope)]
    assert model.router is None
    assert cells_of(built("mixture", rows[:, :2])) == []


def test_rows_meet_one_expert_only_where_experts_are_their_own() -> None:
    rows, _ = pinwheel(60)
    found = {
        name: getattr(built(name, rows), "router", None) is not None
        for name in ("vt", "vt-shared", "hfv", "circuit")
    }
    assert found == {"vt": True, "vt-shared": False, "hfv": False, "circuit": False}


def test_cells_in_use_are_those_with_rows() -> None:
    rows, _ = pinwheel(200)
    vt = built("vt", rows)
    assert isinstance(vt, VTModel)
    assert cells_in_use(vt, rows) == 4
    vt.placed[0].tessellation.centroids.data[2] = 99.0
    assert cells_in_use(vt, rows) == 3
    hfv = built("hfv", rows)
    assert isinstance(hfv, HFVModel)
    assert cells_in_use(hfv, rows) == len(set(hfv.cells(rows).tolist()))
    assert math.isnan(cells_in_use(built("circuit", rows), rows))
