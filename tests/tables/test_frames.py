"""Rows come in from every container, or are refused by column."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.estimator_checks import check_dataframe_column_names_consistency, check_estimator
from sklearn.utils.validation import check_is_fitted

from voronoi_circuits.tables import Rows, read_rows, to_container

VALUES = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.5]])
NAMES = ("height", "weight")


def read(X: object, **options: object) -> Rows:
    return read_rows(X, **{"allow_missing": False, "where": "Model"} | options)


@pytest.mark.parametrize(
    "X, kind, names",
    [
        (VALUES, "numpy", None),
        (VALUES.astype(np.float32), "numpy", None),
        (np.asfortranarray(VALUES), "numpy", None),
        (VALUES.astype(object), "numpy", None),
        (VALUES.tolist(), "numpy", None),
        (tuple(map(tuple, VALUES)), "numpy", None),
        (torch.tensor(VALUES), "torch", None),
        (torch.tensor(VALUES, requires_grad=True), "torch", None),
        (torch.tensor(VALUES, dtype=torch.bfloat16), "torch", None),
        (pd.DataFrame(VALUES), "pandas", None),
        (pd.DataFrame(VALUES, columns=NAMES), "pandas", NAMES),
        (pd.DataFrame(VALUES, columns=NAMES, index=[7, 7, 1]), "pandas", NAMES),
        (
            pd.DataFrame({"height": pd.array([1, 3, 5], dtype="Int64"), "weight": VALUES[:, 1]}),
            "pandas",
            NAMES,
        ),
        (pd.DataFrame(VALUES, columns=NAMES).astype(object), "pandas", NAMES),
        (pl.DataFrame(VALUES, schema=NAMES), "polars", NAMES),
        (pl.DataFrame({"height": [1, 3, 5], "weight": VALUES[:, 1]}), "polars", NAMES),
    ],
)
def test_every_container(X: object, kind: str, names: tuple[str, ...] | None) -> None:
    rows = read(X)
    np.testing.assert_array_equal(rows.values, VALUES)
    assert rows.values.dtype == np.float64
    assert (rows.kind, rows.columns) == (kind, names)


@pytest.mark.parametrize(
    "flags",
    [
        np.array([[True, False]]),
        pd.DataFrame([[True, False]]),
        pl.DataFrame([[True, False]], orient="row"),
        torch.tensor([[True, False]]),
    ],
)
def test_yes_and_no_are_one_and_zero(flags: object) -> None:
    np.testing.assert_array_equal(read(flags).values, [[1.0, 0.0]])


@pytest.mark.parametrize(
    "X",
    [
        [[1.0, None], [2.0, 3.0]],
        np.array([[1.0, np.nan], [2.0, 3.0]], dtype=np.float32),
        torch.tensor([[1.0, torch.nan], [2.0, 3.0]]),
        pd.DataFrame({"a": pd.array([1, 2], dtype="Int64"), "b": pd.array([pd.NA, 3], dtype="Int64")}),
        pd.DataFrame({"a": [1.0, 2.0], "b": pd.Series([pd.NA, 3], dtype=object)}),
        pd.DataFrame({"a": [1, 2], "b": pd.array([None, 3.0], dtype="Float64")}),
        pl.DataFrame({"a": [1, 2], "b": [None, 3]}),
    ],
)
def test_missing_is_nan_where_allowed_and_refused_elsewhere(X: object) -> None:
    np.testing.assert_array_equal(read(X, allow_missing=True).values, [[1.0, np.nan], [2.0, 3.0]])
    with pytest.raises(
        ValueError, match=r"Model: column ('b'|1) holds NaN, first in row 0; missing values are not"
    ):
        read(X)


def test_a_polars_column_of_nothing_is_all_missing() -> None:
    assert np.isnan(read(pl.DataFrame({"a": [None, None]}), allow_missing=True).values).all()


@pytest.mark.parametrize(
    "X, label",
    [
        (np.array([[0.0, 1.0], [0.0, np.inf]]), "1"),
        (torch.tensor([[0.0, 1.0], [0.0, torch.inf]]), "1"),
        (pd.DataFrame({"a": [0.0, 1.0], "b": [1.0, np.inf]}), "'b'"),
        (pl.DataFrame({"a": [0.0, 1.0], "b": [1.0, np.inf]}), "'b'"),
    ],
)
@pytest.mark.parametrize("allow_missing", [True, False])
def test_infinities_are_refused_by_column(X: object, label: str, allow_missing: bool) -> None:
    with pytest.raises(ValueError, match=f"Model: column {label} holds inf, first in row 1; "):
        read(X, allow_missing=allow_missing)


@pytest.mark.parametrize(
    "X, error, message",
    [
        ([[1.0, "red"], [2.0, "blue"]], ValueError, r"column 1 holds text, such as 'red'"),
        (np.array([["1.0", "2.0"]]), ValueError, r"column 0 holds text, such as '1.0'"),
        (np.array([[1.0, "3"]], dtype=object), ValueError, r"column 1 holds text, such as '3'"),
        (
            np.array([[1.0, {"foo": "bar"}]], dtype=object),
            TypeError,
            r"column 1 .* argument must be .* string.* number",
        ),
        (
            np.array([[1.0, 10**400]], dtype=object),
            TypeError,
            r"column 1 holds what is no real number: int too large",
        ),
        (np.array([["2020-01-01"]], dtype="M8[D]"), ValueError, r"X is of type datetime64"),
        (pd.DataFrame({"a": [1.0], "paint": ["red"]}), ValueError, r"column 'paint' is of type str"),
        (
            pd.DataFrame({"a": [1.0], "paint": pd.Series(["red"], dtype=object)}),
            ValueError,
            r"column 'paint' holds text",
        ),
        (
            pd.DataFrame({"a": [1.0], "paint": pd.Categorical([3])}),
            ValueError,
            r"column 'paint' is of type category",
        ),
        (
            pd.DataFrame({"day": pd.to_datetime(["2020-01-01"])}),
            ValueError,
            r"column 'day' is of type datetime64",
        ),
        (pd.DataFrame({"a": [1j]}), ValueError, r"column 'a' is of type complex128"),
        (pd.DataFrame({0: [1.0], 1: ["red"]}), ValueError, r"column 1 is of type str"),
        (pl.DataFrame({"a": [1.0], "paint": ["red"]}), ValueError, r"column 'paint' is of type String"),
        (pl.DataFrame({"day": [datetime.date(2020, 1, 1)]}), ValueError, r"column 'day' is of type Date"),
        (pl.DataFrame({"bag": [[1.0, 2.0]]}), ValueError, r"column 'bag' is of type List"),
    ],
)
def test_what_is_no_number_is_refused_by_column(X: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match="Model: .*" + message.removeprefix(r"Model: ")):
        read(X)


@pytest.mark.parametrize(
    "X",
    [
        1.0,
        "table.csv",
        None,
        {"a": [1.0]},
        VALUES[0],
        [1.0, 2.0],
        ["a", "b"],
        torch.zeros(3),
        pd.Series([1.0, 2.0]),
        pl.Series([1.0, 2.0]),
    ],
)
def test_what_is_no_table_is_told_to_be_reshaped(X: object) -> None:
    with pytest.raises(ValueError, match="Reshape your data"):
        read(X)


@pytest.mark.parametrize(
    "X, error, message",
    [
        (
            np.empty((0, 3)),
            ValueError,
            r"0 sample\(s\) \(shape=\(0, 3\)\) while a minimum of 1 is required by Model",
        ),
        (
            np.empty((4, 0)),
            ValueError,
            r"0 feature\(s\) \(shape=\(4, 0\)\) while a minimum of 1 is required by Model",
        ),
        (pd.DataFrame({"a": []}, dtype=float), ValueError, r"0 sample\(s\)"),
        (pd.DataFrame(index=[1, 2]), ValueError, r"0 feature\(s\)"),
        (pl.DataFrame({"a": []}), ValueError, r"0 sample\(s\)"),
        ([[]], ValueError, r"0 feature\(s\)"),
        (np.zeros((2, 2, 2)), ValueError, r"dim 3"),
        (VALUES + 1j, ValueError, "Complex data not supported"),
        (torch.tensor(VALUES + 1j), ValueError, "Complex data not supported"),
        (scipy.sparse.csr_array(VALUES), TypeError, "[Ss]parse"),
        (torch.tensor(VALUES).to_sparse(), TypeError, "sparse"),
        (pl.LazyFrame({"a": [1.0]}), ValueError, r"collect\(\)"),
        ([[1.0, 2.0], [3.0]], ValueError, "different lengths: 1, 2"),
        (pd.DataFrame(VALUES, columns=["a", "a"]), ValueError, "several columns are named 'a'"),
        (pd.DataFrame(VALUES, columns=["a", 1]), ValueError, r"some column names are text and some are not"),
    ],
)
def test_other_bad_input(X: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        read(X)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_names_must_be_those_of_fit(frame: type) -> None:
    read(frame(dict(zip(NAMES, VALUES.T, strict=True))), columns=NAMES)
    with pytest.raises(
        ValueError,
        match=r"should match those that were passed during fit.\nFeature names must be in the same order",
    ):
        read(frame(dict(zip(NAMES[::-1], VALUES.T, strict=True))), columns=NAMES)
    with pytest.raises(
        ValueError,
        match=r"unseen at fit time:\n- width\nFeature names seen at fit time, yet now missing:\n- weight\n$",
    ):
        read(frame(dict(zip(("height", "width"), VALUES.T, strict=True))), columns=NAMES)
    with pytest.raises(ValueError, match=r"unseen at fit time:\n- a\n- b\n- c\n- d\n- e\n- ...\nFeature"):
        read(frame({name: [0.0] for name in "gfedcba"}), columns=NAMES)


@pytest.mark.parametrize("options", [{"columns": NAMES}, {"width": 2}])
def test_number_of_columns_must_be_that_of_fit(options: dict[str, object]) -> None:
    for X in (VALUES, pd.DataFrame(VALUES), torch.tensor(VALUES)):
        assert read(X, **options).values.shape == (3, 2)
    with pytest.raises(ValueError, match="X has 1 features, but Model is expecting 2 features as input"):
        read(VALUES[:, :1], **options)


@pytest.mark.parametrize(
    "X",
    [
        VALUES,
        torch.tensor(VALUES),
        pd.DataFrame(VALUES),
        pd.DataFrame(VALUES, columns=NAMES),
        pl.DataFrame(VALUES, schema=NAMES),
    ],
)
def test_rows_come_back_in_kind(X: object) -> None:
    back = to_container(VALUES * 2, read(X))
    assert type(back) is type(X)
    again = read(back)
    np.testing.assert_array_equal(again.values, VALUES * 2)
    assert again.columns == read(X).columns


def test_the_rows_given_are_not_written_to() -> None:
    kept = VALUES.copy()
    kept.flags.writeable = False
    np.testing.assert_array_equal(read(kept).values, VALUES)
    tensor = to_container(kept, read(torch.tensor(VALUES)))
    tensor += 1
    np.testing.assert_array_equal(kept, VALUES)


class Reader(DensityMixin, BaseEstimator):
    """The thinnest estimator over `read_rows`: what scikit-learn asks of tables must hold for it."""

    def fit(self, X: object, y: object = None) -> "Reader":
        rows = read(X, where="Reader")
        self.n_features_in_ = rows.values.shape[1]
        vars(self).pop("feature_names_in_", None)
        if rows.columns is not None:
            self.feature_names_in_ = np.array(rows.columns, dtype=object)
        return self

    def score_samples(self, X: object) -> np.ndarray:
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return read(X, columns=names, width=self.n_features_in_, where="Reader").values.sum(axis=1)

    def predict(self, X: object) -> np.ndarray:
        return np.zeros(len(self.score_samples(X)), dtype=int)

    def score(self, X: object, y: object = None) -> float:
        return float(self.score_samples(X).mean())


def test_scikit_learn_accepts_the_reader() -> None:
    results = check_estimator(Reader(), on_skip=None)
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert {
        "check_complex_data",
        "check_dtype_object",
        "check_estimator_sparse_array",
        "check_estimators_empty_data_messages",
        "check_estimators_nan_inf",
        "check_fit1d",
        "check_fit2d_predict1d",
        "check_n_features_in_after_fitting",
        "check_readonly_memmap_input",
    } <= passed


def test_scikit_learn_finds_names_consistent() -> None:
    check_dataframe_column_names_consistency("Reader", Reader())
