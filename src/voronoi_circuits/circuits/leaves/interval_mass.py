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
"""(c1, c2): for exact sides the float64 log mass is off by at most c1 u + c2 u |log mass|, u = 2^-53.

With k = 8 for erfcx (measured: 7.7), R the Mills ratio, E the exponent of the far side, the three cases lose
- narrow: 4u m²/2, (2|log h| + 1)u, 8u for the series and its logarithm, 3u a sum;
- tail: u z²/2; R (k+4)u each; the far term 5uE exp(-E); as 1 - exp(-E) R_far/R_near >= 0.45 the difference of
  the two is good to 3.5(k+4)u <= 42u, its logarithm to 2u, 3u a sum;
- centre: (k+4)u of both tails; the mass is at least 0.22, so its logarithm is good to 4.5(k+4)u <= 54u.
The first factor is rounded up, the second about doubled.
"""

_ROOT_TAU = math.sqrt(2 * math.pi)
_LOG_ROOT_TAU = math.log(_ROOT_TAU)
_TERMS = 9


def _mills(x: Tensor) -> Tensor:
    """R(x) = (1 - Φ(x)) / φ(x), x >= 0."""
    return math.sqrt(math.pi / 2) * torch.special.erfcx(x * math.sqrt(0.5))


def _series(middle: Tensor, width: Tensor) -> Tensor:
    """The mass of m ± h/2 over φ(m) h: Σ_k He_2k(m) (h/2)^2k / (2k+1)! = 1 + h²(m²-1)/24 + ….

    Where h(1+|m|) <= 1 what follows the last term, k = 9, is below 2e-17.
    """
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
    """The log of ∫_a^b φ and its gradient, -φ(a)/mass and φ(b)/mass.

    By where the interval lies, with near <= far the distances of its sides from 0 and R the Mills ratio:
    - narrow, h(1+|m|) <= 1:  log φ(m) + log h + log S, with the series S about the midpoint m;
    - tail, 0 not inside:     log φ(near) + log(R(near) - exp(-(far² - near²)/2) R(far));
    - centre:                 log(1 - φ(near) R(near) - φ(far) R(far)).
    """

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, width: Tensor) -> Tensor:
        left, right = a.abs(), b.abs()
        near, far = torch.minimum(left, right), torch.maximum(left, right)
        tail = (a >= 0) | (b <= 0)
        at_near, at_far = _mills(near), _mills(far)
        scaled = at_near - at_far * torch.exp((near - far) * (near + far) / 2)
        outside = (at_near * torch.exp(-near * near / 2) + at_far * torch.exp(-far * far / 2)) / _ROOT_TAU
        value = torch.where(tail, scaled.log() - near * near / 2 - _LOG_ROOT_TAU, torch.log1p(0.0 - outside))
        scaled = torch.where(tail, scaled, _ROOT_TAU * value.exp())
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
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        return _interval_gradient(ctx, grads[0])


@once_differentiable
def _interval_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, None]:
    at_a, at_b = ctx.saved_tensors
    return -grad * at_a, grad * at_b, None


def log_gaussian_interval(a: Tensor, b: Tensor, width: Tensor | None = None) -> Tensor:
    """log(Φ(b) - Φ(a)), good to ``LOG_MASS_ERROR`` wherever a and b lie; -inf with gradient 0 where b <= a.

    ``width`` is b - a where that is known better than the rounded sides tell; no gradient goes through it.

    >>> a, b = torch.tensor([[20.0, -torch.inf, 3.0], [21.0, torch.inf, 2.0]], dtype=torch.float64)
    >>> [round(value, 6) for value in log_gaussian_interval(a, b).tolist()]
    [-203.917155, 0.0, -inf]
    """
    a, b = torch.broadcast_tensors(a, b)
    width = (b - a).detach() if width is None else width.detach().expand_as(a)
    return cast(Tensor, _LogInterval.apply(a, b, width))


def gaussian_interval_quantile(q: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The z in [a, b] with mass q of N(0, 1) restricted to [a, b] below it, 0 < q < 1, float64.

    Inverted in log space, mirrored where the midpoint is positive: far out, the mass below z must be small.
    Good to a few roundings of z up to 64 deviations out, and to 1e-12 of it beyond.

    >>> half, far, end = torch.tensor([[0.5], [30.0], [torch.inf]], dtype=torch.float64)
    >>> round(gaussian_interval_quantile(half, far, end).item(), 3)
    30.023
    """
    mirrored = a + b > 0
    low, high = torch.where(mirrored, -b, a), torch.where(mirrored, -a, b)
    q = torch.where(mirrored, 1 - q, q)
    log_below = torch.logaddexp(
        torch.log1p(-q) + torch.special.log_ndtr(low), q.log() + torch.special.log_ndtr(high)
    )
    z = torch.from_numpy(np.asarray(special.ndtri_exp(log_below.cpu().numpy()))).to(a.device)
    return torch.minimum(torch.maximum(torch.where(mirrored, -z, z), a), b)
