"""The columns that an estimator was fitted on: their names, their scale, and how questions name them.

# B rows, D columns; z are standardised units
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from voronoi_circuits.geometry.boxes import Box
from voronoi_circuits.tables.frames import Kind, Rows, check_names, column_label, read_rows, to_container
from voronoi_circuits.tables.standard import StandardTransform

FloatArray = NDArray[np.float64]
Column = str | int
WHERE = "VoronoiDensity"


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

    def container(self, z: Tensor, given: Mapping[Column, float]) -> Any:
        """z -> rows in data units, in the container that was fitted; given values are as they were given."""
        values = self.transform.inverse(z.numpy())
        for column, value in given.items():
            values[:, self.position(column, "given")] = value
        return to_container(values, Rows(values, self.names, self.kind))

    def log_jacobian(self, z: Tensor) -> Tensor:
        """log |dz/dx| over the columns of each row that are not NaN, (B,)."""
        return torch.from_numpy(self.transform.log_jacobian(z.numpy()))

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
        position = operator.index(column)
        if not 0 <= position < self.count:
            raise ValueError(
                f"{parameter}: there is no column {column}; columns go from 0 to {self.count - 1}"
            )
        return position

    def positions(self, columns: Iterable[Column], parameter: str) -> list[int]:
        """The positions of several columns, each named once."""
        given = [columns] if isinstance(columns, str) else list(columns)
        found = [self.position(column, parameter) for column in given]
        twice = next((column for column in found if found.count(column) > 1), None)
        if twice is not None:
            raise ValueError(f"{parameter} names column {self.label(twice)} twice; name each column once")
        return found

    def evidence(self, given: Mapping[Column, float] | None) -> Tensor:
        """Given values as one row (D,) in z, NaN where nothing is given."""
        row = np.full((1, self.count), np.nan)
        entries = dict(given or {})
        for position, (column, value) in zip(self.positions(entries, "given"), entries.items(), strict=True):
            if not np.isfinite(value):
                raise ValueError(
                    f"given: the value of column {column!r} is {value}; give a finite number, or leave it out"
                )
            row[0, position] = value
        return self.forward(row)[0]

    def box(self, box: Mapping[Column, tuple[float, float]]) -> Box:
        """Intervals in data units as a box in z, open where nothing is said."""
        sides = np.array([np.full(self.count, -np.inf), np.full(self.count, np.inf)])
        for position, (column, (low, high)) in zip(self.positions(box, "box"), box.items(), strict=True):
            if not low <= high:
                raise ValueError(
                    f"box: the interval of column {column!r} is empty: ({low}, {high}); low end first"
                )
            sides[:, position] = low, high
        low, high = self.forward(sides)
        return Box(low, high)

    def _listed(self) -> str:
        if self.names is None:
            return f"unnamed, 0 to {self.count - 1}"
        shown = ", ".join(map(repr, self.names[:8]))
        return shown if len(self.names) <= 8 else f"{shown}, ..."


def read_table(
    X: Any, *, names: tuple[str, ...] | None = None, width: int | None = None, allow_missing: bool
) -> Rows:
    """Rows from any container, or from ``Rows``, which is how named columns come from a file."""
    if not isinstance(X, Rows):
        return read_rows(X, columns=names, width=width, allow_missing=allow_missing, where=WHERE)
    if X.columns is not None and names is not None:
        check_names(X.columns, names)
    rows = read_rows(X.values, width=width, allow_missing=allow_missing, where=WHERE)
    return replace(rows, columns=X.columns, kind=X.kind)
