"""Geometric alignment: whether every region is a product over the blocks of a partition of the variables.

For Voronoi cells this needs no facets: *the cells of distinct centroids are products over the blocks if and
only if the centroids are the product of their own projections onto the blocks.* If: squared distances add
over blocks. Only if: a product cell's facets each have their normal in one block, so a generic point that
moves within one block crosses only facets of that block, and the nearest centroid changes in that block
alone; hence the nearest centroid of x is (c¹(x_1), ..., c^m(x_m)), every combination occurs, and every
centroid occurs since its cell is open. The test counts points and is exact. Only the reason, a facet that
couples two blocks, is found by a linear program.
"""

# K cells, d variables

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from voronoi_circuits.geometry.boxes import Box
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.products import ProductTessellation
from voronoi_circuits.geometry.tessellation import Tessellation

Partition = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Alignment:
    """Whether regions are aligned with a partition, and why; true or false itself.

    >>> bool(Alignment(False, "cells 0 and 1 share an oblique facet"))
    False
    """

    aligned: bool
    reason: str

    def __bool__(self) -> bool:
        return self.aligned


def alignment(
    regions: Tessellation | IntervalPartition | ProductTessellation | Sequence[Box], partition: Partition
) -> Alignment:
    """Definition "Geometric Alignment": R_k = R_k¹ × ... × R_k^m over the blocks, for every region k.

    Variables are numbered as the regions number them: 0 to d − 1, or by the scopes of a product.

    >>> alignment(Tessellation(torch.tensor([[0.0, 0.0], [0.0, 1.0]])), [[0], [1]]).aligned
    True
    >>> print(alignment(Tessellation(torch.tensor([[0.0, 0.0], [1.0, 1.0]])), [[0], [1]]).reason)
    cells 0 and 1 share a facet whose normal couples the blocks (0,) and (1,)
    """
    if isinstance(regions, ProductTessellation):
        factors = list(zip(regions.scopes, regions.factors, strict=True))
    elif isinstance(regions, Tessellation | IntervalPartition):
        factors = [(tuple(range(regions.dimensions)), regions)]
    else:
        factors = [(tuple(range(box.dimensions)), box) for box in regions]
    variables = {v for scope, _ in factors for v in scope}
    if sorted(v for block in partition for v in block) != sorted(variables):
        raise ValueError(
            f"partition must split the variables {sorted(variables)} into blocks, got {partition}"
        )
    for scope, cells in factors:
        if isinstance(cells, Tessellation):
            blocks = [tuple(v for v in block if v in scope) for block in partition]
            reason = _coupling(cells.centroids.detach().double(), scope, [block for block in blocks if block])
            if reason:
                return Alignment(False, reason)
    return Alignment(True, "every region is a product of intervals, or of cells of grids over the blocks")


def _coupling(centroids: Tensor, scope: Sequence[int], blocks: Partition) -> str:
    """Why the cells of these centroids, columns by scope, are no products; empty where they are."""
    columns = [[scope.index(v) for v in block] for block in blocks]
    centroids = centroids + 0.0  # −0 is 0
    first = [k for k, c in enumerate(centroids) if not (centroids[:k] == c).all(1).any()]
    distinct = centroids[first]
    if prod(len(torch.unique(distinct[:, block], dim=0)) for block in columns) == len(distinct):
        return ""
    k, j = _coupling_facet(distinct.numpy(force=True), columns)
    changed = [(distinct[k] != distinct[j])[block].any() for block in columns]
    names = " and ".join(str(tuple(block)) for block, moved in zip(blocks, changed, strict=True) if moved)
    return f"cells {first[k]} and {first[j]} share a facet whose normal couples the blocks {names}"


def _coupling_facet(centroids: np.ndarray, partition: Partition) -> tuple[int, int]:
    """Two cells, as near as may be, with a common facet whose normal lies in no single block."""
    changed = np.stack([(centroids[:, None] != centroids)[..., list(b)].any(-1) for b in partition]).sum(0)
    pairs = np.argwhere(np.triu(changed > 1))
    lengths = np.linalg.norm(centroids[pairs[:, 0]] - centroids[pairs[:, 1]], axis=1)
    best, chosen = -np.inf, (0, 0)
    for k, j in pairs[np.argsort(lengths, kind="stable")].tolist():
        room = _facet_room(centroids, k, j)
        if room > best:
            best, chosen = room, (k, j)
        if room > 1e-6:
            break
    return chosen


def _facet_room(centroids: np.ndarray, k: int, j: int) -> float:
    """The largest t <= 1 such that a point on the bisector of k and j is t inside V_k's other half-spaces.

    Lengths are in units of ‖c_k − c_j‖ from the midpoint; the cells share a facet if and only if t > 0.
    """
    scale = np.linalg.norm(centroids[j] - centroids[k])
    points = (centroids - (centroids[k] + centroids[j]) / 2) / scale
    others = [i for i in range(len(points)) if i not in (k, j)]
    normals = points[others] - points[k]
    offsets = (normals * (points[others] + points[k])).sum(1) / 2
    lengths = np.linalg.norm(normals, axis=1, keepdims=True)
    goal = np.append(np.zeros(points.shape[1]), -1.0)
    bisector = np.append(points[j] - points[k], 0.0)[None]
    bounds = [(None, None)] * points.shape[1] + [(None, 1.0)]
    answer = linprog(goal, np.hstack([normals, lengths]), offsets, bisector, [0.0], bounds, method="highs")
    return -answer.fun if answer.status == 0 else -np.inf
