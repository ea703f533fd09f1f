"""Cells that are of no use are told at the end of a fit."""

import pytest
import torch

from tests.training.scenes import built, pinwheel, seeded
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import HFV, Circuit
from voronoi_circuits.training import Adam
from voronoi_circuits.training.remarks import remarks


@pytest.mark.parametrize("name", ["circuit", "mixture", "vt", "hfv"])
def test_a_model_in_order_is_not_remarked_on(name: str) -> None:
    rows, _ = pinwheel(300)
    assert Adam(epochs=1).fit(built(name, rows), rows, generator=seeded()).remarks == ()


def test_far_and_equal_centroids_of_a_gate() -> None:
    rows, _ = pinwheel(300)
    model = built("vt", rows)
    assert isinstance(model, VTModel)
    with torch.no_grad():
        centroids = model.placed[0].tessellation.centroids
        centroids[3] = centroids[1]
        centroids[2] = 1e3
    fitted = Adam(epochs=1, cells="fixed").fit(model, rows, generator=seeded())
    where = f"gate at region {model.placed[0].region}"
    assert fitted.remarks == (
        f"{where}: cells 1 and 3 share a centroid",
        f"{where}: cells [2, 3] hold no training row",
    )


def test_intervals_and_coarse_cells() -> None:
    rows = torch.randn(200, 3, generator=seeded())
    model = HFV(Circuit(units=2), 3).build(rows, seeded())
    assert isinstance(model, HFVModel)
    leaf, coarse = next(iter(model.intervals)), next(iter(model.coarse))
    with torch.no_grad():
        model.interval_cells(int(leaf)).centroids[0] = torch.tensor([0.0, 1e3, 1e3])
        model.coarse_cells(int(coarse)).centroids[2] = -1e6
    assert remarks(model, rows) == (
        f"HFV region {leaf}: intervals 1 and 2 share a centroid",
        f"HFV region {leaf}: intervals [1, 2] hold no training row",
        f"HFV region {coarse}: coarse cells [2] are empty",
    )


def test_an_interrupted_model_may_be_broken() -> None:
    rows, _ = pinwheel(50)
    model = built("vt", rows)
    with torch.no_grad():
        next(model.parameters())[:] = torch.nan
    assert remarks(model, rows)[0].endswith("is no longer finite: lower learning_rate")
