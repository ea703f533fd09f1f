"""The box around a Voronoi cell: two linear programs a variable, believed only through their duals.

# K cells, d variables, m other centroids; centroids (K, d); domains Ω low, high (d,) or (K, d); the result low, high (K, d)

With x measured from c_k, the cell within Ω is P_k = {x in Ω : a_j·x ≤ b_j for all j}, a_j = c_j − c_k, b_j = |a_j|²/2. A solver's
optimum is a rounded number, as often below the truth as above it, so only its multipliers are used: any y ≥ 0 gives, for all x in P_k,

    e·x = r·x + y·Ax ≤ max over z in B of r·z + y·b,   r = e − Aᵀy,

where B is a box already proven to hold P_k: Ω at first, then with the sides proven so far. Floats are rational numbers, so the right-hand
side is computed exactly, in rationals, and only the result is rounded, outward. Where B is infinite r must point away from the infinite
side or be exactly zero: multipliers are then moved, in rationals, until it is. A side without a proof stays Ω's. With e = 0 a
negative right-hand side proves P_k empty (Farkas).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import torch
from scipy.optimize import linprog
from torch import Tensor

from voronoi_circuits.certificates.inner_boxes import Array, finite_points, owns_cell, stacked

Exact = list[Fraction]
_MOST_EQUATIONS = 10
_NOISE = 1e-7
_FAR = 1e4


def outer_box(centroids: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's Proposition (Outer Box Computation): min and max of x_i over V_k within Ω = [low, high], for every cell.

    Sides are within rounding of the optimum. A cell that is proven to miss Ω, or whose centroid repeats an earlier one, is empty and gets
    the point c_k, a box of no mass. Where Ω is infinite a proof may need as many exact multipliers as variables; above ten such
    sides stay infinite, and a finite Ω, with the mass outside it counted apart, is the better question.

    >>> end = torch.tensor([torch.inf, torch.inf])
    >>> low, high = outer_box(torch.tensor([[0.0, 0.0], [4.0, 1.0], [1.0, 4.0]]), -end, end)
    >>> torch.stack([low[0], high[0]]).tolist()
    [[-inf, -inf], [inf, inf]]
    >>> low, high = outer_box(torch.tensor([[0.0, 0.0], [4.0, 0.0], [0.0, 2.0]]), -end, end)
    >>> torch.stack([low[0], high[0]]).tolist()
    [[-inf, -inf], [2.0, 1.0]]
    """
    points = finite_points(centroids)
    lows, highs = _domains(points, low, high)
    return stacked([_around(points, k, lows[k], highs[k]) for k in range(len(points))])


def _around(points: Array, k: int, low: Array, high: Array) -> tuple[Array, Array]:
    """The proven box of cell k."""
    empty = points[k].copy(), points[k].copy()
    if not owns_cell(points, k):
        return empty
    others = points[(points != points[k]).any(1)]
    if len(others) == 0:
        return low, high
    cell = _Cell(others, points[k], low, high)
    if not ((low <= points[k]) & (points[k] <= high)).all() and cell.misses_domain():
        return empty
    for i in range(points.shape[1]):
        cell.tighten(i, 1)
        cell.tighten(i, -1)
    return cell.box()


class _Cell:
    """P_k, measured from its centroid, and the box B that is proven to hold it; None is an infinite side."""

    def __init__(self, others: Array, centroid: Array, low: Array, high: Array) -> None:
        self.program = _Program(others - centroid, low - centroid, high - centroid)
        self.centroid = [Fraction(c) for c in centroid.tolist()]
        self.normals = [_minus(other, self.centroid) for other in others.tolist()]
        self.offsets = [_dot(a, a) / 2 for a in self.normals]
        self.low, self.high = ([*map(_finite_minus, side.tolist(), self.centroid)] for side in (low, high))

    def tighten(self, i: int, sign: int) -> None:
        """Moves side i of B, the upper one where sign is 1, to the best proven bound."""
        if all(sign * a[i] <= 0 for a in self.normals):
            return  # the cell never ends this way
        proposed = self.program.multipliers(i, sign)
        direction = [Fraction(sign if i == other else 0) for other in range(len(self.centroid))]
        bound = self.bound(direction, proposed, self.program.scale[i])
        sides = self.high if sign == 1 else self.low
        known = sides[i]
        if bound is not None and (known is None or bound < sign * known):
            sides[i] = sign * bound

    def misses_domain(self) -> bool:
        """Whether P_k is proven empty."""
        zero = [Fraction(0)] * len(self.centroid)
        bound = self.bound(zero, self.program.conflict(), 1.0)
        return bound is not None and bound < 0

    def bound(self, direction: Exact, proposed: Array, size: float) -> Fraction | None:
        """max over B of r·z + y·b for multipliers near the proposed ones, exactly; None where it is not finite.

        A residual component of at most ``_NOISE`` times ``size``, in the program's scale, is rounding: it can be moved to zero.
        """
        used = np.flatnonzero(proposed > 0).tolist()
        normals = [self.normals[j] for j in used]
        y = [Fraction(proposed[j]) for j in used]
        residual = _residual(direction, normals, y)
        endless = [low is None or high is None for low, high in zip(self.low, self.high, strict=True)]
        noise = _NOISE * size / self.program.scale
        moved = [i for i, r in enumerate(residual) if r != 0 and endless[i] and abs(r) <= noise[i]]
        if moved and self.largest([Fraction(0) if i in moved else r for i, r in enumerate(residual)]) is not None:
            y = _cancel(residual, normals, y, [i for i, r in enumerate(residual) if endless[i] and abs(r) <= noise[i]])
            residual = _residual(direction, normals, y)
        largest = self.largest(residual)
        return None if largest is None else largest + _dot(y, [self.offsets[j] for j in used])

    def largest(self, residual: Exact) -> Fraction | None:
        """max over B of r·z, None where it is infinite."""
        ends = [high if r > 0 else low for r, low, high in zip(residual, self.low, self.high, strict=True)]
        total = Fraction(0)
        for r, end in zip(residual, ends, strict=True):
            if r != 0 and end is None:
                return None
            total += r * (end or 0)
        return total

    def box(self) -> tuple[Array, Array]:
        """B, measured from the origin again and rounded outward."""
        below = [-_rounded_up(None if x is None else -(x + c)) for x, c in zip(self.low, self.centroid, strict=True)]
        above = [_rounded_up(None if x is None else x + c) for x, c in zip(self.high, self.centroid, strict=True)]
        return np.array(below), np.array(above)


class _Program:
    """The linear programs in floats, each variable in units of its ``scale`` and each row of largest entry 1.

    An infinite Ω ends at ``_FAR``: what is proposed there fails in the proof.
    """

    def __init__(self, normals: Array, low: Array, high: Array) -> None:
        peaks = np.abs(normals).max(1, keepdims=True)
        widths = np.abs(normals).max(0)
        self.scale = np.where(widths > 0, widths, 1.0)
        rows = normals / peaks
        self.lengths = (np.abs(rows) * self.scale).max(1)
        self.limits = (rows * normals).sum(1) / 2 / self.lengths
        self.rows = rows * self.scale / self.lengths[:, None]
        self.lengths *= peaks[:, 0]
        self.ends = np.clip(np.stack([low, high], 1) / self.scale[:, None], -_FAR, _FAR)

    def multipliers(self, i: int, sign: int) -> Array:
        """The dual of max sign·x_i, in the units of the cell."""
        goal = np.zeros(len(self.scale))
        goal[i] = -sign
        return self._solve(goal, self.rows, self.ends) * self.scale[i]

    def conflict(self) -> Array:
        """The dual of max t subject to A x + t ≤ b: where t < 0 it adds up rows that no x in Ω can meet."""
        rows = np.column_stack([self.rows, np.ones(len(self.rows))])
        return self._solve(np.append(np.zeros(len(self.scale)), -1.0), rows, np.append(self.ends, [[-np.inf, 1.0]], 0))

    def _solve(self, goal: Array, rows: Array, ends: Array) -> Array:
        found = linprog(goal, rows, self.limits, bounds=ends, method="highs-ds")
        return -found.ineqlin.marginals / self.lengths if found.status == 0 else np.zeros(len(rows))


def _cancel(residual: Exact, normals: list[Exact], y: Exact, where: list[int]) -> Exact:
    """Multipliers y + s with Σ_j s_j a_ji = r_i for i in ``where``, so that the residual is zero there; y itself if one turns negative.

    Gauss-Jordan in rationals; multipliers off the pivots keep their value.
    """
    if len(where) > _MOST_EQUATIONS:
        return y
    system = [[*(a[i] for a in normals), residual[i]] for i in where]
    pivots: dict[int, int] = {}
    for at in range(len(system)):
        sizes = [abs(x) for x in system[at][:-1]]
        column = sizes.index(max(sizes))
        if sizes[column] == 0:
            continue
        pivots[column] = at
        system[at] = [x / system[at][column] for x in system[at]]
        for other, row in enumerate(system):
            if other != at and row[column] != 0:
                system[other] = [x - row[column] * p for x, p in zip(row, system[at], strict=True)]
    moved = [v + system[pivots[j]][-1] if j in pivots else v for j, v in enumerate(y)]
    return moved if min(moved) >= 0 else y


def _residual(direction: Exact, normals: list[Exact], y: Exact) -> Exact:
    """r = e − Aᵀy."""
    return [e - _dot(y, [a[i] for a in normals]) for i, e in enumerate(direction)]


def _dot(a: Exact, b: Exact) -> Fraction:
    return sum((x * y for x, y in zip(a, b, strict=True)), Fraction(0))


def _minus(x: list[float], centroid: Exact) -> Exact:
    return [Fraction(entry) - c for entry, c in zip(x, centroid, strict=True)]


def _finite_minus(x: float, c: Fraction) -> Fraction | None:
    return Fraction(x) - c if math.isfinite(x) else None


def _rounded_up(x: Fraction | None) -> float:
    """The smallest float above or at x; inf for None."""
    if x is None:
        return math.inf
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def _domains(points: Array, low: Tensor, high: Tensor) -> tuple[Array, Array]:
    """Ω for every cell, (K, d), checked."""
    ends: list[Array] = []
    for name, side in (("low", low), ("high", high)):
        if tuple(side.shape) not in (points.shape, points.shape[1:]):
            raise ValueError(f"{name} must have shape {points.shape[1:]} or {points.shape}, got {tuple(side.shape)}")
        ends.append(np.broadcast_to(side.detach().double().cpu().numpy(), points.shape))
    for k, i in np.argwhere(~(ends[0] < ends[1])):
        raise ValueError(f"variable {i}: the domain [{ends[0][k, i]}, {ends[1][k, i]}] is empty; give low < high")
    return ends[0], ends[1]
