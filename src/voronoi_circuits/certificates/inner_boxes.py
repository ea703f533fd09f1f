"""Boxes inside Voronoi cells: the closed form of the paper, and the box of largest volume.

# K cells, d variables, m other centroids
# centroids (K, d); one box for each cell: low, high (K, d), sides may be infinite

A box [l, h] lies in V_k exactly where no half-space is exceeded at its worst corner:

    max over x in [l, h] of a_j·x − b_j = a_j⁺·h − a_j⁻·l − b_j ≤ 0,

with a_j = c_j − c_k and b_j = a_j·(c_j + c_k)/2.
Both constructions only propose. A box is returned once this inequality is proven for the very
floats returned: the worst corner is summed in float64, plus a bound on all that the sum can lose
to rounding (Higham's γ). A box that misses the proof is shrunk about its centre, in the end to a
point. Of equal centroids the first owns the cell; the others own nothing and get their centroid,
a box of no mass.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Sides = tuple[Array, Array]
_ROUNDING = 2.0**-53
_TINIEST = 2.0**-1074
_LARGEST = 1e150
_STEPS = 40
_CONVERGED = 1e-9


def conservative_box(centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's Proposition (Inner Box Construction).

        c_k ± δ_k / (2√d),   δ_k the distance to the nearest other centroid,

    shrunk by a few roundings, so that it lies in V_k in exact arithmetic. A single cell is all of space.

    >>> low, high = conservative_box(torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    >>> bool(((high - low) / 2 - 2**0.5).abs().max() < 1e-9)
    True
    """
    points = finite_points(centroids)
    return stacked([_conservative(points, k) for k in range(len(points))])


def optimised_box(centroids: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The box of largest volume in V_k and in row k of finite boxes, those that hold an expert's mass.

        maximise Σ_i log(h_i − l_i)   subject to   a_j⁺·h − a_j⁻·l ≤ b_j,   low_k ≤ l ≤ h ≤ high_k

    Sides along which the cell never ends are then moved to infinity. A cell that misses its
    finite box, or whose box cannot be proven, gets the conservative one.

    >>> centroids = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
    >>> low, high = optimised_box(centroids, torch.full((2, 2), -9.0), torch.full((2, 2), 9.0))
    >>> [[round(side, 6) for side in row] for row in torch.stack([low[0], high[0]]).tolist()]
    [[-inf, -inf], [2.0, inf]]
    """
    points = finite_points(centroids)
    lows, highs = _finite_boxes(points, low, high)
    return stacked([_optimised(points, k, lows[k], highs[k]) for k in range(len(points))])


def _conservative(points: Array, k: int) -> Sides:
    others = points[(points != points[k]).any(1)]
    if not owns_cell(points, k):
        return points[k], points[k]
    if len(others) == 0:
        return np.full_like(points[k], -np.inf), np.full_like(points[k], np.inf)
    radius = np.linalg.norm(others - points[k], axis=1).min() / (2.0 * points.shape[1] ** 0.5)
    ends = np.zeros(points.shape[1], dtype=bool)
    return _shrunk(others, points[k], points[k] - radius, points[k] + radius, (ends, ends)) or (
        points[k],
        points[k],
    )


def _optimised(points: Array, k: int, low: Array, high: Array) -> Sides:
    others = points[(points != points[k]).any(1)]
    fallback = _conservative(points, k)
    if not owns_cell(points, k) or len(others) == 0:
        return fallback
    centre, scale = low / 2 + high / 2, high / 2 - low / 2
    normals = others - points[k]
    offsets = (normals * ((others - centre) + (points[k] - centre))).sum(1) / 2
    with np.errstate(all="ignore"):
        lengths = np.abs(normals * scale).sum(1)
        found = _largest_box(normals * scale / lengths[:, None], offsets / lengths)
    if found is None:
        return fallback
    endless = (points[k] <= others).all(0), (points[k] >= others).all(0)
    sides = centre + scale * found[0], centre + scale * found[1]
    return _shrunk(others, points[k], *sides, endless) or fallback


def _shrunk(
    others: Array,
    centroid: Array,
    low: Array,
    high: Array,
    endless: tuple[NDArray[np.bool_], NDArray[np.bool_]],
) -> Sides | None:
    """The box, shrunk about its centre no more than the proof needs; sides marked endless are infinite."""
    centre, radius = low / 2 + high / 2, high / 2 - low / 2
    for step in range(48, 0, -4):
        kept = radius * (1.0 - 2.0**-step)
        sides = np.where(endless[0], -np.inf, centre - kept), np.where(endless[1], np.inf, centre + kept)
        if _proven(others, centroid, *sides):
            return sides
    return None


def _proven(others: Array, centroid: Array, low: Array, high: Array) -> bool:
    """Whether 2(a_j·x − b_j) = Σ_i a_ji (2x_i − c_ji − c_ki) ≤ 0 for all j at the worst corner.

    Four roundings of a term and d − 1 of the sum lose at most (d + 3)u(1 + O(du)) Σ_i |a_ji|
    (2|x_i| + |c_ji| + |c_ki|), underflow less than 2d·2⁻¹⁰⁷⁴; the factor d + 8 covers the
    rounding of this bound too. The sign of a difference of floats is exact, hence so are the
    corner and the zeros that let a side be infinite. The last comparison is exact.
    """
    d = len(centroid)
    with np.errstate(all="ignore"):
        normals = others - centroid
        corner = np.where(normals > 0, high, low)
        corner = np.where(normals == 0, 0.0, corner)
        terms = normals * (2.0 * corner - (others + centroid))
        sizes = np.abs(normals) * (2.0 * np.abs(corner) + np.abs(others) + np.abs(centroid))
        lost = (d + 8) * _ROUNDING * sizes.sum(1) + 2 * d * _TINIEST
        return bool((terms.sum(1) + lost <= 0).all() and (low <= high).all())


def _largest_box(normals: Array, offsets: Array) -> Sides | None:
    """The box of largest volume in {a_j·x ≤ b_j} and [−1, 1]^d; None where the method does not converge.

    With z = (l, h) all constraints are linear, G z ≤ g, and F(z) = −Σ log(h_i − l_i) is convex. A primal-dual
    interior-point method follows

        ∇F(z) + Gᵀy = 0,   G z + s = g,   s_i y_i = μ,   s, y > 0

    down with μ. It starts at a point that need not be feasible, so cells that miss [−1, 1]^d do not converge.
    """
    d = normals.shape[1]
    half = np.eye(d)
    curvature_shape = np.block([[half, -half], [-half, half]])
    bounds = np.concatenate([-np.eye(2 * d)[:d], np.eye(2 * d)[d:]])
    rows = np.concatenate([np.concatenate([-np.maximum(-normals, 0.0), np.maximum(normals, 0.0)], 1), bounds])
    limits = np.concatenate([offsets, np.ones(2 * d)])
    z: Array = np.concatenate([np.full(d, -0.5), np.full(d, 0.5)])
    slack, dual = np.maximum(limits - rows @ z, 0.5), np.ones(len(limits))
    for _ in range(_STEPS):
        width = z[d:] - z[:d]
        unmet = rows @ z + slack - limits
        unbalanced = np.concatenate([1.0 / width, -1.0 / width]) + rows.T @ dual
        gap = float(slack @ dual) / len(dual)
        if max(np.abs(unmet).max(), gap, np.abs(unbalanced * np.tile(width, 2)).max()) < _CONVERGED:
            return z[:d], z[d:]
        hessian = curvature_shape / np.tile(width, 2) ** 2 + (rows.T * (dual / slack)) @ rows
        target = 0.1 * gap - slack * dual
        try:
            step = np.linalg.solve(hessian, -unbalanced - rows.T @ ((target + dual * unmet) / slack))
        except np.linalg.LinAlgError:
            return None
        slack_step = -unmet - rows @ step
        dual_step = (target - dual * slack_step) / slack
        now = np.concatenate([slack, dual, width])
        change = np.concatenate([slack_step, dual_step, step[d:] - step[:d]])
        size = min(1.0, 0.98 / max(float((-change / now).max()), 1e-9))
        z, slack, dual = z + size * step, slack + size * slack_step, dual + size * dual_step
    return None


def finite_points(centroids: Tensor) -> Array:
    """The centroids in float64, which changes no float32; checked."""
    if centroids.dim() != 2 or 0 in centroids.shape:
        raise ValueError(f"centroids must have shape (cells, variables), got {tuple(centroids.shape)}")
    points = centroids.detach().double().cpu().numpy()
    for k, i in np.argwhere(~(np.abs(points) <= _LARGEST)):
        raise ValueError(f"centroids[{k}, {i}] is {points[k, i]}: give numbers of at most {_LARGEST} in size")
    return points


def owns_cell(points: Array, k: int) -> bool:
    """Whether no earlier centroid equals centroid k."""
    return not bool((points[:k] == points[k]).all(1).any())


def stacked(boxes: list[Sides]) -> tuple[Tensor, Tensor]:
    """One (d,) box for each cell -> low, high (K, d)."""
    low, high = (np.stack(sides) for sides in zip(*boxes, strict=True))
    return torch.from_numpy(low), torch.from_numpy(high)


def _finite_boxes(points: Array, low: Tensor, high: Tensor) -> Sides:
    """The finite boxes in float64, checked."""
    if low.shape != points.shape or high.shape != points.shape:
        shapes = f"{tuple(low.shape)} and {tuple(high.shape)}"
        raise ValueError(f"low and high must have the shape of the centroids, {points.shape}, got {shapes}")
    lows, highs = (side.detach().double().cpu().numpy() for side in (low, high))
    for k, i in np.argwhere(~(np.isfinite(lows) & np.isfinite(highs) & (lows < highs))):
        side = f"[{lows[k, i]}, {highs[k, i]}]"
        raise ValueError(f"cell {k}, variable {i}: the side {side} must be finite, with low < high")
    return lows, highs
