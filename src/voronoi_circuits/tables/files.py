"""Comma-separated files: a line of names, then a line of numbers for each row; empty cells are missing.

An empty line is nothing, but where there is one column: there it is a row whose cell is empty.
"""

# n rows, D columns

import csv
import os
import tempfile
from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def read_csv(path: str | Path) -> tuple[FloatArray, tuple[str, ...]]:
    r"""The values (n, D) and the column names of a CSV file in UTF-8.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "a.csv").write_text("height,weight\n1.8,75\n1.6,\n")
    ...     read_csv(Path(folder, "a.csv"))
    (array([[ 1.8, 75. ], [ 1.6, nan]]), ('height', 'weight'))
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    if path.is_dir():
        raise ValueError(f"{path}: this is a folder; name a CSV file")
    cells = array("d")
    with path.open(newline="", encoding="utf-8-sig") as file:
        lines = csv.reader(file, strict=True, skipinitialspace=True)
        try:
            columns = checked_header(next(lines, []), path)
            for row in lines:
                if row or len(columns) == 1:
                    cells.extend(row_numbers(row or [""], columns, f"{path}, line {lines.line_num}"))
        except csv.Error as error:
            raise ValueError(f"{path}, line {lines.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{path}: not a text file in UTF-8 ({error.reason}); save it as CSV in UTF-8"
            ) from error
    if not cells:
        raise ValueError(f"{path}: there are no rows below the column names")
    return np.array(cells).reshape(-1, len(columns)), columns


def write_csv(path: str | Path, values: NDArray[np.floating], columns: Sequence[str]) -> None:
    r"""Write values (n, D) under their names; NaN becomes an empty cell, numbers can be read back exactly.

    The file appears whole or not at all: it is written beside its place and then moved there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_csv(Path(folder, "a.csv"), np.array([[0.1, np.nan]]), ["a", "b"])
    ...     Path(folder, "a.csv").read_text()
    'a,b\n0.1,\n'
    """
    path = Path(path)
    if values.ndim != 2 or values.shape[1] != len(columns):
        raise ValueError(f"{path}: values of shape {values.shape} do not fit {len(columns)} column names")
    check_file_place(path)
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with partial.open("w", newline="", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(columns)
            lines.writerows([None if cell != cell else cell for cell in row] for row in values.tolist())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def check_file_place(path: Path) -> None:
    """Refuse a place where `write_csv` cannot write.

    >>> check_file_place(Path("no", "such", "a.csv"))
    Traceback (most recent call last):
    FileNotFoundError: no/such/a.csv: the folder no/such does not exist; make it first
    """
    check_folder_of(path)
    if path.exists() and not path.is_file():
        raise ValueError(f"{path}: this is no regular file; name a file to write")


def check_folder_of(path: Path) -> None:
    """Refuse a place in a folder that does not exist, or takes no new files: one is made there, and is gone.

    >>> check_folder_of(Path("no", "such", "model"))
    Traceback (most recent call last):
    FileNotFoundError: no/such/model: the folder no/such does not exist; make it first
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path}: the folder {path.parent} does not exist; make it first")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
    except OSError as error:
        raise PermissionError(
            f"{path}: the folder {path.parent} takes no new files ({error.strerror}); choose another"
        ) from error


def checked_header(names: list[str], path: Path) -> tuple[str, ...]:
    """The column names, which must be there, be text and differ."""
    columns = tuple(name.strip() for name in names)
    if not columns:
        raise ValueError(
            f"{path}: the file is empty, or its first line is; the first line holds the column names"
        )
    if len(columns) == 1 and any(mark in columns[0] for mark in ";\t"):
        raise ValueError(f"{path}, line 1: cells are not separated by commas; save the file with commas")
    for position, name in enumerate(columns):
        if not name:
            raise ValueError(f"{path}, line 1: column {position} has no name")
        if name in columns[:position]:
            raise ValueError(f"{path}, line 1: two columns are named {name!r}; names must differ")
    if all(is_number(name) for name in columns):
        raise ValueError(
            f"{path}, line 1: numbers where the column names should be; add a line of names on top"
        )
    return columns


def row_numbers(row: list[str], columns: tuple[str, ...], line: str) -> list[float]:
    """The cells of a line as numbers, NaN where a cell is empty; errors begin with `line`.

    >>> row_numbers(["1", " ", "3e2"], ("a", "b", "c"), "x.csv, line 2")
    [1.0, nan, 300.0]
    """
    if len(row) != len(columns):
        raise ValueError(f"{line}: {len(row)} cells, but there are {len(columns)} column names")
    try:
        return [number(cell) for cell in row]
    except ValueError as error:
        cell, column = next(pair for pair in zip(row, columns, strict=True) if not is_number(pair[0]))
        remedy = "encode it as numbers or drop the column; only score takes empty cells"
        if is_number(cell.replace("_", "")):
            remedy = "write it without underscores"
        raise ValueError(f"{line}, column {column!r}: {cell!r} is not a number; {remedy}") from error


def number(cell: str) -> float:
    """A cell as a number: what `float` takes, but Python's underscores; NaN where the cell is empty.

    >>> number(" 3e2"), number(" ")
    (300.0, nan)
    """
    if "_" in cell:
        raise ValueError(f"{cell!r} holds an underscore")
    return float(cell.strip() or "nan")


def is_number(text: str) -> bool:
    """Whether a cell can be read.

    >>> is_number("-1e3"), is_number(" "), is_number("one")
    (True, True, False)
    """
    try:
        number(text)
    except ValueError:
        return False
    return True
