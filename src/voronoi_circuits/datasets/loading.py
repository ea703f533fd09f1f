"""Datasets by name."""

# n rows, d columns

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from voronoi_circuits.datasets.dataset import Dataset, standardised
from voronoi_circuits.datasets.planar import alphabet, checkerboard, pinwheel, spiral
from voronoi_circuits.datasets.spatial import bent_lissajous, interlocked_circles, knotted, twisted_eight

SETS: dict[str, Callable[..., NDArray[np.float64]]] = {
    draw.__name__: draw
    for draw in (
        alphabet,
        checkerboard,
        pinwheel,
        spiral,
        bent_lissajous,
        interlocked_circles,
        knotted,
        twisted_eight,
    )
}

NOISE = 0.01


def available() -> tuple[str, ...]:
    """The names that `load` takes, the sets in the plane first.

    >>> available()[:4]
    ('alphabet', 'checkerboard', 'pinwheel', 'spiral')
    """
    return tuple(SETS)


def load(
    name: str, *, seed: int = 0, n: tuple[int, int, int] = (10_000, 5_000, 5_000), **options: object
) -> Dataset:
    """One of the paper's synthetic sets, by the protocol of its appendix.

    Rows are drawn from the set's own structure, get noise N(0, 0.01² I), are standardised over all rows, and
    split into `n` rows for training, validation and test. Names are read without regard to case, hyphens,
    underscores or spaces ("BentLissajous" is "bent_lissajous"). Options: `letters` of "alphabet", `arc` of
    "spiral".

    >>> data = load("Pinwheel", seed=0, n=(100, 50, 50))
    >>> data.name, data.columns, data.train.shape, data.train.dtype
    ('pinwheel', ('x', 'y'), (100, 2), dtype('float32'))
    """
    name = known_name(name)
    draw = SETS[name]
    check_options(name, draw, options)
    check_numbers(n, seed)
    rng = np.random.default_rng(seed)
    rows = draw(sum(n), rng, **options)
    rows = rows + rng.normal(0.0, NOISE, rows.shape)
    return standardised(name, ("x", "y", "z")[: rows.shape[1]], rows, n)


def known_name(name: object) -> str:
    """The name as `available` spells it.

    >>> known_name("twisted-eight")
    'twisted_eight'
    """
    if not isinstance(name, str):
        raise ValueError(f"name: pass the name of a dataset, such as 'pinwheel'; got {name!r}")
    plain = {key.replace("_", ""): key for key in SETS}
    asked = "".join(letter for letter in name.lower() if letter.isalnum())
    if asked not in plain:
        nearest = plain[get_close_matches(asked, plain, n=1, cutoff=0.0)[0]]
        raise ValueError(
            f"there is no dataset {name!r}; the nearest name is {nearest!r}. Available: {', '.join(SETS)}"
        )
    return plain[asked]


def check_numbers(n: object, seed: object) -> None:
    """Refuse sizes and seeds that nothing can be drawn by.

    >>> check_numbers((100, 50, 50), 0)
    """
    sizes = list[object](n) if isinstance(n, Iterable) else []
    if len(sizes) != 3 or not all(is_whole(size, 1) for size in sizes):
        raise ValueError(f"n: pass three positive sizes (train, validation, test); got {n!r}")
    if not is_whole(seed, 0):
        raise ValueError(f"seed: pass a non-negative whole number; got {seed!r}")


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, Python's or numpy's, of at least `least`.

    >>> is_whole(np.int64(1), 1), is_whole(1.5, 1), is_whole("a", 1)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least


def check_options(name: str, draw: Callable[..., NDArray[np.float64]], options: dict[str, object]) -> None:
    """Refuse an option that this set does not take.

    >>> check_options("spiral", spiral, {"arc": "usual"})
    """
    parameters = inspect.signature(draw).parameters.values()
    own = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for option in options:
        if option not in own:
            raise ValueError(
                f"dataset {name!r} has no option {option!r}; it takes {', '.join(['seed', 'n', *own])}"
            )
