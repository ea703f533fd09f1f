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


def test_the_grid_runs_resumes_and_reports(settings, tmp_path):
    out = tmp_path / "out"
    synthetic.main(out, seeds=1, workers=2, settings=settings)
    file = out / "results.jsonl"
    done = results.read(file)
    assert {entry["model"] for entry in done} == {"circuit", "vt"}
    assert all(entry["machine"]["threads"] == 1 for entry in done)
    pictures = {"synthetic.png", "learning_curves.png", "tessellations.png", "report.md"}
    assert pictures < {path.name for path in out.iterdir()}
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:50])
    synthetic.main(out, seeds=1, workers=1, settings=settings)
    assert file.read_bytes().startswith(lines[0])
    assert [entry["scores"].get("exact") for entry in results.read(file)] == [
        entry["scores"].get("exact") for entry in done
    ]
    before = file.stat().st_mtime_ns
    synthetic.main(out, seeds=1, settings=settings)
    assert file.stat().st_mtime_ns == before


@pytest.mark.parametrize("name", ["seeds", "workers"])
def test_numbers_below_one_are_refused(settings, tmp_path, name):
    with pytest.raises(ValueError, match=f"{name} must be at least 1, not 0"):
        synthetic.main(tmp_path, settings=settings, **{name: 0})
