"""Batches, the loss, the best epoch, and the endings."""

import signal
from types import SimpleNamespace

import pytest
import torch

from tests.training.scenes import SPECS, built, pinwheel, same, seeded, state
from voronoi_circuits.certificates import Certificate, Status
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.models.base import Interval, Model
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training import Adam, Progress
from voronoi_circuits.training.loop import Batch, log_density, shuffled, weighted_mean
from voronoi_circuits.training.schedules import Phase

HARD = Phase(float("inf"))


@pytest.mark.parametrize("n,size", [(10, 3), (10, 10), (10, 99), (1, 1), (500, 7)])
def test_batches_hold_every_row_once_and_are_equal_but_for_one(n: int, size: int) -> None:
    rows = torch.arange(n, dtype=torch.float32).unsqueeze(1)
    batches = list(shuffled(Batch(rows, rows[:, 0] + 0.5, None), size, seeded()))
    sizes = [len(batch.x) for batch in batches]
    assert len(sizes) == -(-n // size)
    assert max(sizes) <= size
    assert max(sizes) - min(sizes) <= 1
    x = torch.cat([batch.x for batch in batches])
    assert sorted(x.flatten().tolist()) == list(range(n))
    assert all(torch.equal(batch.weights, batch.x[:, 0] + 0.5) for batch in batches)
    assert n < 3 or x.flatten().tolist() != list(range(n))


def test_one_expert_a_row_gives_the_gradients_of_all_experts() -> None:
    rows, _ = pinwheel(60)
    model = built("vt", rows).double()
    assert isinstance(model, VTModel)
    rows = rows.double()
    cells = model.placed[0].cells(rows)
    names, parameters = zip(*model.experts.named_parameters(), strict=True)
    sparse = log_density(model, Batch(rows, None, cells), HARD)
    values = model.experts.values(Question.density(rows)) + model.experts.log_weights(rows.dtype).unsqueeze(1)
    dense = values.T.gather(1, cells.unsqueeze(1)).squeeze(1)
    assert torch.allclose(sparse, dense, rtol=1e-12)
    found = torch.autograd.grad(sparse.mean(), parameters)
    expected = torch.autograd.grad(dense.mean(), parameters)
    for name, a, b in zip(names, found, expected, strict=True):
        assert torch.allclose(a, b, rtol=1e-9, atol=1e-14), name
        assert bool((b != 0).any()), name


def test_the_loss_has_no_choice_of_gate_where_cells_are_shared() -> None:
    rows, _ = pinwheel(60)
    model = built("vt-shared", rows).double()
    assert isinstance(model, VTModel)
    rows = rows.double()
    values = model.experts.values(Question.density(rows)) + model.experts.log_weights(rows.dtype).unsqueeze(1)
    own = values.T.gather(1, model.placed[0].cells(rows).unsqueeze(1)).squeeze(1)
    assert torch.allclose(log_density(model, Batch(rows, None, None), HARD), own, rtol=1e-12)


def test_weighted_means_over_batches_are_that_over_all_rows() -> None:
    values = torch.tensor([1.0, 2.0, 4.0])
    weights = torch.tensor([0.5, 0.5, 2.0])
    assert weighted_mean(values, weights).item() == pytest.approx(9.5 / 3)
    assert weighted_mean(values, None).item() == pytest.approx(7 / 3)


@pytest.mark.parametrize("name", SPECS)
def test_the_loss_falls(name: str) -> None:
    rows, _ = pinwheel()
    fitted = Adam(epochs=6, batch_size=100).fit(built(name, rows), rows, generator=seeded())
    loss = fitted.history["loss"]
    assert loss[-1] < loss[0] - 0.1
    assert fitted.history["epoch"] == [1, 2, 3, 4, 5, 6]


def bounds(*uppers: float):
    """Certificates whose upper bounds are given epoch by epoch: they decide which epoch is best."""
    left = iter(uppers)

    def certificate(model: Model) -> Interval:
        upper = next(left)
        return SimpleNamespace(lower=upper - 1.0, upper=upper)

    return certificate


def states_by_epoch(model: Model, kept: dict[int, dict[str, torch.Tensor]]):
    def keep(message: Progress) -> None:
        if message.done == int(message.done):
            kept[int(message.done)] = state(model)

    return keep


def test_the_model_ends_at_its_best_epoch() -> None:
    rows, validation = pinwheel(300)
    model = built("vt", rows)
    kept: dict[int, dict[str, torch.Tensor]] = {}
    fitted = Adam(epochs=5).fit(
        model,
        rows,
        validation,
        generator=seeded(),
        certificate=bounds(-50, -900, -10, -20, -30),
        progress=states_by_epoch(model, kept),
    )
    assert (fitted.best_epoch, fitted.epochs) == (2, 5)
    assert same(state(model), kept[2])
    assert not same(kept[2], kept[5])
    history = fitted.history
    assert history["log_z_upper"] == [-50, -900, -10, -20, -30]
    for hard, upper, lower in zip(history["hard"], history["log_z_upper"], history["lower"], strict=True):
        assert lower == pytest.approx(hard - upper, rel=1e-9)


def test_patience_counts_epochs_without_a_better_one() -> None:
    rows, validation = pinwheel(300)
    fitted = Adam(epochs=9, patience=3).fit(
        built("vt", rows), rows, validation, generator=seeded(), certificate=bounds(-50, -900, *[-10] * 7)
    )
    assert (fitted.best_epoch, fitted.epochs, len(fitted.history)) == (2, 5, 5)


def test_without_validation_it_ends_at_the_last_epoch() -> None:
    rows, _ = pinwheel(300)
    model = built("vt", rows)
    kept: dict[int, dict[str, torch.Tensor]] = {}
    fitted = Adam(epochs=3).fit(model, rows, generator=seeded(), progress=states_by_epoch(model, kept))
    assert (fitted.best_epoch, fitted.epochs) == (3, 3)
    assert same(state(model), kept[3])


def test_control_c_gives_the_best_model_so_far() -> None:
    rows, validation = pinwheel(300)
    model = built("vt", rows)
    kept: dict[int, dict[str, torch.Tensor]] = {}
    keep = states_by_epoch(model, kept)

    def watch(message: Progress) -> None:
        keep(message)
        if message.done == 3:
            signal.raise_signal(signal.SIGINT)

    fitted = Adam(epochs=50).fit(
        model,
        rows,
        validation,
        generator=seeded(),
        certificate=bounds(-50, -900, -10),
        progress=watch,
    )
    assert (fitted.interrupted, fitted.best_epoch, fitted.epochs) == (True, 2, 3)
    assert same(state(model), kept[2])


def test_control_c_without_validation_keeps_what_was_learned() -> None:
    rows, _ = pinwheel(300)
    model = built("circuit", rows)
    start = state(model)

    def stop(message: Progress) -> None:
        raise KeyboardInterrupt

    fitted = Adam(epochs=50).fit(model, rows, generator=seeded(), progress=stop)
    assert fitted.interrupted
    assert fitted.epochs == fitted.best_epoch <= 1
    assert not same(state(model), start)


def test_an_interrupted_certificate_ends_training() -> None:
    rows, validation = pinwheel(300)

    def interrupted(model: Model) -> Interval:
        return Certificate(-1.0, 0.0, "refine", Status.INTERRUPTED)

    fitted = Adam(epochs=50).fit(
        built("vt", rows), rows, validation, generator=seeded(), certificate=interrupted
    )
    assert fitted.interrupted
    assert fitted.epochs == 0
