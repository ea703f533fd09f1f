"""Each set has the shape that the paper's appendix describes, in its own units."""

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import cKDTree

from voronoi_circuits.datasets import load
from voronoi_circuits.datasets.font import LETTERS, active_pixels
from voronoi_circuits.datasets.planar import alphabet, checkerboard, pinwheel, spiral

T = np.linspace(-np.pi, np.pi, 40_001)
ZERO = np.zeros_like(T)
CIRCLE = np.stack([np.sin(T), np.cos(T), ZERO], axis=1)


def upright_circle(shift: float) -> np.ndarray:
    return np.stack([shift + np.sin(T), ZERO, np.cos(T)], axis=1)


CURVES = {
    "bent_lissajous": [np.stack([np.sin(2 * T), np.cos(T), np.cos(2 * T)], axis=1)],
    "interlocked_circles": [CIRCLE, upright_circle(1.0)],
    "knotted": [
        np.stack([np.sin(T) + 2 * np.sin(2 * T), np.cos(T) - 2 * np.cos(2 * T), np.sin(3 * T)], axis=1)
    ],
    "twisted_eight": [CIRCLE, upright_circle(2.0)],
}


def raw(name: str, **options: object) -> np.ndarray:
    """All 20,000 rows in the set's own units."""
    data = load(name, **options)
    return data.unstandardise(np.concatenate([data.train, data.val, data.test]))


@pytest.mark.parametrize("name", CURVES)
def test_curves_in_space(name: str) -> None:
    rows = raw(name)
    trees = [cKDTree(4 * curve) for curve in CURVES[name]]
    distances = np.stack([tree.query(rows, distance_upper_bound=0.5)[0] for tree in trees])
    nearest = distances.min(axis=0)
    # two noises of deviation 0.01 leave a distance of sqrt(2) 0.01 sqrt(chi²_2) from a smooth curve: Rayleigh
    assert nearest.max() < 0.01 * np.sqrt(2) * 6
    np.testing.assert_allclose(nearest.mean(), 0.01 * np.sqrt(2) * np.sqrt(np.pi / 2), rtol=0.05)
    # and every part of the curve is visited
    assert max(cKDTree(rows).query(4 * curve[::100])[0].max() for curve in CURVES[name]) < 0.2


@pytest.mark.parametrize("name", ["interlocked_circles", "twisted_eight"])
def test_circles_are_half_and_half(name: str) -> None:
    rows = raw(name)
    trees = [cKDTree(4 * curve) for curve in CURVES[name]]
    first, second = (tree.query(rows, distance_upper_bound=0.5)[0] for tree in trees)  # inf: beyond 0.5
    assert (
        abs((first < second).sum() - 10_000) <= 60
    )  # rows near the point where the circles touch may go either way


@pytest.mark.parametrize("arc, longest", [("literal", np.sqrt(2 * np.pi) * 2 * np.pi), ("usual", 2 * np.pi)])
def test_spiral_arms(arc: str, longest: float) -> None:
    rows = raw("spiral", arc=arc)
    theta = np.linspace(0.0, longest, 40_001)
    arm = 2 * theta[:, None] * np.stack([np.cos(theta), np.sin(theta)], axis=1)
    distance, index = cKDTree(np.concatenate([arm, -arm])).query(rows)
    assert distance.max() < 6 * np.hypot(0.1, 0.01)
    np.testing.assert_allclose(np.hypot(*rows.T).max(), 2 * longest, atol=0.5)
    # theta = 2π √t with t uniform up to (longest / 2π)²: (theta / longest)² is uniform
    uniform = (theta[index % theta.size] / longest) ** 2
    assert stats.kstest(uniform, "uniform").statistic < 0.02
    assert abs((index < theta.size).sum() - 10_000) < 100


def test_spiral_refuses_another_arc() -> None:
    with pytest.raises(ValueError, match=r"arc: pass 'literal' .* or 'usual' .*; got 'usal'"):
        load("spiral", arc="usal")


def test_checkerboard_squares_and_their_atoms() -> None:
    rows = checkerboard(90_000, np.random.default_rng(1))
    centre = 1.5 * np.round(rows / 1.5)
    offset = rows - centre
    assert np.abs(offset).max() <= 0.6 + 1e-12
    _, counts = np.unique(centre, axis=0, return_counts=True)
    np.testing.assert_array_equal(counts, 10_000)
    # P(U + 0.15 Z >= 0.6), U uniform on ±0.6, is E[(0.15 Z)+] / 1.2 (the far edge is 8 deviations away)
    atom = 0.15 / np.sqrt(2 * np.pi) / 1.2
    for column in offset.T:
        for edge in (-0.6, 0.6):
            hits = int(np.isclose(column, edge, rtol=0, atol=1e-12).sum())
            assert stats.binomtest(hits, 90_000, atom).pvalue > 1e-4


def test_checkerboard_atoms_are_blurred_by_the_last_noise() -> None:
    rows = raw("checkerboard")
    offset = np.abs(rows - 1.5 * np.round(rows / 1.5))
    assert 0.6 + 0.02 < offset.max() < 0.6 + 0.06
    beyond = (offset > 0.6).mean()
    # half of the two edges' atoms ends up outside, and a few rows that lay next to an edge
    np.testing.assert_allclose(beyond, 0.15 / np.sqrt(2 * np.pi) / 1.2, rtol=0.15)


def test_pinwheel_arms() -> None:
    rows = pinwheel(100_000, np.random.default_rng(2))
    angle = np.arctan2(rows[:, 1], rows[:, 0])
    arm = np.round(angle / (2 * np.pi / 5)).astype(int) % 5
    np.testing.assert_allclose(np.bincount(arm), 20_000, rtol=0.02)
    swing = np.angle(np.exp(1j * (angle - 2 * np.pi * arm / 5)))
    radius = np.hypot(*rows.T)
    assert stats.kstest(radius, stats.norm(1.0, 0.3).cdf).statistic < 0.006
    np.testing.assert_allclose(swing.std(), 0.2, rtol=0.02)
    assert abs(np.corrcoef(swing, radius)[0, 1]) < 0.02


def test_planar_noise_is_added_once_by_the_protocol() -> None:
    """The letter I is a bar one pixel wide in the middle: beyond its sides lies the noise of 0.01 alone."""
    rows = raw("alphabet", letters="I")
    bar = rows[(rows[:, 1] > 0.3) & (rows[:, 1] < 1.1), 0]
    outside = np.concatenate([bar[bar > 0.6] - 0.6, 0.4 - bar[bar < 0.4]])
    # uniform on a side of 0.2 with noise s: the share outside is 2 s / (0.2 sqrt(2π))
    share = 2 * 0.01 / (0.2 * np.sqrt(2 * np.pi))
    assert stats.binomtest(outside.size, bar.size, share).pvalue > 1e-4
    assert outside.max() < 0.06


def test_font_has_26_distinct_letters_of_7_by_5() -> None:
    assert "".join(LETTERS) == "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
    assert len(set(LETTERS.values())) == 26
    for grid in LETTERS.values():
        assert [len(line) for line in grid.split()] == [5] * 7
        assert set(grid) <= {"#", ".", " "}
        assert 7 <= grid.count("#") <= 25


@pytest.mark.parametrize("letter", list("AHIMOTUVWXY"))
def test_symmetric_letters_are_symmetric(letter: str) -> None:
    pixels = {tuple(pixel) for pixel in active_pixels(letter)}
    assert pixels == {(4 - column, row) for column, row in pixels}


def test_alphabet_is_uniform_on_the_pixels() -> None:
    rows = alphabet(50_000, np.random.default_rng(3), letters="f")
    cells = np.floor(rows / 0.2).astype(int)
    found, counts = np.unique(cells, axis=0, return_counts=True)
    assert {tuple(cell) for cell in found} == {tuple(pixel) for pixel in active_pixels("F")}
    assert stats.chisquare(counts).pvalue > 1e-4
    within = rows / 0.2 - cells
    assert stats.kstest(within.ravel(), "uniform").pvalue > 1e-4


def test_a_word_is_laid_out_in_reading_order() -> None:
    rows = alphabet(60_000, np.random.default_rng(4), letters="LIT")  # two columns: L I over T
    corner = {"L": (0.0, 0.0), "I": (1.4, 0.0), "T": (0.0, -1.8)}
    pixels = {
        letter: {(round(x + 0.2 * j, 6), round(y + 0.2 * i, 6)) for j, i in active_pixels(letter)}
        for letter, (x, y) in corner.items()
    }
    found = {tuple(np.round(0.2 * cell, 6)) for cell in np.unique(np.floor(rows / 0.2 + 1e-9), axis=0)}
    assert found == set().union(*pixels.values())


@pytest.mark.parametrize(
    "letters, named", [("", "empty"), ("W3", "'3' in 'W3'"), ("a b", "' ' in 'a b'"), ("É", "'É'")]
)
def test_bad_letters_are_named(letters: str, named: str) -> None:
    with pytest.raises(ValueError, match=f"letters: pass one or more of the letters A to Z, .*{named}"):
        load("alphabet", letters=letters)


def test_spiral_signs_are_opposite() -> None:
    rows = spiral(1000, np.random.default_rng(5))
    assert abs((rows[:, 0] > 0).mean() - 0.5) < 0.1
