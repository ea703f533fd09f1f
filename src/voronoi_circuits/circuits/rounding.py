"""How far rounding may have moved the log value of a sum, as docs/bounds.md derives it.

# values (E, F, U, B)
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

UNIT = 2.0**-53
"""The unit roundoff of float64."""


def finite(values: Tensor) -> Tensor:
    """The values with 0 in the place of infinities: an exact -inf needs no slack."""
    return torch.where(torch.isfinite(values), values, 0.0)


def largest(values: Tensor) -> Tensor:
    """The largest of a region's units, (E, F, 1, B)."""
    return values.detach().amax(2, keepdim=True)


def widen(out: Tensor, top: Tensor, terms: int, outward: int) -> Tensor:
    """Moves ``out`` = log Σ_i w_i exp(v_i) outward by a bound on its rounding error.

    With n terms, m the largest v and r = exp(out - m) <= 1, a relative error of at most (2n + 2 log n + 20 +
    2|log r|)u is made in r (sums, exponentials, softmax) and one of (2|log r| + |out|)u in its logarithm;
    |log r| = m - out. The bound is taken twice.

    >>> widen(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1), 2, 0).item()
    0.0
    """
    if outward == 0:
        return out
    value, peak = finite(out), finite(top)
    units = 2 * terms + 2 * math.log(terms) + 20 + 4 * (peak - value).abs() + value.abs()
    return out + outward * 2 * UNIT * units
