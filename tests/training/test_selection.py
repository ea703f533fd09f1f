"""Scores of an epoch."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.training.scenes import built, pinwheel
from voronoi_circuits.certificates import certify
from voronoi_circuits.training.schedules import Phase
from voronoi_circuits.training.selection import Best, boxes, validate


def grid_mass(log_f, side: float = 6.0, n: int = 801) -> float:
    """∫ exp(log f) over a square by the midpoint rule."""
    edges = torch.linspace(-side, side, n, dtype=torch.float64)
    middle = (edges[1:] + edges[:-1]) / 2
    points = torch.cartesian_prod(middle, middle)
    with torch.no_grad():
        return float(log_f(points).exp().sum() * (edges[1] - edges[0]) ** 2)


@pytest.mark.parametrize("name", ["circuit", "mixture", "hfv"])
def test_an_exact_model_is_scored_by_its_normalised_likelihood(name: str) -> None:
    rows, validation = pinwheel(300)
    model = built(name, rows)
    scores = validate(model, validation, Phase(2.0), boxes)
    z = grid_mass(model.log_unnormalized)
    hard = model.log_unnormalized(validation.double()).mean().item()
    assert scores.lower == scores.upper == pytest.approx(hard - np.log(z), abs=2e-3)
    assert scores.log_z_lower == scores.log_z_upper == pytest.approx(np.log(z), abs=2e-3)
    assert scores.hard == pytest.approx(hard, abs=1e-5)


@pytest.mark.parametrize("name", ["vt", "vt-shared"])
def test_a_vt_is_scored_by_its_certified_lower_bound(name: str) -> None:
    rows, validation = pinwheel(300)
    model = built(name, rows)
    certificate = certify(model, "boxes", budget=None)
    scores = validate(model, validation, Phase(2.0), lambda _: certificate)
    hard = model.log_unnormalized(validation.double()).mean().item()
    truth = hard - math.log(grid_mass(model.log_unnormalized))
    assert scores.lower <= truth <= scores.upper
    assert scores.lower == pytest.approx(hard - certificate.upper, rel=1e-9)
    assert scores.upper == pytest.approx(hard - certificate.lower, rel=1e-9)
    assert scores.lower <= hard - certificate.upper
    assert scores.hard == pytest.approx(hard, rel=1e-9)
    with torch.no_grad():
        assert scores.soft == pytest.approx(model.soft_log(validation, 2.0).mean().item(), rel=1e-5)


def test_an_upper_bound_of_z_above_one_is_one() -> None:
    rows, validation = pinwheel(300)
    model = built("vt", rows)
    scores = validate(
        model, validation, Phase(math.inf), lambda _: SimpleNamespace(lower=-math.inf, upper=3.0)
    )
    assert scores.log_z_upper == 0.0
    assert scores.upper == math.inf
    assert scores.lower == pytest.approx(model.log_unnormalized(validation.double()).mean().item(), rel=1e-9)
    assert scores.soft == scores.hard


def test_many_rows_are_scored_in_parts() -> None:
    rows, validation = pinwheel(300)
    model = built("vt", rows)
    many = validation.repeat(40, 1)
    once, often = (validate(model, x, Phase(2.0), boxes) for x in (validation, many))
    assert often == pytest.approx(once, rel=1e-6)


def test_the_best_of_equal_scores_is_the_last() -> None:
    rows, _ = pinwheel(50)
    model = built("circuit", rows)
    best = Best()
    for epoch, score in enumerate([-math.inf, -math.inf, -3.0, -2.0, -2.0, -2.5], 1):
        best.offer(model, epoch, score)
        assert best.epoch == min(epoch, 5)
