"""The standard normal on an interval: its log mass, exact in every tail, and its quantiles.

# a, b, width: one shape, elementwise
"""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
import torch
from scipy import special
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LOG_MASS_ERROR = (64.0, 16.0)
"""(c1, c2): the float64 log mass of [a, b] is off by at most c1 u + c2 u |log mass|, u = 2^-53, for exact a, b and width.

With k = 8 for erfcx (measured: 7.7), R for the Mills ratio and E for the exponent of the far side, the three cases lose at most
- narrow: 3u m²/2 + (2|log h| + 1)u + 8u for the series and its logarithm, 3u a sum;
- tail: the square u; R (k+4)u each; the far term 5uE exp(-E); as 1 - exp(-E) R_far/R_near >= 0.45 the difference of the two is good
  to 3.5(k+4)u <= 42u, its logarithm 2u, 3u a sum;
- centre: both tails (k+4)u of at most 1/2; the mass is at least 0.22, so the logarithm is off by at most 4.5(k+4)u <= 54u.
"""

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)
_TERMS = 7


def _mills(x: Tensor) -> Tensor:
    """R(x) = (1 - Φ(x)) / φ(x), x >= 0."""
    return math.sqrt(math.pi / 2) * torch.special.erfcx(x * math.sqrt(0.5))


def _series(middle: Tensor, width: Tensor) -> Tensor:
    """∫ φ over m ± h/2, by φ(m) h: Σ_k He_2k(m) (h/2)^2k / (2k+1)! = 1 + h²(m²-1)/24 + …, for h(1+|m|) <= 1."""
    half = width / 2
    step, turn = middle * half, half * half
    previous, current = torch.ones_like(step), step
    total = previous.clone()
    for n in range(1, 2 * _TERMS):
        previous, current = current, step * current - n * turn * previous
        if n % 2:
            total += current / math.factorial(n + 2)
    return total


class _LogInterval(Function):
    """log ∫_a^b φ and its gradient, -φ(a)/mass and φ(b)/mass, by where the interval lies:

    narrow, h(1+|m|) <= 1:  log φ(m) + log h + log S, with the series S about the midpoint m
    tail, 0 not inside:     log φ(near) + log(R(near) - exp(-(far²-near²)/2) R(far)), with the Mills ratio R
    centre:                 log1p(-φ(near) R(near) - φ(far) R(far))
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, width: Tensor) -> Tensor:
        left, right = a.abs(), b.abs()
        near, far = torch.minimum(left, right), torch.maximum(left, right)
        tail = (a >= 0) | (b <= 0)
        at_near, at_far = _mills(near), _mills(far)
        scaled = at_near - at_far * torch.exp((near - far) * (near + far) / 2)
        outside = (at_near * torch.exp(-near * near / 2) + at_far * torch.exp(-far * far / 2)) / math.sqrt(
            2 * math.pi
        )
        value = torch.where(tail, scaled.log() - near * near / 2 - _LOG_ROOT_TAU, torch.log1p(-outside))
        scaled = torch.where(tail, scaled, math.sqrt(2 * math.pi) * value.exp())
        anchor = torch.where(tail, near, 0.0)
        slopes = [((anchor - side) * (anchor + side) / 2).exp() / scaled for side in (left, right)]

        middle = (a + b) / 2
        narrow = width * (1 + middle.abs()) <= 1
        if bool(narrow.any()):
            m, h = middle[narrow], width[narrow]
            series = _series(m, h)
            value[narrow] = -m * m / 2 - _LOG_ROOT_TAU + h.log() + series.log()
            for slope, sign in zip(slopes, (1, -1), strict=True):
                slope[narrow] = torch.exp(sign * m * h / 2 - h * h / 8) / (h * series)

        empty = (b <= a) & ~(width > 0)
        ctx.save_for_backward(*(torch.where(empty, 0.0, slope) for slope in slopes))
        return torch.where(empty, -torch.inf, value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        at_a, at_b = ctx.saved_tensors
        return -grads[0] * at_a, grads[0] * at_b, None


def log_gaussian_interval(a: Tensor, b: Tensor, width: Tensor | None = None) -> Tensor:
    """log(Φ(b) - Φ(a)), good to ``LOG_MASS_ERROR`` wherever a and b lie; -inf with gradient 0 where b <= a.

    ``width`` is b - a where that is known better than the rounded sides tell; no gradient goes through it.

    >>> side = torch.tensor([20.0, -torch.inf, 3.0], dtype=torch.float64)
    >>> log_gaussian_interval(side, torch.tensor([21.0, torch.inf, 2.0], dtype=torch.float64)).tolist()
    [-203.91715537109726, 0.0, -inf]
    """
    a, b = torch.broadcast_tensors(a, b)
    width = (b - a).detach() if width is None else width.detach().expand_as(a)
    return cast(Tensor, _LogInterval.apply(a, b, width))


def gaussian_interval_quantile(q: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The z in [a, b] below which N(0, 1) restricted to [a, b] has mass ``q``, 0 < q < 1, by inversion in log space (float64).

    The interval is mirrored where its midpoint is positive, so that the mass below z is small where z is far out.

    >>> far = torch.tensor([30.0], dtype=torch.float64)
    >>> round(gaussian_interval_quantile(torch.tensor([0.5], dtype=torch.float64), far, far + torch.inf).item(), 6)
    30.023071
    """
    mirrored = a + b > 0
    low, high = torch.where(mirrored, -b, a), torch.where(mirrored, -a, b)
    q = torch.where(mirrored, 1 - q, q)
    log_below = torch.logaddexp(
        torch.log1p(-q) + torch.special.log_ndtr(low), q.log() + torch.special.log_ndtr(high)
    )
    z = torch.from_numpy(np.asarray(special.ndtri_exp(log_below.cpu().numpy()))).to(a.device)
    return torch.minimum(torch.maximum(torch.where(mirrored, -z, z), a), b)
