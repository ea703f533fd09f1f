"""The configuration is the paper's, and says what is compared with what at equal size."""

from collections import Counter

import pytest
import torch

from experiments import configuration
from experiments.configuration import chosen, grid, overlaid, read, specification
from voronoi_circuits import datasets
from voronoi_circuits.training import Adam


def test_the_grid_is_whole():
    runs = grid(read(), 3)
    assert len({run.identity for run in runs}) == len(runs)
    assert len({run.key for run in runs}) == len(runs)
    assert {run.name for run in runs} == set(datasets.available())
    count = Counter(run.model for run in runs)
    assert count.pop("circuit_units") == 4 * 2 * 3
    assert set(count.values()) == {8 * 2 * 3}
    assert {"circuit", "vt", "hfv", "mixture", "vt_ours", "hfv_ours", "hfv_units"} == set(count)


def test_the_papers_protocol():
    for run in grid(read(), 1):
        if run.model in ("circuit", "vt", "hfv"):
            units = 5 if run.name in datasets.available()[:4] else 10
            spec, learner = run.settings["spec"], run.settings["learner"]
            assert (spec["units"], spec["product"]) == (units, "tucker")
            assert spec.get("cells", units) == units
            assert (learner["epochs"], learner["batch_size"], learner["learning_rate"]) == (100, 500, 0.01)
            assert tuple(learner["anneal"]) == (1.0, 50.0)
            assert run.settings["data"]["rows"] == [10_000, 5_000, 5_000]


@pytest.mark.parametrize("name", ["pinwheel", "knotted"])
def test_what_is_compared_has_the_same_size(name):
    rows = torch.from_numpy(datasets.load(name, n=(300, 1, 1)).train)
    size: dict[tuple[str, str], int] = {}
    runs = [run for run in grid(read(), 1) if run.name == name]
    for run in runs:
        model = specification(run.settings["spec"]).build(rows, torch.Generator().manual_seed(0))
        size[run.structure, run.model] = model.n_parameters
    for run in runs:
        own = size[run.structure, run.model]
        if run.model in ("mixture", "vt_ours"):
            assert own == pytest.approx(size[run.structure, "vt"], rel=0.06)
        if "peer" in run.shown:
            assert own == pytest.approx(size[run.structure, run.shown["peer"]], rel=0.1)


def test_learners_and_certificates_are_accepted():
    for quick in (False, True):
        for run in grid(read(quick=quick), 1):
            Adam(**run.settings["learner"]).check()


def test_quick_is_a_small_part():
    quick, whole = grid(read(quick=True), 3), grid(read(), 3)
    assert {run.seed for run in quick} == {0}
    assert len(quick) < len(whole) / 4
    assert {run.settings["learner"]["epochs"] for run in quick} < set(range(100))
    names = {run.name for run in quick}
    assert names & set(datasets.available()[:4])
    assert names & set(datasets.available()[4:])
    assert not {run.identity for run in quick} & {run.identity for run in whole}


def test_titles_change_no_run_and_settings_change_their_own():
    before = {run.key: run.identity for run in grid(read(), 1)}
    titled = overlaid(read(), {"models": {"vt": {"title": "other"}}})
    assert {run.key: run.identity for run in grid(titled, 1)} == before
    edited = overlaid(read(), {"models": {"vt": {"cells": 4}}})
    changed = {run.model for run in grid(edited, 1) if run.identity != before[run.key]}
    assert changed == {"vt"}


def test_values_by_dimension_and_structure():
    value = {"2d": 5, "3d": {"einet": 10, "hclt": 9}}
    assert [chosen(value, 2, "hclt"), chosen(value, 3, "hclt"), chosen(7, 3, "hclt")] == [5, 9, 7]
    with pytest.raises(ValueError, match="no entry for 4d or hclt among 2d, 3d"):
        chosen(value, 4, "hclt")


def test_an_unknown_kind_is_refused():
    with pytest.raises(ValueError, match="kind = 'flow' is no model: give one of circuit, mixture, vt, hfv"):
        specification({"kind": "flow", "structure": "hclt", "units": 2})


def test_quick_overlays_table_by_table():
    quick = read(quick=True)
    assert quick["learner"]["learning_rate"] == read()["learner"]["learning_rate"]
    assert "quick" not in quick
    assert configuration.HERE.name == "experiments"
