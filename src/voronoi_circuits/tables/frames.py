"""Rows in and out: numpy arrays, torch tensors, pandas and Polars frames, and lists.

Wording that scikit-learn's `check_estimator` looks for comes from its own `check_array`, or repeats it.
"""

# n rows, D columns

from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

FloatArray = NDArray[np.float64]
Kind = Literal["numpy", "torch", "pandas", "polars"]

REMEDY = "encode it as numbers or leave it out"


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows (n, D) in float64, the names of their columns (None: unnamed), and the container they came in.

    >>> read_rows([[1, 2], [3, 4]], allow_missing=False, where="Doc").values
    array([[1., 2.], [3., 4.]])
    """

    values: FloatArray
    columns: tuple[str, ...] | None
    kind: Kind


def read_rows(
    X: Any,
    *,
    columns: Sequence[str] | None = None,
    width: int | None = None,
    allow_missing: bool,
    where: str,
) -> Rows:
    """The rows of `X` as float64, or an error that says which column cannot be used and what to do.

    `columns` and `width` are the names and the number of the columns at fit: a frame with names must bring
    the same ones in the same order, anything must bring the same number. Without names columns go by
    position. `where` is what errors call the asker. NaN is a missing value, refused unless `allow_missing`.

    >>> read_rows(np.array([[1.0, np.nan]]), allow_missing=False, where="Doc")
    Traceback (most recent call last):
    ...
    ValueError: Doc: column 1 holds NaN, first in row 0; missing values are not allowed: impute or drop it
    """
    kind = container(X)
    names = frame_names(X, where) if kind in ("pandas", "polars") else None
    if names is not None and columns is not None:
        check_names(names, columns)
    if kind in ("pandas", "polars"):
        series = [X.iloc[:, j] if kind == "pandas" else X.to_series(j) for j in range(X.shape[1])]
        labels = [f"{where}: column {column_label(names, j)}" for j in range(X.shape[1])]
        table = stack(map(series_numbers, series, labels), X.shape)
    else:
        table = array_numbers(X, where)
    values: FloatArray = check_array(table, dtype="float64", ensure_all_finite=False, estimator=where)
    expected = len(columns) if columns is not None else width
    if expected is not None and values.shape[1] != expected:
        raise ValueError(
            f"X has {values.shape[1]} features, but {where} is expecting {expected} features as input."
        )
    check_finite(values, names, allow_missing, where)
    return Rows(values, names, kind)


def to_container(values: NDArray[Any], like: Rows) -> Any:
    """Values (n, D) in the container and under the names of `like`; tensors stay float64, on the CPU.

    >>> to_container(np.ones((1, 2)), read_rows(torch.zeros(3, 2), allow_missing=False, where="Doc"))
    tensor([[1., 1.]], dtype=torch.float64)
    """
    names = None if like.columns is None else list(like.columns)
    if like.kind == "pandas":
        return import_module("pandas").DataFrame(values, columns=names)
    if like.kind == "polars":
        return import_module("polars").DataFrame(values, schema=names, orient="row")
    return torch.tensor(values) if like.kind == "torch" else values


def container(X: Any) -> Kind:
    """The kind of container, told by the modules of its class, so that nothing is imported to ask.

    >>> container([[1.0]]), container(torch.zeros(1))
    ('numpy', 'torch')
    """
    modules = {base.__module__.partition(".")[0] for base in type(X).__mro__}
    if "pandas" in modules:
        return "pandas"
    if "polars" in modules:
        return "polars"
    return "torch" if isinstance(X, torch.Tensor) else "numpy"


def column_label(columns: Sequence[str] | None, column: int) -> str:
    """The quoted name of a column, or its position where it has none.

    >>> column_label(("a", "b"), 1), column_label(None, 1)
    ("'b'", '1')
    """
    return str(column) if columns is None else repr(columns[column])


def frame_names(X: Any, where: str) -> tuple[str, ...] | None:
    """The names of a frame's columns; None where none of them is text (as pandas numbers them)."""
    if type(X).__name__ == "LazyFrame":
        raise ValueError(f"{where}: X is a LazyFrame; collect() it first")
    if not hasattr(X, "columns"):
        raise ValueError(
            f"{where}: expected a frame of two dimensions, got a {type(X).__name__}. Reshape your data: "
            "to_frame() makes a frame of one column"
        )
    names = list(X.columns)
    text = [name for name in names if isinstance(name, str)]
    if not text:
        return None
    if len(text) < len(names):
        raise ValueError(
            f"{where}: some column names are text and some are not ({names}); make all of them text"
        )
    twice = sorted({name for name in text if text.count(name) > 1})
    if twice:
        raise ValueError(
            f"{where}: several columns are named {', '.join(map(repr, twice))}; names must differ"
        )
    return tuple(text)


def check_names(found: Sequence[str], expected: Sequence[str]) -> None:
    """Refuse names that are not those of fit, in scikit-learn's words."""

    def listed(title: str, names: Iterable[str]) -> str:
        lines = [f"- {name}\n" for name in sorted(names)]
        return title + "".join(lines[:5]) + ("- ...\n" if len(lines) > 5 else "") if lines else ""

    if tuple(found) != tuple(expected):
        unseen = listed("Feature names unseen at fit time:\n", set(found) - set(expected))
        missing = listed("Feature names seen at fit time, yet now missing:\n", set(expected) - set(found))
        order = "Feature names must be in the same order as they were in fit.\n"
        raise ValueError(
            "The feature names should match those that were passed during fit.\n"
            + (unseen + missing or order)
        )


def series_numbers(column: Any, label: str) -> FloatArray:
    """A pandas or Polars column as float64 (n,), NaN where missing; errors begin with `label`."""
    dtype = column.dtype
    if container(column) == "polars":
        if dtype.is_numeric() or str(dtype) in ("Boolean", "Null"):
            return column.cast(import_module("polars").Float64).to_numpy()
    elif dtype.kind in "biuf":
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    elif str(dtype) == "object":
        return cell_numbers(column.to_numpy(dtype=object, na_value=np.nan), label)
    raise ValueError(f"{label} is of type {dtype}, which is no real number; {REMEDY}")


def array_numbers(X: Any, where: str) -> Any:
    """What is no frame, as an array of numbers (or as it is, where `check_array` has the better words)."""
    if isinstance(X, torch.Tensor):
        if X.layout != torch.strided:
            raise TypeError(f"{where}: sparse tensors are not supported; pass X.to_dense()")
        dense = X.detach().cpu()
        return dense.numpy() if dense.is_complex() else dense.to(torch.float64).numpy()
    if issparse(X):
        return X
    if isinstance(X, list | tuple):
        lengths = sorted({len(row) for row in X if isinstance(row, Sized)})
        if len(lengths) > 1:
            raise ValueError(f"{where}: the rows of X have different lengths: {', '.join(map(str, lengths))}")
    array = np.asarray(X)
    if array.dtype.kind in "biufc":
        return array
    if array.ndim != 2:
        raise ValueError(
            f"{where}: X must be rows and columns of numbers, got {type(X).__name__} of {array.ndim} axes. "
            "Reshape your data: one row is array.reshape(1, -1), one column array.reshape(-1, 1)"
        )
    if array.dtype.kind not in "OUS":
        raise ValueError(f"{where}: X is of type {array.dtype}, which is no real number; {REMEDY}")
    cells = (
        np.asarray(X, dtype=object) if isinstance(X, list | tuple) else array
    )  # text would turn all to text
    labels = [f"{where}: column {j}" for j in range(array.shape[1])]
    return stack(map(cell_numbers, cells.T, labels), array.shape)


def stack(columns: Iterable[FloatArray], shape: tuple[int, ...]) -> FloatArray:
    """Columns (n,) -> rows (n, D); none of them gives (n, 0)."""
    values = np.empty(shape)
    for j, column in enumerate(columns):
        values[:, j] = column
    return values


def cell_numbers(cells: NDArray[Any], label: str) -> FloatArray:
    """Cells (n,) of any Python type as float64; errors begin with `label`.

    >>> cell_numbers(np.array([1, "red"], dtype=object), "Doc: column 'paint'")
    Traceback (most recent call last):
    ...
    ValueError: Doc: column 'paint' holds text, such as 'red'; encode it as numbers or leave it out
    """
    text = next((cell for cell in cells.tolist() if isinstance(cell, str | bytes)), None)
    if text is not None:
        raise ValueError(f"{label} holds text, such as {text!r}; {REMEDY}")
    try:
        return np.asarray(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{label} holds what is no real number: {error}") from error


def check_finite(values: FloatArray, names: Sequence[str] | None, allow_missing: bool, where: str) -> None:
    """Refuse infinities, and NaN unless it may stand for a missing value."""
    for bad, remedy in (
        (np.isinf(values), "a density has no value there: correct it, or write NaN where a value is missing"),
        (np.isnan(values) & (not allow_missing), "missing values are not allowed: impute or drop it"),
    ):
        if bad.any():
            row, column = np.argwhere(bad)[0]
            what = "NaN" if np.isnan(values[row, column]) else values[row, column]
            label = column_label(names, column)
            raise ValueError(f"{where}: column {label} holds {what}, first in row {row}; {remedy}")
