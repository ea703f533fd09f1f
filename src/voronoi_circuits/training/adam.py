"""The learner by gradient: Adam on minibatches, with soft gates that harden.

# B rows, D variables
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial

import torch
from sklearn.base import BaseEstimator
from torch import Tensor, nn

from voronoi_circuits.circuits.region_graph import valid_name
from voronoi_circuits.models.base import Kind, Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.training.cells import cells_of
from voronoi_circuits.training.loop import Batch, Fitted, Training
from voronoi_circuits.training.progress import Progress
from voronoi_circuits.training.rows import model_rows, weighted_rows
from voronoi_circuits.training.schedules import phases
from voronoi_circuits.training.selection import Certifier, boxes, validate


class Adam(BaseEstimator):
    """Maximum likelihood by Adam, Algorithm "Soft Gating Training with Annealing".

    Args:
        epochs: passes over the rows.
        batch_size: rows of the largest minibatch; the rows are cut into equal ones.
        learning_rate: Adam's step.
        routing: "soft" gates while learning, or "hard" ones from the start: one expert a row.
        anneal: inverse temperature of the first and the last soft epoch, linear in between, (1, 50) in the
            paper; "auto": both divided by the median margin of the rows at the start.
        cells: "learned" by gradient where gates are soft, "fixed" where they start, or "reestimated" by one
            step of Lloyd's algorithm before each epoch (hard routing).
        objective: "likelihood" maximises log f; "normalized" trains the last fifth of the epochs on the exact
            log f − log Z, with hard gates.
        patience: stop after so many epochs without a better validation score.

    >>> from voronoi_circuits.specs import Circuit
    >>> generator = torch.Generator().manual_seed(0)
    >>> rows = torch.randn(200, 2, generator=generator)
    >>> model = Circuit(units=2).build(rows, generator)
    >>> fitted = Adam(epochs=3, batch_size=50).fit(model, rows, generator=generator)
    >>> fitted.epochs, fitted.best_epoch, fitted.interrupted
    (3, 3, False)
    """

    def __init__(
        self,
        epochs: int = 100,
        batch_size: int = 500,
        learning_rate: float = 0.01,
        routing: str = "soft",
        anneal: str | Sequence[float] = "auto",
        cells: str = "learned",
        objective: str = "likelihood",
        patience: int | None = None,
    ) -> None:
        self.epochs = epochs
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.routing = routing
        self.anneal = anneal
        self.cells = cells
        self.objective = objective
        self.patience = patience

    def check(self) -> None:
        """Refuses parameters that no training can follow, with the name of the first of them."""
        for name in ("epochs", "batch_size"):
            _whole(name, getattr(self, name))
        _positive("learning_rate", self.learning_rate)
        valid_name("routing", self.routing, ("soft", "hard"))
        valid_name("cells", self.cells, ("learned", "fixed", "reestimated"))
        valid_name("objective", self.objective, ("likelihood", "normalized"))
        _annealing(self.anneal)
        if self.cells == "reestimated" and self.routing == "soft":
            raise ValueError(
                "cells='reestimated' moves centroids to the rows of their cells and needs routing='hard'; "
                "soft gates learn centroids by gradient: cells='learned'"
            )
        if self.patience is not None:
            _whole("patience", self.patience)

    def fit(
        self,
        model: Model,
        X: Tensor,
        X_val: Tensor | None = None,
        *,
        weights: Tensor | None = None,
        generator: torch.Generator,
        certificate: Certifier | None = None,
        progress: Callable[[Progress], None] | None = None,
    ) -> Fitted:
        """Trains the model in place on rows (B, D) with row weights (B,); gates are hard at the end.

        With ``X_val`` the model ends at its best epoch: by the mean of log p where the model is exact,
        otherwise by its certified lower bound, with a cheap ``certificate`` each epoch (boxes, unless another
        is given). Without, it ends at its last epoch. Ctrl-C ends training and keeps the best epoch so far.
        The same generator state gives the same parameters.
        """
        self.check()
        self._check_model(model)
        x, mass = weighted_rows(model, X, weights)
        score = None
        if X_val is not None:
            rows = model_rows("X_val", model, X_val)
            score = partial(validate, model, rows, certifier=certificate or boxes)
        elif self.patience is not None:
            raise ValueError("patience waits for a better validation score: give X_val, or set patience=None")
        plan = phases(
            model, x, self.epochs, routing=self.routing, anneal=self.anneal, objective=self.objective
        )
        fixed = [cells.centroids for cells in cells_of(model)] if self.cells != "learned" else []
        with _frozen(fixed):
            learned = [parameter for parameter in model.parameters() if parameter.requires_grad]
            training = Training(
                model,
                Batch(x, mass, None),
                plan,
                torch.optim.Adam(learned, lr=self.learning_rate, fused=True),
                batch_size=self.batch_size,
                generator=generator,
                reestimate=self.cells == "reestimated",
                validate=score,
                patience=self.patience,
                progress=progress,
            )
            return training.run()

    def _check_model(self, model: Model) -> None:
        if model.exactness.kind is Kind.SAMPLED:
            raise ValueError(
                "a softened model is not trained: train the model with hard gates, then soften it"
            )
        if self.objective == "normalized" and not isinstance(model, ExactModel):
            raise ValueError(
                f"objective='normalized' needs an exact log Z, and this model is {model.exactness}; "
                "use objective='likelihood'"
            )


@contextmanager
def _frozen(parameters: Sequence[nn.Parameter]) -> Generator[None]:
    """Keeps gradients from parameters while the context lasts."""
    before = [parameter.requires_grad for parameter in parameters]
    try:
        for parameter in parameters:
            parameter.requires_grad_(False)
        yield
    finally:
        for parameter, learns in zip(parameters, before, strict=True):
            parameter.requires_grad_(learns)


def _annealing(anneal: object) -> None:
    if isinstance(anneal, str):
        valid_name("anneal", anneal, ("auto",))
    elif not isinstance(anneal, tuple | list) or len(anneal) != 2:
        raise ValueError(f'anneal must be "auto" or two numbers such as (1, 50), not {anneal!r}')
    else:
        _positive("anneal", anneal[0])
        _positive("anneal", anneal[1])


def _whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")


def _positive(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 < float(value) < math.inf:
        raise ValueError(f"{name} must be a positive, finite number, not {value!r}")
