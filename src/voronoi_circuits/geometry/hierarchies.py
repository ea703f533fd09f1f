"""Hierarchical tessellations along a vtree: intervals at the leaves, coarse cells of product cells above."""

# B rows, D variables, K cells of a node, K_L and K_R cells of its children

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry.distances import check_finite
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.routing import grid_points, routes

Vtree: TypeAlias = "int | tuple[Vtree, Vtree]"
"""A binary tree of variables: a column number, or a pair of trees."""


def scope_of(vtree: Vtree) -> tuple[int, ...]:
    """The variables below a node, sorted.

    >>> scope_of((2, (0, 1)))
    (0, 1, 2)
    """
    return (vtree,) if isinstance(vtree, int) else tuple(sorted(scope_of(vtree[0]) + scope_of(vtree[1])))


class HierarchicalTessellation(nn.Module):
    """At a leaf intervals of one variable; at an inner node K coarse cells, each a union of product cells.

    A product cell (i, j) of the children belongs to the coarse centroid nearest to its grid centroid
    (c^L_i, c^R_j). `centroids` has one entry for each node, by sorted scope: (K,) at a leaf; (K, |scope|)
    above, columns by scope.

    >>> leaves = {(0,): torch.tensor([-1.0, 1.0]), (1,): torch.tensor([-1.0, 1.0])}
    >>> cells = HierarchicalTessellation((0, 1), leaves | {(0, 1): torch.tensor([[-1.0, 0.0], [1.0, 0.0]])})
    >>> cells.nearest(torch.tensor([[-0.5, 7.0], [0.5, 7.0]])).tolist()
    [0, 1]
    """

    def __init__(self, vtree: Vtree, centroids: Mapping[tuple[int, ...], Tensor]) -> None:
        super().__init__()
        self.vtree = vtree
        self.scope = scope_of(vtree)
        if len(set(self.scope)) < len(self.scope):
            raise ValueError(f"vtree {vtree} names a variable twice")
        if self.scope not in centroids:
            raise ValueError(f"centroids has no entry for the vtree node {self.scope}")
        points = centroids[self.scope]
        if isinstance(vtree, int):
            self.intervals = IntervalPartition(points.reshape(1, -1))
            return
        if points.ndim != 2 or points.shape[1] != len(self.scope) or not points.shape[0]:
            raise ValueError(
                f"centroids of {self.scope} must have shape (K, {len(self.scope)}), got {tuple(points.shape)}"
            )
        check_finite(points, f"centroids of {self.scope}")
        self.left = HierarchicalTessellation(vtree[0], centroids)
        self.right = HierarchicalTessellation(vtree[1], centroids)
        self.centroids = nn.Parameter(points.detach().clone())

    @property
    def n_cells(self) -> int:
        """K."""
        return self.points().shape[0]

    def points(self) -> Tensor:
        """The centroids of this node's cells, (K, |scope|)."""
        return self.intervals.sorted_centroids().T if isinstance(self.vtree, int) else self.centroids

    def route(self, alpha: float | Tensor | None = None) -> Tensor:
        """log A (K, K_L·K_R) of an inner node: which coarse cell holds which product cell."""
        if isinstance(self.vtree, int):
            raise ValueError(f"variable {self.vtree} is a leaf of the vtree: it has intervals and no routes")
        columns = torch.tensor(self.left.scope + self.right.scope, device=self.centroids.device).argsort()
        grid = grid_points([self.left.points(), self.right.points()])[:, columns]
        return routes(grid, self.centroids, alpha)

    def nearest(self, x: Tensor) -> Tensor:
        """The cell of each row, (B, D) -> (B,), bottom-up: fine cells first, then those that hold them."""
        if isinstance(self.vtree, int):
            return self.intervals.nearest(x[:, [self.vtree]]).squeeze(1)
        joint = self.left.nearest(x) * self.right.n_cells + self.right.nearest(x)
        return self.route().argmax(0)[joint]

    def log_soft(self, x: Tensor, alpha: float | Tensor) -> Tensor:
        """log w_c(x) = log Σ_ij A_{c,ij}(α) w^L_i(x_L; α) w^R_j(x_R; α), (B, D) -> (B, K)."""
        if isinstance(self.vtree, int):
            return self.intervals.log_soft(x[:, [self.vtree]], alpha).squeeze(1)
        left, right = self.left.log_soft(x, alpha), self.right.log_soft(x, alpha)
        joint = (left[:, :, None] + right[:, None, :]).flatten(1)
        return torch.logsumexp(self.route(alpha).to(x.dtype) + joint[:, None, :], dim=-1)

    def empty_cells(self) -> dict[tuple[int, ...], list[int]]:
        """Coarse cells that hold no product cell, by scope; nodes without any are left out."""
        if isinstance(self.vtree, int):
            return {}
        empty = self.route().isneginf().all(1).nonzero().squeeze(-1).tolist()
        own = {self.scope: empty} if empty else {}
        return self.left.empty_cells() | self.right.empty_cells() | own
