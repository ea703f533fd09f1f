"""Intervals for rows: marginals, conditionals and probabilities of boxes, whatever is missing or given.

# B rows, D variables; bounds (B,) in float64
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from voronoi_circuits.certificates.certificate import Certificate, Status
from voronoi_circuits.certificates.certify import certify
from voronoi_circuits.certificates.refinement import Refinement
from voronoi_circuits.models.base import BoxLike, Model, NotExactError, as_box, evidence_of
from voronoi_circuits.models.exact import ExactModel, check_overlap
from voronoi_circuits.models.vt import VTModel, outward_difference

ROW_BOXES = 4096
ROW_TOLERANCE = 1e-3
Z_BOXES = 100_000
"""Boxes for Z where marginals are asked for without a certificate."""
_ROWS = 128
_LOST = 2.0**-1022
"""Smaller probabilities have lost digits."""

Bounds = tuple[Tensor, Tensor]


def marginal_bounds(
    model: Model, x: Tensor, certificate: Certificate | None = None, *, max_boxes: int = ROW_BOXES
) -> Bounds:
    """Bounds of log p of the variables that are not NaN: of log ∫ f, less log Z⁺ below and log Z⁻ above.

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> lower, upper = marginal_bounds(model, torch.tensor([[0.5, torch.nan]]), certify(model))
    >>> bool(lower < upper)
    True
    """
    if isinstance(model, ExactModel):
        exact = model.log_marginal(x.double()).detach()
        return exact, exact
    gated = _certified(model)
    low, high = integral_bounds(gated, x, max_boxes=max_boxes)
    if len(low) == 0:
        return low, high
    known = certificate
    if known is None:
        known = certify(gated, budget=None, max_boxes=Z_BOXES)
    return outward_difference(low, min(known.upper, 0.0), -1), outward_difference(high, known.lower, 1)


def conditional_bounds(
    model: Model, x: Tensor, given: Sequence[int], *, max_boxes: int = ROW_BOXES
) -> Bounds:
    """Bounds of log p(the other variables that are not NaN | the variables ``given``); Z cancels.

    Where the evidence cannot be proven to have a density the upper bound is +inf (Corollary "Conditional
    Bounds").
    """
    if isinstance(model, ExactModel):
        exact = model.log_conditional(x.double(), given).detach()
        return exact, exact
    gated = _certified(model)
    evidence = evidence_of(x.double(), given)
    above = integral_bounds(gated, x, max_boxes=max_boxes)
    below = integral_bounds(gated, evidence, max_boxes=max_boxes)
    return _ratio(above, below)


def probability_bounds(
    model: Model, box: BoxLike, given: Tensor | None = None, *, max_boxes: int = ROW_BOXES
) -> Bounds:
    """Bounds of P(box), (1,), or of P(box | the variables of ``given`` that are not NaN), one pair a row."""
    if isinstance(model, ExactModel):
        exact = model.probability(box, None if given is None else given.double()).detach()
        return exact, exact
    gated = _certified(model)
    asked = as_box(box, model.n_variables)
    nothing = torch.full((1, model.n_variables), torch.nan)
    x = nothing if given is None else model.check_rows(given, missing=True)
    check_overlap(asked.low, asked.high, x)
    above = integral_bounds(gated, x, asked.low, asked.high, max_boxes=max_boxes)
    below = integral_bounds(gated, x, max_boxes=max_boxes)
    lower, upper = _ratio(above, below)
    low = lower.exp() * (1 - 2.0**-50) - _LOST
    high = torch.where(upper == -torch.inf, 0.0, upper.exp() * (1 + 2.0**-50) + _LOST)
    return low.clamp(min=0.0), high.clamp(max=1.0)


def _certified(model: Model) -> VTModel:
    if not isinstance(model, VTModel):
        raise NotExactError(
            f"a {type(model).__name__} has no bounds for marginals: use the hard model it was made from"
        )
    return model


def _ratio(above: Bounds, below: Bounds) -> Bounds:
    """log(numerator / denominator), with each end taken against the far end of the other."""
    lower = _difference(above[0], below[1], -1)
    upper = _difference(above[1], below[0], 1)
    return lower, upper


def _difference(top: Tensor, bottom: Tensor, direction: int) -> Tensor:
    """top - bottom, rounded outward; +inf above where the denominator may vanish."""
    if direction < 0:
        out = torch.where(top == -torch.inf, -torch.inf, top - bottom)
    else:
        out = torch.where(bottom == -torch.inf, torch.inf, top - bottom)
    return torch.where(torch.isfinite(out), out + direction * 2.0**-52 * out.abs(), out)


def integral_bounds(
    model: VTModel,
    x: Tensor,
    low: Tensor | None = None,
    high: Tensor | None = None,
    *,
    tolerance: float = ROW_TOLERANCE,
    max_boxes: int = ROW_BOXES,
) -> Bounds:
    """Bounds of log ∫ f over ``[low, high]`` (D,) within the domain, at the numbers of each row."""
    rows = model.check_rows(x, missing=True).double()
    left, right = model.domain_sides(rows)
    left = left if low is None else torch.maximum(left, low)
    right = right if high is None else torch.minimum(right, high)
    outside = ((rows < left) | (rows > right)).any(1) | (left > right).any()
    lower = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    upper = lower.clone()
    inside = torch.nonzero(~outside).flatten()
    for part in inside.split(_ROWS):
        shape = rows[part]
        with torch.inference_mode(False):
            refinement = Refinement(
                model, shape.clone(), left.expand_as(shape).clone(), right.expand_as(shape).clone()
            )
            if refinement.run(tolerance, max_boxes) is Status.INTERRUPTED:
                raise KeyboardInterrupt
        lower[part], upper[part] = refinement.lower, refinement.upper
    return lower, upper
