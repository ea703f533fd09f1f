"""The table of epochs."""

import csv
import math
from pathlib import Path

import pytest

from voronoi_circuits.training.history import History


def two_epochs() -> History:
    history = History()
    history.append(epoch=1, alpha=1.0, loss=3.25, cells_in_use=4, seconds=0.5)
    history.append(epoch=2, alpha=50.0, loss=2.125, lower=-2.5, upper=-2.0, cells_in_use=5, seconds=1.0)
    return history


def test_columns_rows_and_names_agree() -> None:
    history = two_epochs()
    assert len(history) == 2
    assert history["loss"] == [3.25, 2.125]
    assert math.isnan(history["lower"][0])
    rows = list(history.rows())
    for position, column in enumerate(History.columns):
        assert [repr(row[position]) for row in rows] == [repr(value) for value in history[column]]


def test_a_column_is_a_copy() -> None:
    history = two_epochs()
    history["loss"].clear()
    assert len(history["loss"]) == 2


def test_unknown_columns_are_named() -> None:
    history = two_epochs()
    with pytest.raises(KeyError, match="'los'"):
        history["los"]
    with pytest.raises(KeyError, match="'los'"):
        history.append(los=1.0)


def test_shown_with_aligned_columns() -> None:
    lines = str(two_epochs()).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[0].split() == list(History.columns)
    assert lines[1].split()[:5] == ["1", "1.0000", "3.2500", "-", "-"]
    assert lines[2].split()[5] == "-2.5000"


def test_csv_holds_every_number_exactly(tmp_path: Path) -> None:
    path = tmp_path / "history.csv"
    history = two_epochs()
    history.append(epoch=3, loss=0.1 + 0.2, lower=-math.inf)
    history.write_csv(path)
    with path.open(newline="") as file:
        header, *lines = csv.reader(file)
    assert tuple(header) == History.columns
    for line, row in zip(lines, history.rows(), strict=True):
        for cell, value in zip(line, row, strict=True):
            assert cell == "" if math.isnan(value) else float(cell) == value
    assert list(tmp_path.iterdir()) == [path]


def test_csv_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        two_epochs().write_csv(tmp_path / "taken")
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
