"""The loop: epochs of minibatches, a validation after each, and an ending in every case.

# B rows, D variables
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training.cells import cells_in_use, lloyd_step
from voronoi_circuits.training.diagnosis import TrainingError, broken_parameters, likely_cause
from voronoi_circuits.training.history import History
from voronoi_circuits.training.progress import Progress
from voronoi_circuits.training.remarks import remarks
from voronoi_circuits.training.schedules import Phase
from voronoi_circuits.training.selection import Best, Scores

_PAUSE = 0.1  # seconds between two messages within an epoch


@dataclass(frozen=True)
class Fitted:
    """History, epochs run, the epoch whose parameters the model has, whether training was interrupted.

    ``remarks`` are sentences about cells that are of no use (``voronoi_circuits.training.remarks``).
    """

    history: History
    epochs: int
    best_epoch: int
    interrupted: bool
    remarks: tuple[str, ...]


class Batch(NamedTuple):
    """Rows (B, D), weights (B,) whose mean over all rows is 1, and cells (B,) where rows meet one expert."""

    x: Tensor
    weights: Tensor | None
    cells: Tensor | None


def shuffled(rows: Batch, size: int, generator: torch.Generator) -> Iterator[Batch]:
    """The rows in a random order, in as few batches of at most ``size`` as will do, equal but for one row."""
    order = torch.randperm(len(rows.x), generator=generator, device=generator.device).to(rows.x.device)
    count = -(-len(order) // size)
    parts = [
        [None] * count if tensor is None else tensor.index_select(0, order).tensor_split(count)
        for tensor in rows
    ]
    return map(Batch._make, zip(*parts, strict=True))


def log_density(model: Model, batch: Batch, phase: Phase) -> Tensor:
    """log f of the batch, (B,), with soft gates at α or hard ones; one expert a row where cells are known."""
    if not phase.hard:
        return model.soft_log(batch.x, phase.alpha)
    if batch.cells is not None and isinstance(model, VTModel):
        return model.routed(batch.x, batch.cells)
    return model.log_unnormalized(batch.x)


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of values (B,), with weights whose mean over all rows is 1."""
    return values.mean() if weights is None else torch.dot(values, weights) / len(values)


@dataclass
class Training:
    """A model in training."""

    model: Model
    rows: Batch
    phases: Sequence[Phase]
    optimizer: Optimizer
    batch_size: int
    generator: torch.Generator
    reestimate: bool
    validate: Callable[[Phase], Scores] | None
    patience: int | None
    progress: Callable[[Progress], None] | None
    history: History = field(default_factory=History)
    best: Best = field(default_factory=Best)
    began: float = field(default_factory=perf_counter)
    told: float = 0.0

    def run(self) -> Fitted:
        """All phases, unless ``patience`` epochs bring nothing better or Ctrl-C ends them."""
        interrupted = False
        try:
            for epoch, phase in enumerate(self.phases, 1):
                loss = self._epoch(epoch, phase)
                self._judge(epoch, phase, loss)
                self._tell(epoch, loss)
                if self.patience is not None and epoch - self.best.epoch >= self.patience:
                    break
        except KeyboardInterrupt:
            interrupted = True
        self.best.restore(self.model)
        epochs = len(self.history)
        said = remarks(self.model, self.rows.x)
        return Fitted(self.history, epochs, self.best.epoch or epochs, interrupted, said)

    def _epoch(self, epoch: int, phase: Phase) -> float:
        """One pass over the rows: the mean of the batches' losses."""
        self._route(phase)
        total, seen, n = 0.0, 0, len(self.rows.x)
        for number, batch in enumerate(shuffled(self.rows, self.batch_size, self.generator), 1):
            values = log_density(self.model, batch, phase)
            loss = -weighted_mean(values, batch.weights)
            if phase.normalized and isinstance(self.model, ExactModel):
                loss = loss + self.model.log_partition(values.dtype)
            value = loss.item()
            if not math.isfinite(value):
                raise self._error(f"the loss is {value} in epoch {epoch}, batch {number}")
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            total, seen = total + value * len(values), seen + len(values)
            if self.progress is not None and perf_counter() - self.told > _PAUSE:
                self._tell(epoch - 1 + seen / n, total / seen)
        return total / n

    def _route(self, phase: Phase) -> None:
        """Moves centroids that are re-estimated; finds the cell of each row where rows meet one expert."""
        if self.reestimate:
            lloyd_step(self.model, self.rows.x, self.rows.weights)
        if phase.hard and (self.reestimate or self.rows.cells is None):
            gate = self.model.router if isinstance(self.model, VTModel) else None
            self.rows = self.rows._replace(cells=None if gate is None else gate.cells(self.rows.x))

    def _judge(self, epoch: int, phase: Phase, loss: float) -> None:
        """Writes the epoch into the history and keeps its parameters if it is the best so far."""
        if broken_parameters(self.model):
            raise self._error(f"the parameters after epoch {epoch} are no numbers")
        scores = {} if self.validate is None else self.validate(phase)._asdict()
        if math.isnan(scores.get("lower", 0.0)):
            raise self._error(f"the validation score after epoch {epoch} is NaN")
        row = {"epoch": epoch, "alpha": phase.alpha, "loss": loss, **scores}
        in_use = cells_in_use(self.model, self.rows.x)
        self.history.append(**row, cells_in_use=in_use, seconds=perf_counter() - self.began)
        if scores:
            self.best.offer(self.model, epoch, scores["lower"])

    def _error(self, what: str) -> TrainingError:
        rate = float(self.optimizer.param_groups[0]["lr"])
        return TrainingError(f"{what}: {likely_cause(self.model, rate)}")

    def _tell(self, done: float, loss: float) -> None:
        """A message to whoever watches."""
        self.told = perf_counter()
        if self.progress is not None:
            validation = self.history["lower"][-1] if self.best.epoch else None
            self.progress(Progress(len(self.phases), done, loss, validation, self.told - self.began))
