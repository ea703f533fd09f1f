"""Exact draws from a hard-gated model: draw from the ungated one, keep what falls into its own cells.

# n draws, D variables
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from voronoi_circuits.models.base import count_of

BATCH = 8192
PATIENCE = 200_000
"""Draws spent before sampling may give up."""
MOST = 20_000_000
"""The most draws that the rows asked for may be expected to take."""


class Accepted(NamedTuple):
    """Rows (n, D) and the share of all draws that were kept."""

    rows: Tensor
    acceptance: float


class RareCellError(ValueError):
    """Almost no draw reaches the cell that was asked for."""


def rejection(draw: Callable[[int], tuple[Tensor, Tensor]], n: int, where: str) -> Accepted:
    """n rows from ``draw(m)``, which gives m rows and which of them to keep.

    Once ``PATIENCE`` draws have been spent, it stops with an error that gives the rate if all n rows would
    take more than ``MOST`` draws.

    >>> rejection(lambda m: (torch.zeros(m, 1), torch.arange(m) % 2 == 0), 10, "a test").acceptance
    0.5
    """
    count_of(n)
    kept: list[Tensor] = []
    found = spent = 0
    while found < n or not kept:  # once at least: no rows have their columns too
        rate = max(found, 1) / max(spent, 1)
        size = min(max(int(1.2 * (n - found) / rate), 16), BATCH)
        rows, accept = draw(size)
        kept.append(rows[accept])
        found, spent = found + int(accept.sum()), spent + size
        if found < n and spent >= PATIENCE and n * spent > MOST * found:
            raise RareCellError(
                f"sampling {where}: {found} of {spent} draws fell into their own cells, so that "
                f"{n} rows would take more than {MOST:,} draws; ask for fewer rows, for another "
                "cell, or fit fewer cells"
            )
    return Accepted(torch.cat(kept)[:n], found / spent)
