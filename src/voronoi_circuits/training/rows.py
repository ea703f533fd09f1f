"""The rows that models are built from, trained on and judged by: refused where they are of no use.

# B rows, D columns
"""

from __future__ import annotations

import torch
from torch import Tensor

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.leaves.categorical import Parts
from voronoi_circuits.models.base import Model


def complete_rows(name: str, x: object) -> Tensor:
    """The rows (B, D), detached and contiguous: a table of finite floating-point numbers.

    >>> complete_rows("X", torch.tensor([[0.0, torch.nan]]))
    Traceback (most recent call last):
    ValueError: column 1 of X is nan in row 0: give complete, finite rows
    """
    if not isinstance(x, Tensor):
        advice = f"torch.as_tensor({name}, dtype=torch.float32)"
        raise ValueError(f"{name} must be a tensor of rows by columns, not {type(x).__name__}: use {advice}")
    if x.dim() != 2 or x.shape[1] == 0:
        advice = f"; {name}.unsqueeze(1) makes rows of one column" if x.dim() == 1 else ""
        raise ValueError(f"{name} has shape {tuple(x.shape)}: give rows by columns, (B, D){advice}")
    if not x.is_floating_point():
        raise ValueError(f"{name} must be floating point, not {x.dtype}: call .float() first")
    if len(x) == 0:
        raise ValueError(f"{name} has no rows: give at least one")
    rows = x.detach().contiguous()
    bad = torch.nonzero(~rows.isfinite())
    if len(bad):
        row, column = bad[0].tolist()
        value = float(rows[row, column])
        raise ValueError(f"column {column} of {name} is {value} in row {row}: give complete, finite rows")
    return rows


def model_rows(name: str, model: Model, x: object) -> Tensor:
    """Complete rows of the model's columns, each of density above 0 under it."""
    rows = model.check_rows(complete_rows(name, x), missing=True)
    for circuit in model.modules():
        if isinstance(circuit, FoldedCircuit):
            _refuse_unreached(name, circuit, rows)
    return rows


def weighted_rows(model: Model, x: object, weights: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """The training rows that have weight, and their weights with a mean of 1."""
    if weights is None:
        return model_rows("X", model, x), None
    rows = complete_rows("X", x)
    if weights.shape != rows.shape[:1]:
        raise ValueError(
            f"weights must be one number for each of the {len(rows)} rows, not {tuple(weights.shape)}"
        )
    if not bool((weights.isfinite() & (weights >= 0)).all()) or not bool((weights > 0).any()):
        raise ValueError("weights must be finite and not negative, and positive for some row")
    used = weights > 0
    mass = weights[used].to(rows.dtype)
    return model_rows("X", model, rows[used]), mass / mass.mean()


def _refuse_unreached(name: str, circuit: FoldedCircuit, rows: Tensor) -> None:
    """Names the first value that a histogram or categorical leaf gives no probability."""
    for index, region in enumerate(circuit.graph.regions):
        if region.kind != "leaf":
            continue
        leaf, position = circuit.leaf(index)
        if not isinstance(leaf, Parts):
            continue
        column = rows[:, region.scope[0]]
        inside = leaf.locate(column.expand(1, leaf.regions, 1, -1))[1][0, position, 0]
        outside = torch.nonzero(~inside).flatten()
        if len(outside):
            row = int(outside[0])
            raise ValueError(
                f"column {region.scope[0]} of {name} is {float(column[row]):g} in row {row}, to which its "
                f"{leaf.family} leaves give no density: they reach no farther than the rows that the model "
                "was built from; build it from rows that cover this value, or leave the row out"
            )
