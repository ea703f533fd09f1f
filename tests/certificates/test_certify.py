"""``certify``: what it returns, why it stops, and what it refuses."""

import math

import pytest
import torch

from tests.certificates.scenes import gaussians
from voronoi_circuits.certificates import Certificate, Status, certify
from voronoi_circuits.specs import Circuit


def test_auto_is_what_both_prove():
    model = gaussians(0, cells=4)
    boxes, refined, both = (certify(model, m, tolerance=0.02) for m in ("boxes", "refine", "auto"))
    assert both.lower == max(boxes.lower, refined.lower)
    assert both.upper == min(boxes.upper, refined.upper)
    assert both.gap <= 0.02
    assert (boxes.status, refined.status, both.status) == (Status.INITIAL, Status.TOLERANCE, Status.TOLERANCE)
    assert {c.confidence for c in (boxes, refined, both)} == {1.0}


def test_boxes_alone_are_one_step():
    found = certify(gaussians(0, cells=4), "boxes")
    assert found.boxes == 8
    assert len(found.history) == 1
    assert found.history[0][2:] == (found.lower, found.upper)


def test_progress_is_the_history():
    seen = []
    found = certify(gaussians(0, cells=4), "refine", tolerance=0.01, progress=seen.append)
    assert tuple(seen) == found.history
    assert [step.lower for step in seen] == sorted(step.lower for step in seen)
    assert [step.upper for step in seen] == sorted((step.upper for step in seen), reverse=True)
    assert all(step.upper <= 0 for step in seen)


def test_nothing_proven_is_said():
    found = certify(gaussians(0, cells=4), "refine", max_boxes=1)
    assert (found.lower, found.upper, found.gap) == (-math.inf, 0.0, math.inf)
    assert found.status is Status.VACUOUS


def test_a_soft_model_has_z_at_most_one():
    found = certify(gaussians(0).soften(2.0))
    assert (found.lower, found.upper, found.status) == (-math.inf, 0.0, Status.VACUOUS)


def test_an_exact_model_has_nothing_to_bound():
    rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    found = certify(Circuit(units=2).build(rows).truncate({0: (0.0, 1.0)}))
    assert found.gap == 0
    assert found.status is Status.EXACT
    assert str(found).endswith("exactly.")


def test_proofs_intersect_and_estimates_do_not():
    first = Certificate(-2.0, -1.0, "boxes", Status.INITIAL, boxes=4, seconds=1.0)
    second = Certificate(-1.5, -0.5, "refine", Status.BOXES, boxes=6, seconds=2.0)
    both = first.intersect(second)
    assert (both.lower, both.upper, both.boxes, both.seconds) == (-1.5, -1.0, 10, 3.0)
    sampled = Certificate(-1.5, -0.5, "samples", Status.BOXES, confidence=0.99)
    with pytest.raises(ValueError, match="confidence"):
        first.intersect(sampled)


@pytest.mark.parametrize("status", list(Status))
def test_every_status_has_a_sentence(status):
    assert status.message.endswith(".")
    assert len(status.message) > 20


@pytest.mark.parametrize("changed, message", [
    ({"method": "boxs"}, "'boxes'"),
    ({"method": "refined"}, "'refine'"),
    ({"tolerance": 0.0}, "tolerance must be positive, not 0.0"),
    ({"tolerance": -1.0}, "tolerance must be positive"),
    ({"tolerance": math.nan}, "tolerance must be positive, not nan"),
    ({"budget": 0.0}, "budget must be a positive number of seconds or None"),
    ({"budget": -3.0}, "budget must be a positive number"),
    ({"max_boxes": 0}, "max_boxes must be positive, not 0"),
    ({"batch": 0}, "batch must be positive, not 0"),
])  # fmt: skip
def test_bad_input_is_named(changed, message):
    with pytest.raises(ValueError, match=message):
        certify(gaussians(0), **changed)


def test_only_a_model_is_certified():
    with pytest.raises(ValueError, match=r"not Tensor: pass an estimator's \.model_"):
        certify(torch.zeros(2, 2))
