"""Leaf families: each a small class that answers questions about one variable and never sees a circuit."""

from __future__ import annotations

from difflib import get_close_matches

from voronoi_circuits.circuits.leaves.base import Leaf, UnanswerableQuestion
from voronoi_circuits.circuits.leaves.categorical import Categorical
from voronoi_circuits.circuits.leaves.gaussian import Gaussian
from voronoi_circuits.circuits.leaves.histogram import Histogram

FAMILIES: dict[str, type[Leaf]] = {leaf.family: leaf for leaf in (Gaussian, Categorical, Histogram)}
"""Every leaf family by its name."""


def leaf_family(name: str) -> type[Leaf]:
    """The leaf family of that name.

    >>> leaf_family("gaussian").__name__
    'Gaussian'
    >>> leaf_family("gausian")
    Traceback (most recent call last):
    ValueError: there is no leaf family 'gausian': did you mean 'gaussian'?
    """
    if name in FAMILIES:
        return FAMILIES[name]
    close = get_close_matches(name, FAMILIES, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"take one of {', '.join(map(repr, FAMILIES))}"
    raise ValueError(f"there is no leaf family {name!r}: {hint}")


__all__ = ["FAMILIES", "Categorical", "Gaussian", "Histogram", "Leaf", "UnanswerableQuestion", "leaf_family"]
