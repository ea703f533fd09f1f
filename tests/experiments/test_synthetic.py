"""A grid of two models, for real: run, stopped, resumed, reported."""

import pytest
import torch

from experiments import results, runs, synthetic
from experiments.configuration import grid, read

SETTINGS = """
sets = ["pinwheel"]
structures = ["hclt"]
data_seed = 0
rows = [200, 60, 80]
curves_of = "pinwheel"
overlays_of = "pinwheel"
structure_titles = { hclt = "HCLT" }
learner = { epochs = 2, batch_size = 100, anneal = [1.0, 50.0] }

[certificates]
epoch = { method = "boxes" }
boxes = { method = "boxes" }
refined = { method = "auto", tolerance = 0.05, max_boxes = 2000 }

[models.circuit]
title = "plain circuit"
look = "circuit"
kind = "circuit"
units = 2

[models.vt]
title = "VT"
look = "vt"
kind = "vt"
units = 2
cells = 3
"""


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SETTINGS)
    return path


def test_a_run_is_repeated_by_its_seed_and_kept_whole(settings, tmp_path):
    _, run = grid(read(settings), 1)
    first, again = (runs.execute(run, tmp_path) for _ in range(2))
    other = runs.execute(run._replace(seed=1), tmp_path)
    assert (
        first["scores"]["unnormalized"] == again["scores"]["unnormalized"] != other["scores"]["unnormalized"]
    )
    boxes, refined = first["scores"]["boxes"], first["scores"]["refined"]
    assert boxes["lower"] <= refined["lower"] <= refined["upper"] <= boxes["upper"]
    assert first["scores"]["ungated"] >= first["scores"]["unnormalized"]
    assert first["curve"]["epoch"] == [1, 2]
    model, rows = runs.kept(run, tmp_path / first["kept"])
    _, _, test = runs.splits(run)
    with torch.no_grad():
        assert float(model.log_unnormalized(test.double()).mean()) == first["scores"]["unnormalized"]
    assert rows.shape == (200, 2)


def test_the_grid_resumes_where_it_was_torn_and_reports(settings, tmp_path, monkeypatch):
    begun: list[str] = []

    def records(left, kept, workers):
        for run in left:
            begun.append(run.model)
            yield runs.execute(run, kept)

    monkeypatch.setattr(synthetic, "records", records)
    out = tmp_path / "out"
    synthetic.main(out, seeds=1, settings=settings)
    pictures = {"synthetic.png", "learning_curves.png", "tessellations.png", "report.md"}
    assert pictures < {path.name for path in out.iterdir()}
    file = out / "results.jsonl"
    done, lines = results.read(file), file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:50])
    synthetic.main(out, seeds=1, settings=settings)
    synthetic.main(out, seeds=1, settings=settings)
    assert begun == ["circuit", "vt", "vt"]
    again = results.read(file)
    assert file.read_bytes().startswith(lines[0])
    assert again[1]["scores"]["unnormalized"] == done[1]["scores"]["unnormalized"]


def test_runs_go_to_processes_of_one_thread(settings, tmp_path):
    (run, *_) = grid(read(settings), 1)
    (record,) = synthetic.records([run], tmp_path, workers=2)
    assert results.run_of(record) == run
    assert record["machine"]["threads"] == 1
    assert list(synthetic.records([], tmp_path, workers=2)) == []


@pytest.mark.parametrize("name", ["seeds", "workers"])
def test_numbers_below_one_are_refused(settings, tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        synthetic.main(tmp_path, settings=settings, **{name: 0})
