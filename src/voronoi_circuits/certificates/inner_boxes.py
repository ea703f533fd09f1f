"""Boxes inside Voronoi cells: the closed form of the paper, and the box of largest volume.

# K cells, d variables; centroids (K, d); one box for each cell: low, high (K, d), sides may be infinite

A box [l, h] lies in V_k exactly where no half-space is exceeded at its worst corner:

    max over x in [l, h] of a_kj·x − b_kj = a⁺·h − a⁻·l − b_kj ≤ 0,   a_kj = c_j − c_k,   b_kj = a_kj·(c_j + c_k)/2.

Both constructions only propose. A box is returned once this inequality is proven for the very floats that are returned: the worst corner
is summed in float64 and a bound on everything the sum can have lost to rounding (Higham's γ) is added; a box that misses the proof
is shrunk about its centre, at last to a point. Of equal centroids the first owns the cell; the others own nothing and get their centroid, a box of no mass.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
_ROUNDING = 2.0**-53
_TINIEST = 2.0**-1074
_LARGEST = 1e150
_STEPS = 40
_CONVERGED = 1e-9


def conservative_box(centroids: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's Proposition (Inner Box Construction): c_k ± δ_k / (2√d), δ_k the distance to the nearest other centroid.

    One cell is all of space. The radius is shrunk by a few roundings, so that the box lies in V_k in exact arithmetic.

    >>> low, high = conservative_box(torch.tensor([[0.0, 0.0], [4.0, 0.0]]))
    >>> bool(((high - low) / 2 - 2**0.5).abs().max() < 1e-9)
    True
    """
    points = finite_points(centroids)
    boxes = [_conservative(points, k) for k in range(len(points))]
    return stacked(boxes)


def optimised_box(centroids: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The box of largest volume inside V_k and inside row k of the finite boxes given, those that hold an expert's mass:

        maximise Σ_i log(h_i − l_i)   subject to   a_kj⁺·h − a_kj⁻·l ≤ b_kj,   low_k ≤ l ≤ h ≤ high_k.

    Then every side along which the cell never ends is moved to infinity. A cell that misses its given box, or whose box cannot be
    proven, gets the conservative one.

    >>> centroids = torch.tensor([[0.0, 0.0], [4.0, 0.0]])
    >>> low, high = optimised_box(centroids, torch.full((2, 2), -9.0), torch.full((2, 2), 9.0))
    >>> [[round(side, 6) for side in row] for row in torch.stack([low[0], high[0]]).tolist()]
    [[-inf, -inf], [2.0, inf]]
    """
    points = finite_points(centroids)
    within = _finite_boxes(points, low, high)
    boxes = [_optimised(points, k, *within[k]) for k in range(len(points))]
    return stacked(boxes)


def proven_inside(centroids: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Whether box k is proven to lie in cell k: (K, d) boxes -> (K,) booleans; False proves nothing.

    >>> centroids, corner = torch.tensor([[0.0], [4.0]]), torch.tensor([[1.0], [2.1]])
    >>> proven_inside(centroids, corner, corner + 0.95).tolist()
    [True, True]
    >>> proven_inside(centroids, corner, corner + 1.05).tolist()
    [False, True]
    """
    points = finite_points(centroids)
    lows, highs = (side.detach().double().cpu().numpy() for side in (low, high))
    return torch.tensor([owns_cell(points, k) and _proven(points, k, lows[k], highs[k]) for k in range(len(points))])


def _proven(points: Array, k: int, low: Array, high: Array) -> bool:
    """Whether 2(a·x − b) = Σ_i a_i (2x_i − c_ji − c_ki) ≤ 0 at the worst corner of the box, for every j, rounding included.

    Four roundings of a term and d − 1 of the sum lose at most (d + 3)u(1 + O(du)) Σ_i |a_i| (2|x_i| + |c_ji| + |c_ki|), and
    underflow half of d·2⁻¹⁰⁷³; the coefficient d + 8 covers the rounding of the bound itself. The sign of a difference of floats is
    exact, hence so are the corner and the zeros that let a side be infinite.
    """
    d = points.shape[1]
    with np.errstate(all="ignore"):
        normals = points - points[k]
        corner = np.where(normals > 0, high, low)
        corner = np.where(normals == 0, 0.0, corner)
        sums = points + points[k]
        terms = normals * (2.0 * corner - sums)
        sizes = np.abs(normals) * (2.0 * np.abs(corner) + np.abs(points) + np.abs(points[k]))
        lost = (d + 8) * _ROUNDING * sizes.sum(1) + 2 * d * _TINIEST
        others = (normals != 0).any(1)
        return bool((terms.sum(1) + lost <= 0)[others].all() and (low <= high).all())


def owns_cell(points: Array, k: int) -> bool:
    """Whether no earlier centroid equals centroid k, and so owns its cell."""
    return not bool((points[:k] == points[k]).all(1).any())


def _shrunk(points: Array, k: int, low: Array, high: Array, endless: tuple[Array, Array]) -> tuple[Array, Array] | None:
    """The box, shrunk about its centre as little as the proof needs; sides marked endless are then infinite."""
    with np.errstate(all="ignore"):
        centre, radius = low / 2 + high / 2, high / 2 - low / 2
    for step in range(48, 0, -4):
        keep = radius * (1.0 - 2.0**-step)
        inner_low = np.where(endless[0], -np.inf, centre - keep)
        inner_high = np.where(endless[1], np.inf, centre + keep)
        if _proven(points, k, inner_low, inner_high):
            return inner_low, inner_high
    return None


def _conservative(points: Array, k: int) -> tuple[Array, Array]:
    point = points[k].copy(), points[k].copy()
    others = points[(points != points[k]).any(1)]
    if not owns_cell(points, k):
        return point
    if len(others) == 0:
        return np.full_like(points[k], -np.inf), np.full_like(points[k], np.inf)
    radius = np.linalg.norm(others - points[k], axis=1).min() / (2.0 * points.shape[1] ** 0.5)
    ends = np.zeros(points.shape[1], dtype=bool)
    return _shrunk(points, k, points[k] - radius, points[k] + radius, (ends, ends)) or point


def _optimised(points: Array, k: int, low: Array, high: Array) -> tuple[Array, Array]:
    others = points[(points != points[k]).any(1)]
    if not owns_cell(points, k) or len(others) == 0:
        return _conservative(points, k)
    centre, scale = low / 2 + high / 2, high / 2 - low / 2
    normals = others - points[k]
    offsets = (normals * ((others - centre) + (points[k] - centre))).sum(1) / 2
    normals = normals * scale
    lengths = np.abs(normals).sum(1)
    found = _largest_box(normals / lengths[:, None], offsets / lengths)
    if found is None:
        return _conservative(points, k)
    endless = (points[k] <= others).all(0), (points[k] >= others).all(0)
    return _shrunk(points, k, centre + scale * found[0], centre + scale * found[1], endless) or _conservative(points, k)


def _largest_box(normals: Array, offsets: Array) -> tuple[Array, Array] | None:
    """The box of largest volume in {a·x ≤ b} and [−1, 1]^d, by a primal-dual interior-point method; None where it does not converge.

    With z = (l, h) all constraints are linear, G z ≤ g, and F(z) = −Σ log(h − l) is convex. A Newton step solves

        ∇F(z) + Gᵀy = 0,   G z + s = g,   s y = μ,   s, y > 0,

    and μ falls with the mean of s y. The start needs no feasible point, so cells that miss [−1, 1]^d show by not converging.
    """
    d = normals.shape[1]
    sides = np.concatenate([-np.eye(2 * d)[:d], np.eye(2 * d)[d:]])
    rows = np.concatenate([np.concatenate([-np.maximum(-normals, 0), np.maximum(normals, 0)], 1), sides])
    limits = np.concatenate([offsets, np.ones(2 * d)])
    z = np.concatenate([np.full(d, -0.5), np.full(d, 0.5)])
    slack, dual = np.maximum(limits - rows @ z, 0.5), np.ones(len(limits))
    units = np.arange(d)
    with np.errstate(all="ignore"):
        for _ in range(_STEPS):
            width = z[d:] - z[:d]
            gradient = np.concatenate([1.0 / width, -1.0 / width])
            unmet = rows @ z + slack - limits
            unbalanced = gradient + rows.T @ dual
            mean = slack @ dual / len(dual)
            if max(np.abs(unmet).max(), mean, np.abs(unbalanced).max() / d) < _CONVERGED:
                return z[:d], z[d:]
            target = 0.1 * mean
            hessian = (rows.T * (dual / slack)) @ rows
            curvature = 1.0 / width**2
            hessian[units, units] += curvature
            hessian[units + d, units + d] += curvature
            hessian[units, units + d] -= curvature
            hessian[units + d, units] -= curvature
            try:
                step = np.linalg.solve(hessian, -unbalanced - rows.T @ ((target - slack * dual + dual * unmet) / slack))
            except np.linalg.LinAlgError:
                return None
            step_slack = -unmet - rows @ step
            step_dual = (target - slack * dual - dual * step_slack) / slack
            step_width = step[d:] - step[:d]
            fastest = max(float(np.max(-change / now)) for change, now in
                          ((step_slack, slack), (step_dual, dual), (step_width, width)))
            size = min(1.0, 0.98 / fastest) if fastest > 0 else 1.0
            z, slack, dual = z + size * step, slack + size * step_slack, dual + size * step_dual
    return None


def finite_points(centroids: Tensor) -> Array:
    """The centroids in float64, which changes no float32; checked."""
    if centroids.dim() != 2 or 0 in centroids.shape:
        raise ValueError(f"centroids must be a (cells, variables) matrix with entries, got shape {tuple(centroids.shape)}")
    points = centroids.detach().double().cpu().numpy()
    for k, i in np.argwhere(~(np.abs(points) <= _LARGEST)):
        raise ValueError(f"centroids[{k}, {i}] is {points[k, i]}: give finite centroids, at most {_LARGEST} in size")
    return points


def _finite_boxes(points: Array, low: Tensor, high: Tensor) -> list[tuple[Array, Array]]:
    """Row k of low and high, checked: finite and of positive width."""
    if low.shape != points.shape or high.shape != points.shape:
        shapes = f"{tuple(low.shape)} and {tuple(high.shape)}"
        raise ValueError(f"low and high must have the centroids' shape {points.shape}, got {shapes}")
    lows, highs = (side.detach().double().cpu().numpy() for side in (low, high))
    for k, i in np.argwhere(~(np.isfinite(lows) & np.isfinite(highs) & (lows < highs))):
        side = f"[{lows[k, i]}, {highs[k, i]}]"
        raise ValueError(f"cell {k}, variable {i}: the box side {side} must be finite and of positive width")
    return list(zip(lows, highs, strict=True))


def stacked(boxes: list[tuple[Array, Array]]) -> tuple[Tensor, Tensor]:
    """One (d,) box for each cell -> low, high (K, d)."""
    low, high = (np.stack(side) for side in zip(*boxes, strict=True))
    return torch.from_numpy(low), torch.from_numpy(high)
