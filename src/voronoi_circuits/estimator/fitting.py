"""What ``fit`` does: rows in, standardised, split, a model built, trained and certified.

# B rows, D columns
"""

from __future__ import annotations

import numbers
import warnings
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from torch import Tensor

from voronoi_circuits.certificates import Certificate, certify
from voronoi_circuits.circuits.region_graph import valid_name
from voronoi_circuits.estimator.choices import chosen_learner, chosen_model, leaf_columns, leaves_by_position
from voronoi_circuits.estimator.columns import Columns, read_table
from voronoi_circuits.estimator.draws import seeded
from voronoi_circuits.models.base import Model
from voronoi_circuits.tables.standard import StandardTransform
from voronoi_circuits.training import History, progress_bar

FloatArray = NDArray[np.float64]
FINAL_BOXES = 100_000
"""Boxes of the final certificate: they stop it before the seconds do, so that one seed gives one result."""


class Fit(NamedTuple):
    """What a fitted estimator holds."""

    model: Model
    certificate: Certificate
    history: History
    epochs: int
    columns: Columns

    def attributes(self) -> dict[str, Any]:
        """The same, under the names that scikit-learn gives to what is fitted."""
        names = self.columns.names
        named = {} if names is None else {"feature_names_in_": np.array(names, dtype=object)}
        return {
            "model_": self.model,
            "certificate_": self.certificate,
            "history_": self.history,
            "n_iter_": self.epochs,
            "n_features_in_": self.columns.count,
            "_columns": self.columns,
            **named,
        }


class Weighted(NamedTuple):
    """Standardised rows (B, D) in float64 with weights (B,), or None where all weigh the same."""

    z: Tensor
    weights: Tensor | None

    def split(self, held: int, generator: torch.Generator) -> tuple[Weighted, Weighted]:
        """All rows but so many of them, and these, drawn at random."""
        order = torch.randperm(len(self.z), generator=generator)
        return self.at(order[held:].sort().values), self.at(order[:held].sort().values)

    def at(self, rows: Tensor) -> Weighted:
        """The rows at these positions."""
        return Weighted(self.z[rows], None if self.weights is None else self.weights[rows])

    def repeated(self) -> Tensor:
        """As many rows as there are, each repeated in proportion to its weight, float32.

        >>> rows = Weighted(torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([3.0, 0.0, 0.0, 1.0]))
        >>> rows.repeated().flatten()
        tensor([1., 1., 1., 4.])
        """
        if self.weights is None:
            return self.z.float()
        reached = self.weights.cumsum(0) / self.weights.sum()
        middles = (torch.arange(len(self.z), dtype=reached.dtype) + 0.5) / len(self.z)
        return self.z[torch.searchsorted(reached, middles)].float()


def fit(settings: Mapping[str, Any], X: Any, X_val: Any, sample_weight: Any) -> Fit:
    """The fit of an estimator's parameters to rows."""
    fraction, budget = checked_numbers(settings)
    learner = chosen_learner(settings["learner"])
    learner.check()
    generator = seeded(settings["random_state"])
    rows = read_table(X, allow_missing=False)
    values, weights = rows.values, checked_weights(sample_weight, len(rows.values))
    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    if len(values) < 2:
        raise ValueError("X has 1 sample of weight above zero (n_samples=1); give at least 2 rows")
    columns = Columns(rows.columns, rows.kind, StandardTransform.fit(values, weights))
    n_held = 0 if X_val is not None else int(fraction * len(values))
    specification = leaves_by_position(
        chosen_model(settings["model"], len(values) - n_held), lambda leaf: columns.positions(leaf, "leaf")
    )
    codes, bounded = (leaf_columns(specification, columns.count, f) for f in ("categorical", "histogram"))
    columns = columns.unscaled(codes)
    every = train = Weighted(columns.forward(values), None if weights is None else torch.from_numpy(weights))
    if X_val is not None:
        held = Weighted(columns.read(X_val, allow_missing=False), None)
    else:
        train, held = train.split(n_held, generator)
    ends = torch.cat([every.z[:, codes + bounded].argmax(0), every.z[:, bounded].argmin(0)])
    start = torch.cat([train.repeated(), every.z[ends].float()])  # no row of X is new to the leaves later
    model = specification.build(start, generator)
    watched = progress_bar("fit") if settings["verbose"] else nullcontext()
    with watched as progress:
        fitted = learner.fit(
            model,
            train.z.float(),
            held.repeated() if len(held.z) else None,
            weights=train.weights,
            generator=generator,
            progress=progress,
        )
    for remark in fitted.remarks if settings["verbose"] else ():
        Console(stderr=True).print(remark, markup=False, soft_wrap=True)
    if fitted.interrupted:
        warnings.warn(
            f"fit was interrupted after {fitted.epochs} epochs: the model is the best so far", stacklevel=3
        )
    certificate = certify(model, budget=budget, max_boxes=FINAL_BOXES)
    return Fit(model, certificate, fitted.history, fitted.epochs, columns)


def checked_numbers(settings: Mapping[str, Any]) -> tuple[float, float | None]:
    """The validation fraction and the seconds for the certificate; what no fit can use is refused by name."""
    valid_name("transform", settings["transform"], ("standard",))
    valid_name("device", settings["device"], ("auto", "cpu"))
    fraction, budget = settings["validation_fraction"], settings["certify_budget"]
    if not (isinstance(fraction, numbers.Real) and 0 <= float(fraction) < 1):
        raise ValueError(
            f"validation_fraction must be at least 0 and below 1, not {fraction!r}; 0 holds no rows out"
        )
    if budget is not None and not (isinstance(budget, numbers.Real) and float(budget) > 0):
        raise ValueError(f"certify_budget must be a positive number of seconds or None, not {budget!r}")
    return float(fraction), None if budget is None else float(budget)


def checked_weights(sample_weight: Any, n: int) -> FloatArray | None:
    """Row weights (n,) in float64, the largest 1, or None where there are none."""
    if sample_weight is None:
        return None
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must be numbers, one for each row: {error}") from error
    if weights.shape != (n,):
        raise ValueError(f"sample_weight has shape {weights.shape}; give one number for each of the {n} rows")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite and not negative, and not zero in every row")
    return weights / weights.max()
