"""The paper's four sets in the plane, before the noise that every set gets.

Each function draws n rows (n, 2) in random order; where a set has several parts (clusters, arms, spirals),
each part gets the same number of rows, give or take one.
"""

# n rows

import numpy as np
from numpy.typing import NDArray

from voronoi_circuits.datasets.font import COLUMNS, LETTERS, ROWS, active_pixels

FloatArray = NDArray[np.float64]

CELL, LETTER_GAP = 0.2, 0.4
HALF_SIDE, CLUSTER_NOISE = 0.6, 0.15
SPIRAL_NOISE = 0.1


def equal_parts(n: int, parts: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A part 0, ..., parts - 1 for each of n rows, in random order, each part equally often.

    >>> np.bincount(equal_parts(9, 2, np.random.default_rng(0)))
    array([5, 4])
    """
    return rng.permutation(np.arange(n) % parts)


def alphabet(n: int, rng: np.random.Generator, *, letters: str = "W") -> FloatArray:
    """Uniform on the active pixels of 7 x 5 letters: squares of side 0.2, letters 0.4 apart.

    Several letters are laid out in reading order on a grid of ceil(sqrt(len(letters))) columns.

    >>> alphabet(3, np.random.default_rng(0), letters="PC").shape
    (3, 2)
    """
    word = checked_word(letters)
    across = int(np.ceil(np.sqrt(len(word))))
    step = np.array([COLUMNS * CELL + LETTER_GAP, -(ROWS * CELL + LETTER_GAP)])
    pixels = np.concatenate(
        [step * (i % across, i // across) + CELL * active_pixels(letter) for i, letter in enumerate(word)]
    )
    return pixels[rng.integers(len(pixels), size=n)] + CELL * rng.random((n, 2))


def checked_word(letters: object) -> str:
    """The letters as capitals, refused where they are not text of A to Z.

    >>> checked_word("Pc")
    'PC'
    """
    word = letters.upper() if isinstance(letters, str) else ""
    unknown = sorted(set(word) - LETTERS.keys())
    if not word or unknown:
        empty = "an empty string" if letters == "" else repr(letters)
        found = f"{', '.join(map(repr, unknown))} in {letters!r}" if unknown else empty
        raise ValueError(f"letters: pass one or more of the letters A to Z, such as 'W'; got {found}")
    return word


def checkerboard(n: int, rng: np.random.Generator) -> FloatArray:
    """Nine squares c ± 0.6, c in {-1.5, 0, 1.5}²: uniform, plus N(0, 0.15² I), clipped to the square.

    Clipping puts atoms on the edges of the squares.

    >>> float(abs(checkerboard(100, np.random.default_rng(0))).max())
    2.1
    """
    grid = np.array([-1.5, 0.0, 1.5])
    part = equal_parts(n, 9, rng)
    centre = np.stack([grid[part % 3], grid[part // 3]], axis=1)
    offset = rng.uniform(-HALF_SIDE, HALF_SIDE, (n, 2)) + rng.normal(0.0, CLUSTER_NOISE, (n, 2))
    return centre + np.clip(offset, -HALF_SIDE, HALF_SIDE)


def pinwheel(n: int, rng: np.random.Generator) -> FloatArray:
    """Five arms: r (cos(2πk/5 + δ), sin(2πk/5 + δ)) with r ~ N(1, 0.3²) and δ ~ N(0, 0.2²).

    >>> pinwheel(3, np.random.default_rng(0)).shape
    (3, 2)
    """
    angle = 2 * np.pi * equal_parts(n, 5, rng) / 5 + rng.normal(0.0, 0.2, n)
    radius = rng.normal(1.0, 0.3, n)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)


def spiral(n: int, rng: np.random.Generator, *, arc: str = "literal") -> FloatArray:
    """Two Archimedean spirals ±(r cos θ, r sin θ), r = 2θ, plus N(0, 0.1² I).

    `arc="literal"`, the paper's text: θ = √t · 2π with t ~ U(0, 2π), two and a half turns (θ up to 15.7).
    `arc="usual"`: θ = √t · 2π with t ~ U(0, 1), one turn.

    >>> spiral(3, np.random.default_rng(0), arc="usual").shape
    (3, 2)
    """
    longest = {"literal": 2 * np.pi, "usual": 1.0}
    if arc not in list(longest):
        raise ValueError(f"arc: pass 'literal' (the paper's text) or 'usual' (one turn); got {arc!r}")
    theta = np.sqrt(rng.uniform(0.0, longest[arc], n)) * 2 * np.pi
    radius = np.where(equal_parts(n, 2, rng) == 0, 1.0, -1.0) * 2 * theta
    curve = np.stack([radius * np.cos(theta), radius * np.sin(theta)], axis=1)
    return curve + rng.normal(0.0, SPIRAL_NOISE, (n, 2))
