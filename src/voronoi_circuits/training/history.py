"""What training leaves behind: one row of numbers an epoch, as a plain table.

# one list a column, one entry an epoch; NaN where a number does not exist
"""

from __future__ import annotations

import csv
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar


class History:
    """A table of the epochs.

    | column | what |
    |---|---|
    | epoch | counted from 1 |
    | alpha | inverse temperature: inf where gates are hard, NaN where there are none |
    | loss | the epoch's mean negative log f of the training rows, as they were met |
    | soft, hard | mean log f of the validation rows, gates soft at this α and hard |
    | lower, upper | bounds of the mean validation log-likelihood; equal where the model is exact |
    | log_z_lower, log_z_upper | bounds of log Z |
    | cells_in_use | cells that own a training row, at the topmost gate |
    | seconds | since training began |

    >>> history = History()
    >>> history.append(epoch=1, loss=2.5, seconds=0.1)
    >>> history["loss"], len(history)
    ([2.5], 1)
    """

    columns: ClassVar[tuple[str, ...]] = (
        "epoch",
        "alpha",
        "loss",
        "soft",
        "hard",
        "lower",
        "upper",
        "log_z_lower",
        "log_z_upper",
        "cells_in_use",
        "seconds",
    )

    def __init__(self) -> None:
        self._lists: dict[str, list[float]] = {column: [] for column in self.columns}

    def append(self, **row: float) -> None:
        """Adds an epoch; what is left out is NaN."""
        unknown = row.keys() - set(self.columns)
        if unknown:
            raise KeyError(f"history has no column {sorted(unknown)[0]!r}: its columns are {self.columns}")
        for column in self.columns:
            self._lists[column].append(row.get(column, float("nan")))

    def __getitem__(self, column: str) -> list[float]:
        """A copy of one column."""
        if column not in self._lists:
            raise KeyError(f"history has no column {column!r}: its columns are {self.columns}")
        return list(self._lists[column])

    def __len__(self) -> int:
        return len(self._lists["epoch"])

    def rows(self) -> Iterator[tuple[float, ...]]:
        """The epochs, each a tuple in the order of ``columns``."""
        return zip(*self._lists.values(), strict=True)

    def __str__(self) -> str:
        r"""The table with its columns aligned.

        >>> history = History()
        >>> history.append(epoch=1, loss=0.5)
        >>> str(history).splitlines()[1].split()[:3]
        ['1', '-', '0.5000']
        """
        lines = [self.columns, *(tuple(map(_shown, row)) for row in self.rows())]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)

    def write_csv(self, path: str | Path) -> None:
        """Writes the table; NaN is an empty cell. The file appears whole or not at all."""
        path = Path(path)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name, suffix=".part")
        try:
            with os.fdopen(handle, "w", newline="", encoding="utf-8") as file:
                lines = csv.writer(file, lineterminator="\n")
                lines.writerow(self.columns)
                lines.writerows(
                    [["" if value != value else repr(value) for value in row] for row in self.rows()]
                )
            os.replace(name, path)
        finally:
            Path(name).unlink(missing_ok=True)


def _shown(value: float) -> str:
    """A whole number as it is, another with four decimals, NaN as a dash."""
    if value != value:
        return "-"
    return str(value) if isinstance(value, int) else f"{value:.4f}"
