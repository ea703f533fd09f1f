"""The protocol that all eight sets share: sizes, moments, seeds, names, options."""

import time

import numpy as np
import pytest

from voronoi_circuits.datasets import Dataset, available, load

SMALL = (400, 200, 200)
PLANE = ("alphabet", "checkerboard", "pinwheel", "spiral")
SPACE = ("bent_lissajous", "interlocked_circles", "knotted", "twisted_eight")


def whole(data: Dataset) -> np.ndarray:
    return np.concatenate([data.train, data.val, data.test]).astype(np.float64)


def test_available_are_the_papers_eight() -> None:
    assert available() == PLANE + SPACE


@pytest.mark.parametrize("name", PLANE + SPACE)
def test_shapes_and_moments_of_the_papers_sizes(name: str) -> None:
    data = load(name)
    d = 2 if name in PLANE else 3
    assert (data.train.shape, data.val.shape, data.test.shape) == ((10_000, d), (5_000, d), (5_000, d))
    assert data.train.dtype == data.val.dtype == data.test.dtype == np.float32
    assert data.name == name
    assert data.columns == ("x", "y", "z")[:d]
    # standardised over all rows before the split: the whole is exact, a split only nearly so
    np.testing.assert_allclose(whole(data).mean(axis=0), 0.0, atol=1e-6)
    np.testing.assert_allclose(whole(data).std(axis=0), 1.0, atol=1e-6)
    assert 1e-5 < np.abs(data.train.mean(axis=0, dtype=np.float64)).max() < 0.05
    for split in (data.train, data.val, data.test):
        np.testing.assert_allclose(split.std(axis=0), 1.0, atol=0.05)


@pytest.mark.parametrize("name", PLANE + SPACE)
def test_one_seed_one_dataset(name: str) -> None:
    first, again, other = (
        load(name, seed=3, n=SMALL),
        load(name, seed=3, n=SMALL),
        load(name, seed=4, n=SMALL),
    )
    np.testing.assert_array_equal(whole(first), whole(again))
    np.testing.assert_array_equal(first.mean, again.mean)
    assert np.abs(whole(first) - whole(other)).max() > 0.1


@pytest.mark.parametrize("name", PLANE + SPACE)
def test_no_row_comes_twice_and_splits_are_alike(name: str) -> None:
    data = load(name)
    assert len(np.unique(data.unstandardise(whole(data)), axis=0)) == 20_000
    # two-sample Kolmogorov-Smirnov of train against test, each column: 1.95 is the 0.1% point
    for a, b in zip(data.train.T, data.test.T, strict=True):
        at = np.concatenate([a, b])
        gap = np.abs(
            np.searchsorted(np.sort(a), at, "right") / a.size
            - np.searchsorted(np.sort(b), at, "right") / b.size
        )
        assert gap.max() < 1.95 * np.sqrt(1 / a.size + 1 / b.size)


@pytest.mark.parametrize("spelling", ["BentLissajous", "bent-lissajous", "Bent Lissajous", "BENT_LISSAJOUS"])
def test_spellings(spelling: str) -> None:
    assert load(spelling, n=SMALL).name == "bent_lissajous"


@pytest.mark.parametrize(
    "asked, nearest",
    [
        ("pinwhel", "pinwheel"),
        ("Checkersboard", "checkerboard"),
        ("interlocked", "interlocked_circles"),
        ("knot", "knotted"),
    ],
)
def test_unknown_name_says_the_nearest_and_all(asked: str, nearest: str) -> None:
    with pytest.raises(ValueError, match=f"no dataset '{asked}'; the nearest name is '{nearest}'") as error:
        load(asked)
    assert all(name in str(error.value) for name in available())


@pytest.mark.parametrize("name", [None, 3, b"spiral"])
def test_a_name_that_is_no_text_is_refused(name: object) -> None:
    with pytest.raises(ValueError, match="name: pass the name of a dataset, such as 'pinwheel'; got"):
        load(name)


def test_options_of_another_type_are_refused() -> None:
    for letters in (3, None, ["W"]):
        with pytest.raises(ValueError, match="letters: pass one or more of the letters A to Z"):
            load("alphabet", letters=letters)
    for arc in (3, ["usual"]):
        with pytest.raises(ValueError, match="arc: pass 'literal'"):
            load("spiral", arc=arc)


def test_empty_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no dataset ''"):
        load("")


def test_unknown_option_is_named() -> None:
    with pytest.raises(ValueError, match=r"'pinwheel' has no option 'letters'; it takes seed, n$"):
        load("pinwheel", letters="A")
    with pytest.raises(ValueError, match=r"'spiral' has no option 'arcs'; it takes seed, n, arc$"):
        load("spiral", arcs="usual")


@pytest.mark.parametrize("n", [(10, 0, 5), (10, 5), (-1, 5, 5), 5, None, "abc", (1.5, 1, 1), (True, 1, 1)])
def test_bad_sizes_are_refused(n: object) -> None:
    with pytest.raises(ValueError, match="n: pass three positive sizes"):
        load("spiral", n=n)


@pytest.mark.parametrize("seed", [-1, 1.5, "a", None])
def test_bad_seed_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match=f"seed: pass a non-negative whole number; got {seed!r}"):
        load("spiral", seed=seed)


def test_numpys_numbers_are_numbers() -> None:
    first, again = load("spiral", seed=3, n=SMALL), load("spiral", seed=np.int64(3), n=np.array(SMALL))
    np.testing.assert_array_equal(whole(first), whole(again))


def test_standardisation_is_undone() -> None:
    data = load("bent_lissajous")
    raw = data.unstandardise(whole(data))
    np.testing.assert_allclose(raw.mean(axis=0), data.mean, atol=1e-5)
    np.testing.assert_allclose(raw.std(axis=0), data.deviation, rtol=1e-5)
    # every coordinate is 4 sin or 4 cos of a uniform angle: mean 0, deviation 4 / sqrt(2)
    np.testing.assert_allclose(data.deviation, 4 / np.sqrt(2), rtol=0.02)
    np.testing.assert_allclose(data.mean, 0.0, atol=0.1)


def test_all_eight_load_quickly() -> None:
    start = time.process_time()
    for name in available():
        load(name)
    assert time.process_time() - start < 2.0
