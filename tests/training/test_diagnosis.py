"""A loss that is no number ends training with a sentence that helps."""

import pytest
import torch

from tests.training.scenes import built, pinwheel, seeded
from voronoi_circuits.circuits.leaves.gaussian import Gaussian
from voronoi_circuits.training import Adam, TrainingError
from voronoi_circuits.training.diagnosis import likely_cause


@pytest.mark.parametrize("name", ["circuit", "mixture", "vt", "hfv"])
@pytest.mark.parametrize("rate", [1e2, 1e3, 1e6])
def test_deviations_beyond_all_numbers_are_no_riddle_of_geometry(name: str, rate: float) -> None:
    rows, validation = pinwheel(300)
    with pytest.raises(TrainingError, match=r"parameters after epoch 1 .*raw is .* lower learning_rate"):
        Adam(epochs=3, learning_rate=rate).fit(built(name, rows), rows, validation, generator=seeded())


@pytest.mark.parametrize("name", ["circuit", "vt", "hfv"])
def test_too_long_a_step_is_named_with_epoch_and_batch(name: str) -> None:
    rows, _ = pinwheel(300)
    with pytest.raises(TrainingError, match=r"the loss is .* in epoch 1, batch 2: .*learning_rate=1e\+30"):
        Adam(epochs=3, batch_size=100, learning_rate=1e30).fit(built(name, rows), rows, generator=seeded())


def test_the_last_step_is_checked_too() -> None:
    rows, _ = pinwheel(300)
    model = built("circuit", rows)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.register_hook(lambda grad: grad * torch.nan)
    with pytest.raises(TrainingError, match="parameters after epoch 1"):
        Adam(epochs=1).fit(model, rows, generator=seeded())


def test_collapsed_deviations_are_counted() -> None:
    rows, _ = pinwheel(300)
    model = built("circuit", rows)
    leaf = next(module for module in model.modules() if isinstance(module, Gaussian))
    leaf.raw.data.flatten()[:2] = -40.0
    cause = likely_cause(model, 0.01)
    assert cause.startswith("2 deviations have collapsed")


def test_an_unknown_cause_still_says_what_to_try() -> None:
    rows, _ = pinwheel(300)
    assert "learning_rate=0.01" in likely_cause(built("circuit", rows), 0.01)
