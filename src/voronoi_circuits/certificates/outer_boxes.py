"""The box around a Voronoi cell: two linear programs a variable, believed only through their duals.

# K cells, d variables, m other centroids, n directions
# centroids (K, d); domains Ω low, high (d,) or (K, d); results low, high (K, d)

With x measured from c_k, the cell within Ω is P_k = {x in Ω : a_j·x ≤ b_j for all j}, with a_j =
c_j − c_k and b_j = |a_j|²/2. A solver's optimum is a rounded number, as often below the truth as
above it, so only its multipliers are used: any y ≥ 0 gives, for all x in P_k,

    e·x = r·x + y·Ax ≤ max over z in B of r·z + y·b,   r = e − Aᵀy,

where B is a box already proven to hold P_k: Ω at first, then with the sides proven so far. Floats
are rational numbers, so the right-hand side is computed exactly, in rationals, and only the
result is rounded, outward. Where B is infinite, r must point away from the infinite side or be
exactly zero: multipliers are then moved, in rationals, until it is. A side without a proof stays
Ω's. With e = 0 a negative right-hand side proves P_k empty (Farkas).
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from scipy import sparse
from scipy.optimize import linprog
from torch import Tensor

from voronoi_circuits.certificates.inner_boxes import Array, finite_points, owns_cell, stacked

Exact = list[Fraction]
_MOST_EQUATIONS = 10
_NOISE = 1e-7
_FAR = 1e4


def outer_box(centroids: Tensor, low: Tensor, high: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's Proposition (Outer Box Computation): min and max of x_i over V_k within Ω = [low, high].

    Sides are within rounding of the optimum. A cell that is proven to miss Ω, or whose centroid
    repeats an earlier one, is empty and gets the point c_k, a box of no mass. Where Ω is infinite
    a proof may need as many exact multipliers as variables; above ten such a side stays infinite,
    and a finite Ω, with the mass outside it counted apart, is the better question.

    >>> import torch
    >>> end = torch.tensor([torch.inf, torch.inf])
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
    cell.tighten()
    below, above = cell.box()
    return empty if (below > above).any() else (below, above)


class _Cell:
    """P_k, measured from its centroid, and the box B that is proven to hold it; None is an infinite side."""

    def __init__(self, others: Array, centroid: Array, low: Array, high: Array) -> None:
        self.program = _Program(others - centroid, low - centroid, high - centroid)
        self.centroid = [Fraction(c) for c in centroid.tolist()]
        exact = [[Fraction(x) for x in other] for other in others.tolist()]
        self.normals = [[x - c for x, c in zip(other, self.centroid, strict=True)] for other in exact]
        self.offsets = [_dot(a, a) / 2 for a in self.normals]
        self.low = list(map(_finite_shift, low.tolist(), self.centroid))
        self.high = list(map(_finite_shift, high.tolist(), self.centroid))

    def tighten(self) -> None:
        """Moves every side of B to its proven bound; where the cell never ends, the side is Ω's already."""
        d = len(self.centroid)
        rising = [any(a[i] > 0 for a in self.normals) for i in range(d)]
        falling = [any(a[i] < 0 for a in self.normals) for i in range(d)]
        sides = [(i, 1) for i in range(d) if rising[i]] + [(i, -1) for i in range(d) if falling[i]]
        for (i, sign), proposed in zip(sides, self.program.multipliers(sides), strict=True):
            direction = [Fraction(sign if i == other else 0) for other in range(d)]
            bound = self.bound(direction, proposed, self.program.scale[i])
            ends = self.high if sign == 1 else self.low
            known = ends[i]
            if bound is not None and (known is None or bound < sign * known):
                ends[i] = sign * bound

    def misses_domain(self) -> bool:
        """Whether P_k is proven empty."""
        bound = self.bound([Fraction(0)] * len(self.centroid), self.program.conflict(), 1.0)
        return bound is not None and bound < 0

    def bound(self, direction: Exact, proposed: Array, size: float) -> Fraction | None:
        """max over B of r·z + y·b, exactly, for multipliers at or near those proposed; None if infinite.

        A residual of at most ``_NOISE`` times ``size``, in the scale of the program, is rounding:
        it may be moved to 0.
        """
        used = [int(j) for j in np.flatnonzero((proposed > 0) & np.isfinite(proposed))]
        normals = [self.normals[j] for j in used]
        y = [Fraction(float(proposed[j])) for j in used]
        residual = _residual(direction, normals, y)
        noise = _NOISE * size / self.program.scale
        endless = [None in sides for sides in zip(self.low, self.high, strict=True)]
        near = [i for i, r in enumerate(residual) if endless[i] and abs(r) <= float(noise[i])]
        if self.largest([Fraction(0) if i in near else r for i, r in enumerate(residual)]) is None:
            return None
        if any(residual[i] for i in near):
            y = _cancelling(residual, normals, y, near)
            residual = _residual(direction, normals, y)
        largest = self.largest(residual)
        return None if largest is None else largest + _dot(y, [self.offsets[j] for j in used])

    def largest(self, residual: Exact) -> Fraction | None:
        """max over B of r·z; None where it is infinite."""
        total = Fraction(0)
        for r, low, high in zip(residual, self.low, self.high, strict=True):
            end = high if r > 0 else low
            if r and end is None:
                return None
            total += r * (end or 0)
        return total

    def box(self) -> tuple[Array, Array]:
        """B, measured from the origin again and rounded outward."""
        below = [-_up(None if x is None else -x - c) for x, c in zip(self.low, self.centroid, strict=True)]
        above = [_up(None if x is None else x + c) for x, c in zip(self.high, self.centroid, strict=True)]
        return np.array(below), np.array(above)


class _Program:
    """The linear programs in floats: each variable in units of its ``scale``, each row's largest entry 1.

    An infinite Ω ends at ``_FAR``: what is proposed there fails in the proof.
    """

    def __init__(self, normals: Array, low: Array, high: Array) -> None:
        peaks = np.abs(normals).max(1, keepdims=True)
        widths = np.abs(normals).max(0)
        self.scale = np.where(widths > 0, widths, 1.0)
        rows = normals / peaks
        lengths = (np.abs(rows) * self.scale).max(1)
        self.rows = rows * self.scale / lengths[:, None]
        self.limits = (rows * normals).sum(1) / 2 / lengths
        self.units = lengths * peaks[:, 0]
        self.ends = np.clip(np.stack([low, high], 1) / self.scale[:, None], -_FAR, _FAR)

    def multipliers(self, sides: list[tuple[int, int]]) -> Array:
        """The duals of max sign·x_i for each side (i, sign), as one program of n blocks: (n, m)."""
        goals = np.zeros((len(sides), len(self.scale)))
        for goal, (i, sign) in zip(goals, sides, strict=True):
            goal[i] = sign * self.scale[i]
        sizes = np.abs(goals).max(1, keepdims=True)
        return self._duals(goals / sizes, self.rows, self.ends) * sizes

    def conflict(self) -> Array:
        """The dual of max t with A x + t ≤ b: where t < 0 it sums rows to one that no x in Ω meets: (m,)."""
        goals = np.append(np.zeros(len(self.scale)), 1.0)[None]
        rows = np.column_stack([self.rows, np.ones(len(self.rows))])
        return self._duals(goals, rows, np.append(self.ends, [[-np.inf, 1.0]], 0))[0]

    def _duals(self, goals: Array, rows: Array, ends: Array) -> Array:
        n, m = len(goals), len(rows)
        blocks = sparse.kron(sparse.eye_array(n), rows, format="csr")
        found = linprog(
            -goals.ravel(), blocks, np.tile(self.limits, n), bounds=np.tile(ends, (n, 1)), method="highs-ds"
        )
        if found.status != 0:
            return np.zeros((n, m))
        with np.errstate(all="ignore"):
            return -found.ineqlin.marginals.reshape(n, m) / self.units


def _cancelling(residual: Exact, normals: list[Exact], y: Exact, where: list[int]) -> Exact:
    """Multipliers y + s with Σ_j s_j a_ji = r_i for i in ``where``; y itself where one would turn negative.

    Gauss-Jordan in rationals; multipliers off the pivots stay.
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


def _finite_shift(x: float, c: Fraction) -> Fraction | None:
    return Fraction(x) - c if math.isfinite(x) else None


def _up(x: Fraction | None) -> float:
    """The smallest float at or above x; inf for None."""
    if x is None:
        return math.inf
    nearest = float(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def _domains(points: Array, low: Tensor, high: Tensor) -> tuple[Array, Array]:
    """Ω for every cell, (K, d), checked."""
    ends: list[Array] = []
    for name, side in (("low", low), ("high", high)):
        if tuple(side.shape) not in (points.shape, points.shape[1:]):
            shapes = f"{points.shape[1:]} or {points.shape}"
            raise ValueError(f"{name} must have shape {shapes}, got {tuple(side.shape)}")
        ends.append(np.broadcast_to(side.detach().double().cpu().numpy(), points.shape))
    for k, i in np.argwhere(~(ends[0] < ends[1])):
        side = f"[{ends[0][k, i]}, {ends[1][k, i]}]"
        raise ValueError(f"cell {k}, variable {i}: the domain side {side} is empty; give low < high")
    return ends[0], ends[1]
