"""Where centroids start: k-means, with k distinct centroids that each own a row where the rows allow it."""

# B rows, F variables, k cells, d variables of a scope

import warnings

import torch
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from voronoi_circuits.geometry.distances import check_finite, nearest_cell


def kmeans(points: Tensor, k: int, *, generator: torch.Generator, iterations: int = 100) -> Tensor:
    """k distinct centroids (k, d) of points (B, d), in their dtype: scikit-learn's, one start by k-means++.

    An empty cell is moved to the row farthest from its centroid. With fewer distinct rows than k, every
    distinct row is a centroid and the others lie beside randomly chosen rows, at about a hundredth of the
    column's deviation.

    >>> points = torch.tensor([[0.0], [0.1], [5.0], [5.1]])
    >>> kmeans(points, 2, generator=torch.Generator().manual_seed(0)).sort(0).values.flatten()
    tensor([0.0500, 5.0500])
    """
    if points.ndim != 2 or 0 in points.shape or not points.is_floating_point():
        raise ValueError(
            f"points must be a floating (B, d) tensor with rows, got {points.dtype} {tuple(points.shape)}"
        )
    if k < 1 or iterations < 1:
        raise ValueError(f"k and iterations must be at least 1, got {k} and {iterations}")
    check_finite(points, "points")
    distinct = torch.unique(points, dim=0)
    if len(distinct) <= k:
        return _beside(distinct, k, generator)
    seed = int(torch.randint(2**31 - 1, (1,), generator=generator, device=generator.device))
    model = KMeans(k, n_init="auto", max_iter=iterations, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer cells than k: reseed sees to it
        model.fit(points.detach().double().numpy(force=True))
    return reseed(points, torch.as_tensor(model.cluster_centers_).to(points))


def kmeans_intervals(points: Tensor, k: int, *, generator: torch.Generator, iterations: int = 100) -> Tensor:
    """k sorted centroids of each column by itself, points (B, F) -> (F, k).

    >>> points = torch.tensor([[0.0, 7.0], [1.0, 5.0]])
    >>> kmeans_intervals(points, 2, generator=torch.Generator().manual_seed(0)).tolist()
    [[0.0, 1.0], [5.0, 7.0]]
    """
    columns = [kmeans(column[:, None], k, generator=generator, iterations=iterations) for column in points.T]
    return torch.cat(columns, dim=1).sort(dim=0).values.T.contiguous()


def reseed(points: Tensor, centroids: Tensor) -> Tensor:
    """Move each empty cell to the row farthest from its centroid, until none is empty or every row is one.

    Every move lowers the sum of squared distances, so it ends.

    >>> reseed(torch.tensor([[0.0], [1.0], [4.0]]), torch.tensor([[0.5], [99.0]])).tolist()
    [[0.5], [4.0]]
    """
    centroids = centroids.clone()
    while True:
        cell = nearest_cell(points, centroids)
        empty = (torch.bincount(cell, minlength=len(centroids)) == 0).nonzero()
        distance = (points.double() - centroids[cell].double()).square().sum(-1)
        if not len(empty) or not distance.any():
            return centroids
        centroids[empty[0, 0]] = points[distance.argmax()]


def _beside(distinct: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """The distinct rows, and k − B more points near them; the jitter grows until all differ."""
    spread = distinct.std(0, correction=0)
    resolution = 64 * torch.finfo(distinct.dtype).eps * distinct.abs().amax(0)
    jitter = torch.maximum(
        torch.where(spread > 0, spread, distinct.abs().amax(0).clamp_min(1.0)) / 100, resolution
    )
    centroids = distinct
    while len(centroids) < k:
        missing = k - len(centroids)
        chosen = torch.randint(len(distinct), (missing,), generator=generator, device=generator.device)
        noise = torch.randn(missing, distinct.shape[1], generator=generator, device=generator.device)
        copies = distinct[chosen.to(distinct.device)] + jitter * noise.to(distinct)
        fresh = torch.unique(copies, dim=0)
        known = (fresh[:, None] == centroids).all(-1).any(1)
        centroids = torch.cat([centroids, fresh[~known]])
        jitter = 2 * jitter
    return centroids
