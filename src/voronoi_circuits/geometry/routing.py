"""Coarse cells above fine ones: which coarse cell each product of fine cells belongs to."""

# G grid points (joint fine cells, row-major: the last factor runs fastest), K coarse cells, d variables

from collections.abc import Sequence

import torch
from torch import Tensor

from voronoi_circuits.geometry.distances import log_soft_cells, nearest_cell


def grid_points(factor_points: Sequence[Tensor]) -> Tensor:
    """All tuples of points, one of each factor: (K_i, d_i) each -> (ΠK_i, Σd_i).

    >>> grid_points([torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [6.0]])]).tolist()
    [[0.0, 5.0], [0.0, 6.0], [1.0, 5.0], [1.0, 6.0]]
    """
    if not factor_points or any(points.ndim != 2 for points in factor_points):
        raise ValueError("factor_points must be one (K_i, d_i) tensor for each factor, at least one")
    sizes = [torch.arange(points.shape[0], device=points.device) for points in factor_points]
    index = torch.meshgrid(*sizes, indexing="ij")
    return torch.cat([points[i.flatten()] for points, i in zip(factor_points, index, strict=True)], dim=1)


def routes(grid: Tensor, coarse: Tensor, alpha: float | Tensor | None = None) -> Tensor:
    """log A (K, G): how far grid point g (G, d) belongs to coarse cell k, whose centroid is coarse[k] (K, d).

    Hard (alpha None): 0 for the coarse centroid nearest to the grid point, −∞ for the others; ties go to
    the lower index. Soft: log softmax_k(−α‖grid_g − coarse_k‖²), differentiable in both.

    >>> routes(torch.tensor([[0.0], [1.0], [9.0]]), torch.tensor([[1.0], [8.0]])).exp().tolist()
    [[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if alpha is not None:
        return log_soft_cells(grid, coarse, alpha).T
    log_a = torch.full((coarse.shape[0], grid.shape[0]), -torch.inf, dtype=grid.dtype, device=grid.device)
    return log_a.scatter(0, nearest_cell(grid, coarse)[None], 0.0)
