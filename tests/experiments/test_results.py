"""The results file survives a kill."""

import json

import pytest

from experiments import results
from tests.experiments.fakes import grid, record


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "new" / "results.jsonl"
    written = [record(run, 0.1) for run in grid()[:3]]
    for entry in written:
        results.append(path, entry)
    assert results.read(path) == written
    assert results.finished(written) == {run.identity for run in grid()[:3]}


def test_no_file_is_no_results(tmp_path):
    assert results.read(tmp_path / "results.jsonl") == []


@pytest.mark.parametrize("cut", [1, 2, 40, 400])
def test_a_torn_last_line_is_repaired(tmp_path, cut):
    path = tmp_path / "results.jsonl"
    first, second, third = (record(run, 0.1) for run in grid()[:3])
    results.append(path, first)
    results.append(path, second)
    path.write_bytes(path.read_bytes()[:-cut])
    assert results.read(path) == [first]
    results.append(path, third)
    assert results.read(path) == [first, third]


def test_damage_elsewhere_is_an_error_that_names_the_line(tmp_path):
    path = tmp_path / "results.jsonl"
    path.write_text('{"name": \n' + json.dumps(record(grid()[0], 0.1)) + "\n")
    with pytest.raises(ValueError, match=r"results.jsonl, line 1, is no JSON: remove the line"):
        results.read(path)


def test_numbers_that_json_cannot_hold_are_refused_before_anything_is_written(tmp_path):
    path = tmp_path / "results.jsonl"
    with pytest.raises(ValueError, match="JSON"):
        results.append(path, {"score": float("nan")})
    assert not path.exists()


def test_the_latest_record_of_a_run_counts():
    run = grid()[0]
    edited = run._replace(settings={**run.settings, "keep": True})
    other = grid()[1]
    entries = [record(run, 0.1), record(other, 0.2), record(edited, 0.3)]
    assert [entry["scores"]["exact"] for entry in results.latest(entries)] == [0.3, 0.2]
    assert run.identity in results.finished(entries)
