"""The paper's four sets in space: a curve at t ~ U(-π, π), times 4, plus N(0, 0.01² I).

This is the curves' own noise; every set gets another of the same size afterwards. Where a set has two
circles, each gets half of the rows (the first one more when n is odd).
"""

# n rows

import numpy as np
from numpy.typing import NDArray

from voronoi_circuits.datasets.planar import equal_parts

FloatArray = NDArray[np.float64]

SCALE, CURVE_NOISE = 4.0, 0.01


def scaled_and_noised(x: FloatArray, y: FloatArray, z: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Coordinates (n,) each -> rows (n, 3): 4 (x, y, z) + N(0, 0.01² I).

    >>> one = np.ones(2)
    >>> scaled_and_noised(one, one, one, np.random.default_rng(0)).round(0)
    array([[4., 4., 4.],
           [4., 4., 4.]])
    """
    return SCALE * np.stack([x, y, z], axis=1) + rng.normal(0.0, CURVE_NOISE, (len(x), 3))


def bent_lissajous(n: int, rng: np.random.Generator) -> FloatArray:
    """(sin 2t, cos t, cos 2t).

    >>> bent_lissajous(3, np.random.default_rng(0)).shape
    (3, 3)
    """
    t = rng.uniform(-np.pi, np.pi, n)
    return scaled_and_noised(np.sin(2 * t), np.cos(t), np.cos(2 * t), rng)


def interlocked_circles(n: int, rng: np.random.Generator) -> FloatArray:
    """(sin t, cos t, 0) and (1 + sin t, 0, cos t): each passes through the other's centre.

    >>> interlocked_circles(3, np.random.default_rng(0)).shape
    (3, 3)
    """
    return two_circles(n, rng, shift=1.0)


def knotted(n: int, rng: np.random.Generator) -> FloatArray:
    """The trefoil knot (sin t + 2 sin 2t, cos t - 2 cos 2t, sin 3t).

    >>> knotted(3, np.random.default_rng(0)).shape
    (3, 3)
    """
    t = rng.uniform(-np.pi, np.pi, n)
    return scaled_and_noised(np.sin(t) + 2 * np.sin(2 * t), np.cos(t) - 2 * np.cos(2 * t), np.sin(3 * t), rng)


def twisted_eight(n: int, rng: np.random.Generator) -> FloatArray:
    """(sin t, cos t, 0) and (2 + sin t, 0, cos t): they touch at (1, 0, 0).

    >>> twisted_eight(3, np.random.default_rng(0)).shape
    (3, 3)
    """
    return two_circles(n, rng, shift=2.0)


def two_circles(n: int, rng: np.random.Generator, shift: float) -> FloatArray:
    """Half of the rows on (sin t, cos t, 0), half on (shift + sin t, 0, cos t).

    >>> two_circles(3, np.random.default_rng(0), shift=2.0).shape
    (3, 3)
    """
    t = rng.uniform(-np.pi, np.pi, n)
    first = equal_parts(n, 2, rng) == 0
    x = np.where(first, 0.0, shift) + np.sin(t)
    return scaled_and_noised(x, np.where(first, np.cos(t), 0.0), np.where(first, 0.0, np.cos(t)), rng)
