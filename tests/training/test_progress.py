"""What is shown while a model trains."""

import io

import pytest
from rich.console import Console

from tests.training.scenes import built, pinwheel, seeded
from voronoi_circuits.training import Adam, Progress, progress_bar


def test_time_left_is_in_proportion() -> None:
    assert Progress(epochs=10, done=2.5, loss=0.0, validation=None, seconds=5.0).remaining == 15.0


def test_the_bar_shows_loss_validation_and_time_left() -> None:
    screen = io.StringIO()
    with progress_bar("VT on pinwheel", Console(file=screen, width=120, force_terminal=True)) as show:
        show(Progress(epochs=4, done=3.0, loss=2.3456, validation=-2.4567, seconds=123.0))
    shown = screen.getvalue()
    for part in ("VT on pinwheel", "epoch 3/4", "loss 2.346", "validation -2.457", "0:41 left"):
        assert part in shown


def test_the_bar_is_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    rows, _ = pinwheel(200)
    with progress_bar("circuit") as show:
        Adam(epochs=2).fit(built("circuit", rows), rows, generator=seeded(), progress=show)
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch 2/2" in err


def test_messages_tell_the_epochs_and_the_scores() -> None:
    rows, validation = pinwheel(200)
    told: list[Progress] = []
    fitted = Adam(epochs=3, batch_size=50).fit(
        built("circuit", rows), rows, validation, generator=seeded(), progress=told.append
    )
    ends = [message for message in told if message.done == int(message.done)]
    assert [message.done for message in ends] == [1, 2, 3]
    assert [message.validation for message in ends] == fitted.history["lower"]
    assert [message.loss for message in ends] == fitted.history["loss"]


def test_silent_without_a_listener(capfd: pytest.CaptureFixture[str]) -> None:
    rows, validation = pinwheel(200)
    Adam(epochs=1).fit(built("vt", rows), rows, validation, generator=seeded())
    assert capfd.readouterr() == ("", "")
