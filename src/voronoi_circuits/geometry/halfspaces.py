"""Voronoi cells as intersections of half-spaces, and boxes against them.

V_k = ∩_j {x : a_kj·x ≤ b_kj},   a_kj = c_j − c_k,   b_kj = (c_j − c_k)·(c_j + c_k)/2.
"""

# N boxes, K cells, T cells compared at once, d variables

from collections.abc import Iterator

import torch
from torch import Tensor

from voronoi_circuits.geometry.distances import gamma

_BLOCK = 1 << 19  # pairs of cells, times boxes, held at once


def halfspaces(centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Normals (K, K, d) and offsets (K, K), float64: V_k = {x : normals[k, j]·x ≤ offsets[k, j] for all j}.

    Equal centroids give the normal 0; their offset is −1 for the higher index, whose cell is empty, and 1
    for the lower, so that the half-spaces say what `nearest` says.

    >>> normals, offsets = halfspaces(torch.tensor([[-1.0], [3.0]]))
    >>> normals[0, 1].tolist(), offsets[0, 1].item()
    ([4.0], 4.0)
    """
    centroids = centroids.detach().double()
    normals = centroids[None, :] - centroids[:, None]
    offsets = (normals * (centroids[None, :] + centroids[:, None])).sum(-1) / 2
    order = torch.arange(len(centroids), device=centroids.device)
    precedence = (order[None, :] - order[:, None]).sign().double()
    return normals, torch.where((normals == 0).all(-1), precedence, offsets)


def offset_error(centroids: Tensor) -> Tensor:
    """How far rounding may have moved each offset, (K, K): at most γ_{d+2} Σ|c_j − c_k||c_j + c_k|/2.

    >>> bool((offset_error(torch.tensor([[-1.0], [3.0]])) < 1e-14).all())
    True
    """
    centroids = centroids.detach().double()
    products = (centroids[None, :] - centroids[:, None]) * (centroids[None, :] + centroids[:, None])
    roundings = centroids.shape[1] + 3  # one more, for the rounding of this very sum
    return gamma(roundings) * products.abs().sum(-1) / 2


def classify(
    centroids: Tensor, low: Tensor, high: Tensor, cells: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Label boxes (N, d): inside[n, k] only if box n lies in V_k, touches[n, k] False only if disjoint.

    Cell k beats cell j on a box if max over the box of (c_j − c_k)·(x − (c_j + c_k)/2) < 0, where each
    coordinate takes its own side and rounding is taken outward. A box is inside the cell that beats all
    others and touches those that none beats. Sides may be infinite or equal; a box within rounding of a
    facet, or on it, touches both cells.

    `cells` (N, K) names the cells that each box may touch, such as those its parent touches; the others are
    known to hold no point of it. They are neither labelled nor compared with.

    >>> low, high = torch.tensor([[0.5], [-1.0]]), torch.tensor([[torch.inf], [1.0]])
    >>> inside, touches = classify(torch.tensor([[-1.0], [1.0]]), low, high)
    >>> inside.tolist(), touches.tolist()
    ([[False, True], [False, False]], [[False, True], [True, True]])
    """
    centroids = centroids.detach().double()
    low, high = check_boxes(low, high, centroids.shape[1])
    centre = centroids.mean(0)
    widen = gamma(centroids.shape[1] + 10)
    low, high = low - centre, high - centre
    low, high = low - widen * low.abs(), high + widen * high.abs()
    inside = torch.zeros(len(low), len(centroids), dtype=torch.bool, device=low.device)
    touches = inside.clone()
    for rows, index in _groups(inside, cells):
        beats = _beats(centroids, centre, low[rows], high[rows], index, widen)
        itself = torch.eye(index.shape[1], dtype=torch.bool, device=low.device)
        inside[rows[:, None], index] = (beats | itself).all(2)
        touches[rows[:, None], index] = ~beats.any(1)
    return inside, touches


def check_boxes(low: Tensor, high: Tensor, dimensions: int) -> tuple[Tensor, Tensor]:
    """Boxes as float64 (N, d); an empty interval is refused and named.

    >>> check_boxes(torch.zeros(1, 2), torch.ones(1, 2), 2)[1].tolist()
    [[1.0, 1.0]]
    """
    if low.shape != high.shape or low.ndim != 2 or low.shape[1] != dimensions:
        shapes = f"{tuple(low.shape)} and {tuple(high.shape)}"
        raise ValueError(f"low and high must both have shape (N, {dimensions}), got {shapes}")
    low, high = low.double(), high.double()
    bad = (~((low <= high) & (low < torch.inf) & (high > -torch.inf))).nonzero()
    if len(bad):
        n, i = bad[0].tolist()
        interval = f"[{low[n, i].item()}, {high[n, i].item()}]"
        raise ValueError(f"box {n} has the empty interval {interval} in column {i}: low must not exceed high")
    return low, high


def _groups(labels: Tensor, cells: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
    """Blocks of boxes that compare equally many cells: box numbers (n,) and the cells of each (n or 1, T)."""
    n, k = labels.shape
    if cells is None:
        every = torch.arange(k, device=labels.device)[None]
        for rows in torch.arange(n, device=labels.device).split(max(1, _BLOCK // k**2)):
            yield rows, every
        return
    if cells.shape != labels.shape or cells.dtype != torch.bool:
        raise ValueError(f"cells must be bool of shape {(n, k)}, got {cells.dtype} {tuple(cells.shape)}")
    counts = cells.sum(1)
    for count in counts[counts > 0].unique().tolist():
        for rows in (counts == count).nonzero().squeeze(-1).split(max(1, _BLOCK // count**2)):
            yield rows, cells[rows].nonzero()[:, 1].view(-1, count)


def _beats(
    centroids: Tensor, centre: Tensor, low: Tensor, high: Tensor, index: Tensor, widen: float
) -> Tensor:
    """Whether cell index[n, k] beats cell index[n, j] on all of box n (sides from the centre), (n, T, T).

    `widen` outgrows the d + 8 roundings on the way from a side or a centroid to the sum.
    """
    own = centroids[index]
    normals = own[:, None, :, :] - own[:, :, None, :]
    moved = own - centre
    middles = (moved[:, None, :, :] + moved[:, :, None, :]) / 2
    sizes = (moved.abs()[:, None, :, :] + moved.abs()[:, :, None, :]) / 2  # parts may cancel, errors do not
    slack = widen * (normals.abs() * sizes).sum(-1) + torch.finfo(low.dtype).tiny
    reach = slack - (normals * middles).sum(-1)
    for i in range(low.shape[1]):
        normal = normals[..., i]
        side = torch.where(normal > 0, high[:, i, None, None], low[:, i, None, None])
        reach = reach + torch.where(normal == 0, 0.0, normal * side)
    lower = index[:, :, None] < index[:, None, :]
    return torch.where((normals == 0).all(-1), lower, reach < 0)
