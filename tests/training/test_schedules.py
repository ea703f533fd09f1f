"""α of every epoch."""

import itertools
import math

import numpy as np
import pytest
import torch

from tests.training.scenes import built, pinwheel, seeded
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import HFV, VT, Circuit
from voronoi_circuits.training import Adam
from voronoi_circuits.training.schedules import Phase, annealing, linear, phases


def brute_margins(points: np.ndarray, centroids: np.ndarray) -> np.ndarray:
    """γ of every row by all squared distances, sorted."""
    squared = ((points[:, None] - centroids[None]) ** 2).sum(-1)
    squared.sort(axis=1)
    return squared[:, 1] - squared[:, 0]


def test_linear_meets_both_ends_in_equal_steps() -> None:
    alphas = linear(1.0, 50.0, 100)
    assert (alphas[0], alphas[-1], len(alphas)) == (1.0, 50.0, 100)
    assert np.allclose(np.diff(alphas), 49 / 99)
    assert linear(3.0, 2.0, 1) == [2.0]


def test_the_papers_protocol_is_in_the_history() -> None:
    rows, _ = pinwheel(200)
    fitted = Adam(epochs=5, anneal=(1, 50)).fit(built("vt", rows), rows, generator=seeded())
    assert fitted.history["alpha"] == pytest.approx([1, 13.25, 25.5, 37.75, 50], rel=1e-15)


@pytest.mark.parametrize("scale", [0.1, 1.0, 30.0])
def test_auto_is_measured_in_the_median_margin_of_a_vt(scale: float) -> None:
    rows = pinwheel(300)[0] * scale
    model = built("vt", rows)
    assert isinstance(model, VTModel)
    centroids = model.placed[0].tessellation.centroids.detach().double().numpy()
    margins = np.sort(brute_margins(rows.double().numpy(), centroids))
    middle = margins[(len(margins) - 1) // 2]
    assert annealing(model, rows, "auto") == pytest.approx((1 / middle, 50 / middle), rel=1e-9)


def test_auto_pools_the_margins_of_all_gates_of_an_hfv() -> None:
    rows = torch.randn(300, 4, generator=seeded(1))
    model = HFV(Circuit("einet", "tucker", 2), cells=3).build(rows, seeded())
    assert isinstance(model, HFVModel)
    assert len(model.coarse) == 2
    x = rows.double().numpy()
    graph = model.experts.circuit.graph
    pooled = []
    for key in model.intervals:
        region = int(key)
        centroids = model.interval_cells(region).centroids.detach().double().numpy().T
        pooled.append(brute_margins(x[:, list(graph.regions[region].scope)], centroids))
    for key in model.coarse:
        region = int(key)
        centroids = model.coarse_cells(region).centroids.detach().double().numpy()
        pooled.append(brute_margins(x[:, model.gate_variables(region)], centroids))
    margins = np.sort(np.concatenate(pooled))
    middle = margins[(len(margins) - 1) // 2]
    assert annealing(model, rows, "auto") == pytest.approx((1 / middle, 50 / middle), rel=1e-9)


def test_auto_without_a_margin_is_the_papers_schedule() -> None:
    rows, _ = pinwheel(50)
    single = VT(Circuit("einet", "tucker", 2), cells=1).build(rows, seeded())
    assert annealing(single, rows, "auto") == (1.0, 50.0)


@pytest.mark.parametrize("routing", ["soft", "hard"])
def test_without_gates_there_is_no_alpha(routing: str) -> None:
    rows, _ = pinwheel(50)
    for name in ("circuit", "mixture"):
        plan = phases(built(name, rows), rows, 3, routing=routing, anneal="auto", objective="likelihood")
        assert all(math.isnan(phase.alpha) and not phase.hard and not phase.soft for phase in plan)


@pytest.mark.parametrize("epochs,last", [(1, 1), (4, 1), (10, 2), (100, 20)])
def test_the_last_fifth_is_normalised_and_hard(epochs: int, last: int) -> None:
    rows, _ = pinwheel(50)
    model = built("hfv", rows)
    plan = phases(model, rows, epochs, routing="soft", anneal=(2.0, 6.0), objective="normalized")
    assert len(plan) == epochs
    assert plan[epochs - last :] == [Phase(math.inf, normalized=True)] * last
    soft = plan[: epochs - last]
    assert not any(phase.normalized for phase in soft)
    assert [phase.alpha for phase in soft] == (linear(2.0, 6.0, epochs - last) if soft else [])
    assert all(a.alpha < b.alpha for a, b in itertools.pairwise(soft))


def test_hard_routing_is_hard_from_the_start() -> None:
    rows, _ = pinwheel(50)
    plan = phases(built("vt", rows), rows, 3, routing="hard", anneal="auto", objective="likelihood")
    assert plan == [Phase(math.inf)] * 3
