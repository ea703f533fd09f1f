"""One expert per row, at a cost that does not grow with the experts.

# B rows, D variables, T tiles of S rows that share one expert
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Tiles(NamedTuple):
    """Row positions (T, S), sorted by expert and cut; owners (T,); and where each row went (B,)."""

    rows: Tensor
    owners: Tensor
    places: Tensor


def tile(owner: Tensor, n_experts: int, largest: int = 64) -> Tiles:
    """Lays out rows so that every tile has one owner; the last tile of an owner repeats its first row.

    A tile is as large as the mean number of rows of the owners that have any, between 1 and ``largest``.

    >>> tiles = tile(torch.tensor([1, 0, 1]), 2)
    >>> tiles.rows.flatten()[tiles.places].tolist(), tiles.owners.tolist()
    ([0, 1, 2], [0, 1, 1])
    """
    counts = torch.bincount(owner, minlength=n_experts)
    used = int((counts > 0).sum())
    size = max(1, min(largest, len(owner) // max(used, 1)))
    per_owner = (counts + size - 1) // size
    owners = torch.repeat_interleave(torch.arange(n_experts), per_owner)
    order = torch.argsort(owner, stable=True)
    start = torch.cumsum(counts, 0) - counts
    first_tile = torch.cumsum(per_owner, 0) - per_owner
    sorted_owner = owner[order]
    within = torch.arange(len(owner)) - start[sorted_owner]
    slot = first_tile[sorted_owner] * size + within
    rows = order[start[owners]].unsqueeze(1).expand(-1, size).reshape(-1).clone()
    rows[slot] = order
    places = torch.empty_like(order)
    places[order] = slot
    return Tiles(rows.view(-1, size), owners, places)
