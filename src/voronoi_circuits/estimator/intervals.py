"""Bounds in the data's own units: what a model proves about standardised rows, and the transform's Jacobian.

# B rows, D columns; bounds (B,) in float64
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import torch
from torch import Tensor

from voronoi_circuits.certificates import Certificate, conditional_bounds, marginal_bounds, probability_bounds
from voronoi_circuits.estimator.columns import ULP, Column, Columns
from voronoi_circuits.models.base import Kind, Model

Bounds = tuple[Tensor, Tensor]
BATCH = 4096


def scores(model: Model, z: Tensor, columns: Columns, certificate: Certificate) -> Bounds:
    """Bounds of log p of each row's numbers: the density of complete rows, the marginal of rows with NaN."""
    missing = torch.isnan(z).any(1)
    lower, upper = z.new_empty(2, len(z))

    def complete(rows: Tensor) -> Tensor:
        return torch.stack(model.log_prob_bounds(rows, certificate))

    def marginal(rows: Tensor) -> Tensor:
        return torch.stack(marginal_bounds(model, rows, certificate))

    for chosen, ask in ((~missing, complete), (missing, marginal)):
        if bool(chosen.any()):
            lower[chosen], upper[chosen] = in_batches(ask, z[chosen], dim=1)
    return shifted(model, (lower, upper), columns, z)


def conditional(
    model: Model, z: Tensor, columns: Columns, given: Sequence[Column], certificate: Certificate
) -> Bounds:
    """Bounds of log p(the other numbers of each row | the columns given)."""
    evidence = columns.positions(given, "given")
    if len(evidence) == columns.count:
        raise ValueError("given names every column: leave out those whose density is asked for")
    for column in evidence:
        if bool((absent := torch.isnan(z[:, column])).any()):
            row = int(absent.nonzero()[0])
            raise ValueError(
                f"given: column {columns.label(column)} is NaN in row {row}; give a value, or leave it out"
            )
    asked = z.clone()
    asked[:, evidence] = torch.nan
    return shifted(model, conditional_bounds(model, z, evidence, certificate), columns, asked)


def probability(
    model: Model,
    columns: Columns,
    box: Mapping[Column, tuple[float, float]],
    given: Mapping[Column, float] | None,
    certificate: Certificate,
) -> tuple[float, float]:
    """Bounds of P(box | given)."""
    sides, evidence = columns.box(box), columns.evidence(given)
    both = set(columns.positions(box, "box")) & set(columns.positions(given or {}, "given"))
    for column in both:
        raise ValueError(
            f"column {columns.label(column)} is in the box and given: leave it out of one of them"
        )
    rows = None if not given else evidence.unsqueeze(0)
    lower, upper = probability_bounds(model, sides, rows, certificate)
    return float(lower), float(upper)


def shifted(model: Model, bounds: Bounds, columns: Columns, z: Tensor) -> Bounds:
    """Bounds + log |dz/dx|; what the sum and its terms round goes outward unless the model is exact."""
    jacobian = columns.log_jacobian(z)
    lower, upper = (side + jacobian for side in bounds)
    if model.exactness.kind is Kind.EXACT:
        return lower, upper
    slack = columns.jacobian_rounding(z)
    return outward(lower, slack, -1), outward(upper, slack, 1)


def outward(value: Tensor, slack: Tensor, direction: int) -> Tensor:
    """The value moved by the rounding of its last sum and by that of a term of it."""
    return torch.where(torch.isfinite(value), value + direction * (ULP * value.abs() + slack), value)


def in_batches(ask: Callable[[Tensor], Tensor], z: Tensor, dim: int = 0) -> Tensor:
    """The answers for all rows, a few thousand at a time; ``dim`` is the axis of the rows in an answer."""
    with torch.no_grad():
        return torch.cat([ask(part) for part in z.split(BATCH)], dim)
