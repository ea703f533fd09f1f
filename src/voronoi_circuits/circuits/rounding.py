"""How far rounding may have moved the log value of a sum, as docs/bounds.md derives it.

# values (E, F, U, B)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

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


def widen(out: Tensor, tops: Sequence[Tensor], terms: int, outward: int) -> Tensor:
    """Moves ``out`` = log Σ_i w_i exp(v_i) outward by a bound on its rounding error.

    With n terms, m_c the largest value of each factor, m = Σ m_c and M = Σ |m_c|, the error is at most

        u [4n + 4 log n + 40 + 8(m - out) + 4|out| + 4M],

    twice what docs/bounds.md derives; weights are a softmax and sum to 1, so out <= m.

    >>> widen(torch.zeros(1, 1, 1, 1), [torch.zeros(1, 1, 1, 1)], 2, 0).item()
    0.0
    """
    if outward == 0:
        return out
    value, peaks = finite(out), [finite(top) for top in tops]
    peak, size = torch.stack(peaks).sum(0), torch.stack(peaks).abs().sum(0)
    units = 4 * terms + 4 * math.log(terms) + 40 + 8 * (peak - value).abs() + 4 * value.abs() + 4 * size
    return out + outward * UNIT * units
