"""The columns that an estimator was fitted on: their names, their scale, and how questions name them.

# B rows, D columns; z are standardised units
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from voronoi_circuits.geometry.boxes import Box
from voronoi_circuits.tables.frames import (
    Kind,
    Rows,
    check_finite,
    check_names,
    column_label,
    read_rows,
    to_container,
)
from voronoi_circuits.tables.standard import StandardTransform

FloatArray = NDArray[np.float64]
Column = str | int
WHERE = "VoronoiDensity"
ULP = 2.0**-52


@dataclass(frozen=True, eq=False)
class Columns:
    """Names, container and scale of D columns.

    >>> columns = Columns(("a", "b"), "numpy", StandardTransform(np.zeros(2), np.array([1.0, 2.0])))
    >>> columns.evidence({"b": 4.0}).tolist(), columns.positions(["b", 0], "given")
    ([nan, 2.0], [1, 0])
    """

    names: tuple[str, ...] | None
    kind: Kind
    transform: StandardTransform

    @property
    def count(self) -> int:
        """D."""
        return len(self.transform.mean)

    def read(self, X: Any, *, allow_missing: bool) -> Tensor:
        """Rows (B, D) in z, float64; refused unless their columns are those of fit."""
        rows = read_table(X, names=self.names, width=self.count, allow_missing=allow_missing)
        return self.forward(rows.values)

    def forward(self, values: FloatArray) -> Tensor:
        """Data units -> z."""
        return torch.from_numpy(self.transform.forward(values))

    def unscaled(self, columns: list[int]) -> Columns:
        """The same, with these columns in the units of the data: codes stay codes."""
        mean, deviation = self.transform.mean.copy(), self.transform.deviation.copy()
        mean[columns], deviation[columns] = 0.0, 1.0
        return replace(self, transform=StandardTransform(mean, deviation))

    def container(self, z: Tensor, given: Mapping[Column, float] | None) -> Any:
        """z -> rows in data units, in the container that was fitted; given values are as they were given."""
        values = self.transform.inverse(z.numpy())
        for position, value in self._given(given):
            values[:, position] = value
        return to_container(values, Rows(values, self.names, self.kind))

    def log_jacobian(self, z: Tensor) -> Tensor:
        """log |dz/dx| over the columns of each row that are not NaN, (B,)."""
        return torch.from_numpy(self.transform.log_jacobian(z.numpy()))

    def jacobian_rounding(self, z: Tensor) -> Tensor:
        """How far ``log_jacobian`` may be off, (B,): an ulp of every logarithm, and one for every addition.

        It is (D + 2) ulp Σ |log deviation|: the terms may cancel in the sum, their rounding does not.
        """
        size = np.where(np.isnan(z.numpy()), 0.0, np.abs(np.log(self.transform.deviation))).sum(axis=1)
        return torch.from_numpy((self.count + 2) * ULP * size)

    def label(self, position: int) -> str:
        """How messages call a column."""
        return column_label(self.names, position)

    def position(self, column: Column, parameter: str) -> int:
        """The position of a column given by name or position; ``parameter`` is where it was given."""
        if isinstance(column, str):
            if column in (names := self.names or ()):
                return names.index(column)
            near = get_close_matches(column, names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the columns are {self._listed()}"
            raise ValueError(f"{parameter}: there is no column {column!r}; {hint}")
        if isinstance(column, bool) or not isinstance(column, numbers.Integral):
            raise ValueError(f"{parameter}: there is no column {column!r}; give a name or a position")
        position = int(column)
        if not 0 <= position < self.count:
            raise ValueError(
                f"{parameter}: there is no column {column}; columns go from 0 to {self.count - 1}"
            )
        return position

    def positions(self, columns: object, parameter: str) -> list[int]:
        """The positions of several columns, each named once."""
        if not isinstance(columns, Iterable):
            raise ValueError(f"{parameter} must be a list of columns, by name or position, not {columns!r}")
        given = [columns] if isinstance(columns, str) else list(cast("Iterable[Column]", columns))
        found = [self.position(column, parameter) for column in given]
        twice = next((column for column in found if found.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"{parameter} names column {self.label(twice)} twice; name each column once")
        return found

    def evidence(self, given: Mapping[Column, float] | None) -> Tensor:
        """Given values as one row (D,) in z, NaN where nothing is given."""
        row = np.full((1, self.count), np.nan)
        for position, value in self._given(given):
            row[0, position] = value
        return self.forward(row)[0]

    def box(self, box: Mapping[Column, tuple[float, float]]) -> Box:
        """Intervals in data units as a box in z, open where nothing is said."""
        sides = np.array([np.full(self.count, -np.inf), np.full(self.count, np.inf)])
        for position, interval in self._entries(box, "box", "(low, high)"):
            sides[:, position] = self._interval(position, interval)
        low, high = self.forward(sides)
        return Box(low, high)

    def _given(self, given: Mapping[Column, float] | None) -> Iterator[tuple[int, float]]:
        """Positions and their values."""
        for position, value in () if given is None else self._entries(given, "given", "value"):
            if (plain := number(value)) is None:
                raise ValueError(f"given: give one number: column {self.label(position)} has {value!r}")
            if not math.isfinite(plain):
                raise ValueError(
                    f"given: the value of column {self.label(position)} is {plain}; give a finite number, or "
                    "leave it out"
                )
            yield position, plain

    def _interval(self, position: int, interval: Any) -> tuple[float, float]:
        """An interval's two ends."""
        ends = [number(end) for end in interval] if isinstance(interval, Iterable) else []
        match ends:
            case [float(low), float(high)] if low <= high:
                return low, high
            case [float(low), float(high)]:
                raise ValueError(
                    f"box: the interval of column {self.label(position)} is empty: ({low}, {high}); "
                    "low end first"
                )
            case _:
                raise ValueError(
                    f"box: give (low, high) for column {self.label(position)}, two numbers, not {interval!r}"
                )

    def _entries(self, entries: Any, parameter: str, entry: str) -> Iterable[tuple[int, Any]]:
        """Positions and entries of a mapping by column."""
        if not isinstance(entries, Mapping):
            raise ValueError(f"{parameter} must be {{column: {entry}}}, not {entries!r}")
        asked = cast("Mapping[Column, Any]", entries)
        return zip(self.positions(asked, parameter), asked.values(), strict=True)

    def _listed(self) -> str:
        if self.names is None:
            return f"unnamed, 0 to {self.count - 1}"
        shown = ", ".join(map(repr, self.names[:8]))
        return shown if len(self.names) <= 8 else f"{shown}, ..."


def number(value: object) -> float | None:
    """The value as a float if it is one number: no truth value, text or table.

    >>> number(np.float32(2)), number(torch.tensor(1)), number(True), number((0, 1))
    (2.0, 1.0, None, None)
    """
    plain: object = value.item() if isinstance(value, Tensor | np.ndarray) and value.ndim == 0 else value
    return None if isinstance(plain, bool) or not isinstance(plain, numbers.Real) else float(plain)


def read_table(
    X: Any, *, names: tuple[str, ...] | None = None, width: int | None = None, allow_missing: bool
) -> Rows:
    """Rows from any container, or from ``Rows``, which is how named columns come from a file."""
    if not isinstance(X, Rows):
        return read_rows(X, columns=names, width=width, allow_missing=allow_missing, where=WHERE)
    if X.columns is not None and names is not None:
        check_names(X.columns, names)
    check_finite(X.values, X.columns, allow_missing, WHERE)
    rows = read_rows(X.values, width=width, allow_missing=allow_missing, where=WHERE)
    return replace(rows, columns=X.columns, kind=X.kind)
