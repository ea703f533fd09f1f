"""How far training is, for whoever watches.

# one message an epoch, and some within long ones
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass

import rich.progress as rich_progress
from rich.console import Console


@dataclass(frozen=True)
class Progress:
    """``done`` of ``epochs`` epochs, the mean loss so far in this one, the last validation score.

    >>> Progress(epochs=4, done=1.5, loss=2.0, validation=None, seconds=3.0).remaining
    5.0
    """

    epochs: int
    done: float
    loss: float
    validation: float | None
    seconds: float

    @property
    def remaining(self) -> float:
        """Seconds left if the rest takes as long as what is done; no choice depends on it."""
        return self.seconds * (self.epochs - self.done) / self.done


@contextmanager
def progress_bar(
    title: str = "training", console: Console | None = None
) -> Generator[Callable[[Progress], None]]:
    """A bar on standard error with loss, validation and time left; gives what ``fit`` takes as ``progress``.

    >>> import io
    >>> with progress_bar("plain", Console(file=io.StringIO())) as show:
    ...     show(Progress(epochs=2, done=1.0, loss=0.5, validation=-0.6, seconds=1.0))
    """
    columns = (
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        rich_progress.TextColumn("{task.fields[figures]}"),
        rich_progress.TextColumn("{task.fields[left]}"),
    )
    with rich_progress.Progress(*columns, console=console or Console(stderr=True)) as bar:
        task = bar.add_task(title, total=1.0, figures="", left="")

        def show(now: Progress) -> None:
            epoch = f"epoch {math.ceil(now.done)}/{now.epochs}"
            validation = "" if now.validation is None else f"  validation {now.validation:.3f}"
            bar.update(
                task,
                completed=now.done / now.epochs,
                figures=f"{epoch}  loss {now.loss:.3f}{validation}",
                left=f"{_clock(now.remaining)} left",
            )

        yield show


def _clock(seconds: float) -> str:
    """Minutes and seconds.

    >>> _clock(75.4)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
