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
from voronoi_circuits.models.base import BoxLike, Model, NotExactError, as_box, evidence_of, within_reach
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
        exact = model.log_marginal(model.check_rows(x, missing=True).double()).detach()
        return exact, exact
    gated = _certified(model)
    low, high = integral_bounds(gated, x, max_boxes=max_boxes)
    if len(low) == 0:
        return low, high
    known = certificate
    if known is None:
        known = certify(gated, budget=None, max_boxes=Z_BOXES)
    bounds = outward_difference(low, min(known.upper, 0.0), -1), outward_difference(high, known.lower, 1)
    return _certain(bounds, torch.isnan(x).all(1))


def conditional_bounds(
    model: Model,
    x: Tensor,
    given: Sequence[int],
    certificate: Certificate | None = None,
    *,
    max_boxes: int = ROW_BOXES,
) -> Bounds:
    """Bounds of log p(the other variables that are not NaN | the variables ``given``); Z cancels.

    Where the evidence cannot be proven to have a density the upper bound is +inf (Corollary "Conditional
    Bounds"). A certificate of Z helps where nothing is given.

    >>> from voronoi_circuits.specs import Circuit
    >>> rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> lower, upper = conditional_bounds(Circuit(units=2).build(rows), rows[:3], [0])
    >>> bool((lower == upper).all())
    True
    """
    x = model.check_rows(x, missing=True).double()
    evidence = evidence_of(x, given)
    same = (torch.isnan(x) == torch.isnan(evidence)).all(1)
    if isinstance(model, ExactModel):
        below = model.log_marginal(evidence).detach()
        exact = model.log_marginal(x).detach() - below
        lost = below == -torch.inf
        bounds = torch.where(lost, -torch.inf, exact), torch.where(lost, torch.inf, exact)
        return _certain(bounds, same & ~lost)
    gated = _certified(model)
    above = integral_bounds(gated, x, max_boxes=max_boxes)
    below = _met(integral_bounds(gated, evidence, max_boxes=max_boxes), evidence, certificate)
    return _certain(_ratio(above, below), same & (below[0] > -torch.inf))


def probability_bounds(
    model: Model,
    box: BoxLike,
    given: Tensor | None = None,
    certificate: Certificate | None = None,
    *,
    max_boxes: int = ROW_BOXES,
) -> Bounds:
    """Bounds of P(box), (1,), or of P(box | the variables of ``given`` that are not NaN), one pair a row.

    A certificate of Z helps where nothing is given, and the one integral may then use as many boxes as Z.

    >>> from voronoi_circuits.specs import Circuit
    >>> rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> lower, upper = probability_bounds(Circuit(units=2).build(rows), {0: (-100.0, 100.0)})
    >>> round(lower.item(), 6), round(upper.item(), 6)
    (1.0, 1.0)
    """
    asked = as_box(box, model.n_variables)
    nothing = torch.full((1, model.n_variables), torch.nan, dtype=torch.float64)
    x = nothing if given is None else model.check_rows(given, missing=True).double()
    check_overlap(asked.low, asked.high, x)
    if isinstance(model, ExactModel):
        possible = model.log_marginal(x) > -torch.inf
        low, high = torch.zeros(len(x), dtype=torch.float64), torch.ones(len(x), dtype=torch.float64)
        if bool(possible.any()):
            low[possible] = high[possible] = model.probability(box, x[possible]).detach()
        return low, high
    gated = _certified(model)
    unconditional = given is None and certificate is not None
    most = max(max_boxes, Z_BOXES) if unconditional else max_boxes
    above = integral_bounds(gated, x, asked.low, asked.high, max_boxes=most)
    below = _met(integral_bounds(gated, x, max_boxes=max_boxes), x, certificate)
    lower, upper = _ratio(above, below)
    low = lower.exp() * (1 - 2.0**-50) - _LOST
    high = torch.where(upper == -torch.inf, 0.0, upper.exp() * (1 + 2.0**-50) + _LOST)
    return low.clamp(min=0.0), high.clamp(max=1.0)


def _met(bounds: Bounds, x: Tensor, certificate: Certificate | None) -> Bounds:
    """Bounds of log ∫ f met with those of log Z in the rows that give nothing."""
    if certificate is None:
        return bounds
    nothing = torch.isnan(x).all(1)
    lower = torch.where(nothing, bounds[0].clamp(min=certificate.lower), bounds[0])
    return lower, torch.where(nothing, bounds[1].clamp(max=certificate.upper), bounds[1])


def _certain(bounds: Bounds, same: Tensor) -> Bounds:
    """Bounds with log 1 where the same is asked above and below."""
    return torch.where(same, 0.0, bounds[0]), torch.where(same, 0.0, bounds[1])


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
    """Bounds of log ∫ f over ``[low, high]`` (D,) within the domain, at the numbers of each row.

    A row that gives every variable needs no boxes: its bounds are those of log f.
    """
    rows = within_reach(model.check_rows(x, missing=True).double())
    left, right = model.domain_sides(rows)
    left = left if low is None else torch.maximum(left, low)
    right = right if high is None else torch.minimum(right, high)
    outside = ((rows < left) | (rows > right)).any(1) | (left > right).any()
    lower = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
    upper = lower.clone()
    complete = ~outside & ~torch.isnan(rows).any(1)
    if bool(complete.any()):
        lower[complete], upper[complete] = model.log_unnormalized_bounds(rows[complete])
    inside = torch.nonzero(~outside & ~complete).flatten()
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
