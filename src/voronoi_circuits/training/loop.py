"""The loop: epochs of minibatches, a validation after each, and an ending in every case.

# B rows, D variables
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor
from torch.optim import Optimizer

from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training.cells import cells_in_use, lloyd_step, routing_gate
from voronoi_circuits.training.diagnosis import TrainingError, likely_cause
from voronoi_circuits.training.history import History
from voronoi_circuits.training.progress import Progress
from voronoi_circuits.training.schedules import Phase
from voronoi_circuits.training.selection import Best, Scores

_MESSAGES = 0.1  # seconds between two messages within an epoch


@dataclass(frozen=True)
class Fitted:
    """What training did: its history, the epochs it ran, the one whose parameters the model has, whether it was interrupted."""

    history: History
    epochs: int
    best_epoch: int
    interrupted: bool


class Batch(NamedTuple):
    """Rows (B, D), their weights (B,) of mean 1 over all rows, and their cells (B,) where rows are routed to one expert."""

    x: Tensor
    weights: Tensor | None
    cells: Tensor | None


def shuffled(rows: Batch, size: int, generator: torch.Generator) -> Iterator[Batch]:
    """The rows in a random order, cut into as few batches of at most ``size`` as will do, equal but for one row."""
    order = torch.randperm(len(rows.x), generator=generator, device=generator.device).to(rows.x.device)
    count = -(-len(order) // size)
    parts = [
        [None] * count if tensor is None else tensor.index_select(0, order).tensor_split(count)
        for tensor in rows
    ]
    return map(Batch._make, zip(*parts, strict=True))


def log_density(model: Model, batch: Batch, phase: Phase) -> Tensor:
    """log f of the batch, (B,): with soft gates at α, with hard gates, or with one expert a row where cells are known."""
    if not phase.hard:
        return model.soft_log(batch.x, phase.alpha)
    if batch.cells is not None and isinstance(model, VTModel):
        return model.routed(batch.x, batch.cells)
    return model.log_unnormalized(batch.x)


def weighted_mean(values: Tensor, weights: Tensor | None) -> Tensor:
    """The mean of values (B,), with weights whose mean over all rows is 1."""
    return values.mean() if weights is None else torch.dot(values, weights) / len(values)


class Training:
    """A model in training: what an epoch needs beside its phase."""

    def __init__(
        self,
        model: Model,
        x: Tensor,
        weights: Tensor | None,
        optimizer: Optimizer,
        *,
        batch_size: int,
        reestimate: bool,
        generator: torch.Generator,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.model = model
        self.rows = Batch(x, weights, None)
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.reestimate = reestimate
        self.generator = generator
        self.progress = progress
        self.history = History()
        self.validation: float | None = None
        self._began = self._told = perf_counter()

    def run(
        self, phases: Sequence[Phase], validate: Callable[[Phase], Scores] | None, patience: int | None
    ) -> Fitted:
        """Trains for so many phases, or until ``patience`` epochs bring nothing better, or Ctrl-C."""
        best = Best()
        interrupted = False
        try:
            for epoch, phase in enumerate(phases, 1):
                loss = self._epoch(epoch, phase, len(phases))
                scores: dict[str, float] = {}
                if validate is not None:
                    scores = validate(phase)._asdict()
                    best.offer(self.model, epoch, self._checked(epoch, scores["lower"]))
                in_use = cells_in_use(self.model, self.rows.x)
                row = {"epoch": epoch, "alpha": phase.alpha, "loss": loss, **scores, "cells_in_use": in_use}
                self.history.append(**row, seconds=perf_counter() - self._began)
                self._tell(len(phases), epoch, loss)
                if patience is not None and epoch - best.epoch >= patience:
                    break
        except KeyboardInterrupt:
            interrupted = True
        best.restore(self.model)
        return Fitted(self.history, len(self.history), best.epoch or len(self.history), interrupted)

    def _epoch(self, epoch: int, phase: Phase, epochs: int) -> float:
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
                raise self._error(f"the loss is {value} in epoch {epoch}, batch {number}", batch.x, values)
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            total, seen = total + value * len(values), seen + len(values)
            if self.progress is not None and perf_counter() - self._told > _MESSAGES:
                self._tell(epochs, epoch - 1 + seen / n, total / seen)
        return total / n

    def _route(self, phase: Phase) -> None:
        """Moves centroids that are re-estimated, and finds the cell of each row where one expert is evaluated for it."""
        if self.reestimate:
            lloyd_step(self.model, self.rows.x, self.rows.weights)
        if phase.hard and (self.reestimate or self.rows.cells is None):
            gate = routing_gate(self.model)
            self.rows = self.rows._replace(cells=None if gate is None else gate.cells(self.rows.x))

    def _checked(self, epoch: int, score: float) -> float:
        """A validation score that is a number."""
        if math.isnan(score):
            raise self._error(f"the validation score is {score} in epoch {epoch}", self.rows.x[:0], None)
        return score

    def _error(self, what: str, x: Tensor, values: Tensor | None) -> TrainingError:
        rate = float(self.optimizer.param_groups[0]["lr"])
        nothing = x.new_empty(0) if values is None else values
        return TrainingError(f"{what}: {likely_cause(self.model, x, nothing, rate)}")

    def _tell(self, epochs: int, done: float, loss: float) -> None:
        """A message to whoever watches."""
        self._told = perf_counter()
        if self.progress is not None:
            self.progress(Progress(epochs, done, loss, self.validation, self._told - self._began))
