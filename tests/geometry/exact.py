"""Voronoi cells in rational arithmetic: what the geometry is checked against."""

from fractions import Fraction
from math import inf

import torch
from torch import Tensor


def squared_distances(u: Tensor, centroids: Tensor) -> list[list[Fraction]]:
    """‖u_b − c_k‖² without rounding."""
    points = [[Fraction(v) for v in c] for c in centroids.tolist()]
    return [
        [sum(((Fraction(v) - w) ** 2 for v, w in zip(row, c, strict=True)), Fraction(0)) for c in points]
        for row in u.tolist()
    ]


def nearest(u: Tensor, centroids: Tensor) -> list[int]:
    """The lowest index of the least distance."""
    return [row.index(min(row)) for row in squared_distances(u, centroids)]


def reach(low: Tensor, high: Tensor, own: Tensor, other: Tensor) -> Fraction | float:
    """Max over the box [low, high] of (other − own)·(x − (other + own)/2), for vectors (d,)."""
    total: Fraction | float = Fraction(0)
    for side_low, side_high, c, o in zip(*(v.tolist() for v in (low, high, own, other)), strict=True):
        normal, middle = Fraction(o) - Fraction(c), (Fraction(o) + Fraction(c)) / 2
        side = side_high if normal > 0 else side_low
        if normal != 0:
            total += normal * (Fraction(side) - middle) if abs(side) < inf else inf
    return total


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
