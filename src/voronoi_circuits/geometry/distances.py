"""Squared distances to centroids, compared by stable differences.

Two distances are never compared by subtracting their squares, which cancel far from the centroids, but by

    ‖u − c‖² − ‖u − a‖² = (a − c)·((u − c) + (u − a)).
"""

# B rows, K cells, d variables

import torch
from torch import Tensor

_BLOCK = 1 << 21  # numbers held at once while rows are compared with centroids


def gamma(n: int) -> float:
    """γ_n = nu / (1 − nu), the relative error of n roundings in float64 (u = 2⁻⁵³).

    >>> gamma(2) > 2 * 2.0**-53
    True
    """
    unit = n * 2.0**-53
    return unit / (1 - unit)


def distance_gap(u: Tensor, anchor: Tensor, centroids: Tensor) -> Tensor:
    """‖u − c‖² − ‖u − a‖², summed over the last axis; its error is relative to Σ|a − c|(|u − c| + |u − a|).

    >>> distance_gap(torch.tensor([1.0]), torch.tensor([0.0]), torch.tensor([3.0]))
    tensor(3.)
    """
    return ((anchor - centroids) * ((u - centroids) + (u - anchor))).sum(-1)


def candidate_cells(u: Tensor, centroids: Tensor) -> Tensor:
    """Cells whose distance is the least within rounding, (B, K): a sure set, which holds the nearest.

    A distance by direct differences in float64 has relative error at most γ_{d+3}, wherever the origin lies.

    >>> candidate_cells(torch.tensor([[0.0], [0.1]]), torch.tensor([[-1.0], [1.0]])).tolist()
    [[True, True], [False, True]]
    """
    u, centroids = _exact(u, centroids)
    slack = 1 + 4 * gamma(u.shape[1] + 3)
    tiny = (u.shape[1] * torch.finfo(u.dtype).tiny) ** 0.5  # squares below it underflow
    close: list[Tensor] = []
    for rows in _blocks(u, centroids.shape[0]):
        distance = _distances(rows, centroids)
        close.append(distance <= distance.amin(-1, keepdim=True) * slack + tiny)
    return torch.cat(close)


def nearest_cell(u: Tensor, centroids: Tensor) -> Tensor:
    """argmin_k ‖u − c_k‖, (B,), in float64; ties go to the lower index.

    Rows with several candidates are decided by the sign of the stable difference, candidate by candidate.

    >>> nearest_cell(torch.tensor([[0.0], [0.1]]), torch.tensor([[-1.0], [1.0]])).tolist()
    [0, 1]
    """
    close = candidate_cells(u, centroids)
    u, centroids = _exact(u, centroids)
    cell = close.int().argmax(-1)
    contested = (close.sum(-1) > 1).nonzero().squeeze(-1)
    for k in range(centroids.shape[0] if len(contested) else 0):
        rows = contested[close[contested, k]]
        closer = distance_gap(u[rows], centroids[cell[rows]], centroids[k]) < 0
        cell[rows[closer]] = k
    return cell


def facet_margin(u: Tensor, centroids: Tensor) -> Tensor:
    """γ(u) = min_{j ≠ k*} ‖u − c_j‖² − ‖u − c_k*‖², k* the nearest, (B,) in float64; +inf for a single cell.

    >>> facet_margin(torch.tensor([[0.5]]), torch.tensor([[-1.0], [1.0]])).tolist()
    [2.0]
    """
    cell = nearest_cell(u, centroids)
    u, centroids = _exact(u, centroids)
    width = centroids.numel()
    margins: list[Tensor] = []
    for rows, own in zip(_blocks(u, width), _blocks(cell, width), strict=True):
        gap = distance_gap(rows[:, None], centroids[own, None], centroids)
        margins.append(gap.scatter(1, own[:, None], torch.inf).amin(-1).clamp_min(0.0))
    return torch.cat(margins)


def log_soft_cells(u: Tensor, centroids: Tensor, alpha: float | Tensor) -> Tensor:
    """log w_k(u; α) = log softmax_k(−α‖u − c_k‖²), (B, K), in the dtype of the rows; differentiable.

    Distances enter as differences from that of a centroid near the row, which the softmax does not see:
    nothing cancels at a common offset, and a far row neither overflows nor loses its gradient.

    >>> log_soft_cells(torch.tensor([[0.0]]), torch.tensor([[-1.0], [1.0]]), 3.0).exp()
    tensor([[0.5000, 0.5000]])
    """
    check_alpha(alpha)
    centroids = centroids.to(u.dtype)
    anchor = _distances(u.detach(), centroids.detach()).argmin(-1)
    gap = distance_gap(u[:, None], centroids[anchor, None], centroids)
    return torch.log_softmax(-alpha * gap, dim=-1)


def check_alpha(alpha: float | Tensor) -> None:
    """Refuse an inverse temperature that is not a positive number (a tensor is trusted).

    >>> check_alpha(1.0)
    """
    if not isinstance(alpha, Tensor) and not 0 < alpha < float("inf"):
        raise ValueError(f"alpha must be a positive finite number, got {alpha}")


def check_finite(x: Tensor, what: str) -> None:
    """Refuse NaN and infinities, naming the first place.

    >>> check_finite(torch.zeros(2, 3), "rows")
    """
    bad = (~torch.isfinite(x)).nonzero()
    if len(bad):
        place = ", ".join(str(i) for i in bad[0].tolist())
        raise ValueError(f"{what} must be finite: the entry at ({place}) is {x[tuple(bad[0])].item()}")


def _exact(u: Tensor, centroids: Tensor) -> tuple[Tensor, Tensor]:
    """Rows and centroids as float64, which holds float32 and float64 exactly."""
    if u.ndim != 2 or u.shape[1] != centroids.shape[1]:
        raise ValueError(f"rows must have shape (B, {centroids.shape[1]}), got {tuple(u.shape)}")
    check_finite(u, "rows")
    return u.detach().double(), centroids.detach().double()


def _distances(u: Tensor, centroids: Tensor) -> Tensor:
    """‖u − c‖ by direct differences, (B, K)."""
    return torch.cdist(u, centroids, compute_mode="donot_use_mm_for_euclid_dist")


def _blocks(rows: Tensor, width: int) -> tuple[Tensor, ...]:
    """Rows cut into blocks of which each, times width, is small."""
    return torch.split(rows, max(1, _BLOCK // width))
