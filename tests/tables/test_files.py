"""CSV files in and out, with errors that name file, line and column."""

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from voronoi_circuits.tables import read_csv, write_csv


def written(folder: Path, text: str) -> Path:
    path = folder / "rows.csv"
    path.write_bytes(text.encode())
    return path


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 5), st.integers(1, 3)), elements=st.floats(allow_infinity=False)
    )
)
def test_what_is_written_is_read_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, values: np.ndarray
) -> None:
    path = tmp_path_factory.mktemp("csv") / "rows.csv"
    names = ["a,b", 'say "c"', "ü"][: values.shape[1]]
    write_csv(path, values, names)
    back, columns = read_csv(path)
    np.testing.assert_array_equal(back, values)
    np.testing.assert_array_equal(np.signbit(back), np.signbit(values) & ~np.isnan(values))
    assert columns == tuple(names)


def test_another_reader_agrees(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(50, 3)) * [1e-9, 1.0, 1e12]
    values[3, 1] = np.nan
    write_csv(tmp_path / "a.csv", values, ["a", "b", "c"])
    frame = pl.read_csv(tmp_path / "a.csv")
    assert frame.columns == ["a", "b", "c"]
    np.testing.assert_array_equal(frame.to_numpy(), values)
    frame.write_csv(tmp_path / "b.csv")
    np.testing.assert_array_equal(read_csv(tmp_path / "b.csv")[0], values)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n3,\n",
        "a,b\r\n1,2\r\n3,\r\n",
        "\ufeffa,b\n1,2\n3,",
        ' a , b \n 1 , 2\n3, ""\n\n',
        "a,b\n\n1.0,2e0\n3,nan\n",
    ],
)
def test_ways_to_write_the_same(tmp_path: Path, text: str) -> None:
    values, columns = read_csv(str(written(tmp_path, text)))
    np.testing.assert_array_equal(values, [[1.0, 2.0], [3.0, np.nan]])
    assert columns == ("a", "b")


@pytest.mark.parametrize("text", ["h\n1\n\n2\n", "h\r\n1\r\n\r\n2", 'h\n1\n""\n2\n'])
def test_an_empty_line_of_one_column_is_a_missing_cell(tmp_path: Path, text: str) -> None:
    np.testing.assert_array_equal(read_csv(written(tmp_path, text))[0], [[1.0], [np.nan], [2.0]])


@pytest.mark.parametrize(
    "text, message",
    [
        (
            "a,b\n1,2\n3,red\n",
            r"line 3, column 'b': 'red' is not a number; encode it as numbers or drop the column; only score",
        ),
        ("a,b\n1_000,2\n", r"line 2, column 'a': '1_000' is not a number; write it without underscores"),
        ("a,b\n\n1,2\nNA,1\n", r"rows.csv, line 4, column 'a': 'NA' is not a number"),
        ("a,b\n1,2\n3\n", r"rows.csv, line 3: 1 cells, but there are 2 column names"),
        ("a,b\n1,2,3\n", r"rows.csv, line 2: 3 cells, but there are 2 column names"),
        ("", r"rows.csv: the file is empty"),
        ("a,b\n", r"rows.csv: there are no rows below the column names"),
        ("1.5,2\n3,4\n", r"rows.csv, line 1: numbers where the column names should be"),
        ("a,\n3,4\n", r"rows.csv, line 1: column 1 has no name"),
        ("a,b,a\n3,4,5\n", r"rows.csv, line 1: two columns are named 'a'"),
        ("a;b\n3;4\n", r"rows.csv, line 1: cells are not separated by commas"),
        ("a\tb\n3\t4\n", r"rows.csv, line 1: cells are not separated by commas"),
        ('a,b\n1,"2\n', r"rows.csv, line 2: unexpected end of data"),
    ],
)
def test_a_bad_file_is_named_with_line_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_csv(written(tmp_path, text))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"a,b\n1,\xff\xfe\n")
    with pytest.raises(ValueError, match=r"rows.csv: not a text file in UTF-8 \(invalid start byte\)"):
        read_csv(tmp_path / "rows.csv")


def test_missing_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(**_: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with pytest.raises(FileNotFoundError, match=r"none.csv: there is no such file"):
        read_csv(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="this is a folder"):
        read_csv(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"the folder .*deep does not exist"):
        write_csv(tmp_path / "deep" / "a.csv", np.ones((1, 1)), ["a"])
    monkeypatch.setattr(tempfile, "TemporaryFile", read_only)
    with pytest.raises(PermissionError, match=r"a.csv: the folder .* takes no new files \(Read-only"):
        write_csv(tmp_path / "a.csv", np.ones((1, 1)), ["a"])
    monkeypatch.undo()
    with pytest.raises(ValueError, match="no regular file"):
        write_csv(os.devnull, np.ones((1, 1)), ["a"])


def test_values_must_fit_their_names(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"values of shape \(1, 2\) do not fit 1 column names"):
        write_csv(tmp_path / "a.csv", np.ones((1, 2)), ["a"])


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.csv"
    write_csv(path, np.ones((2, 1)), ["a"])
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        write_csv(path, np.zeros((2, 1)), ["a"])
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
