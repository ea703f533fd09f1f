"""A time is printed only where both libraries compute the same; the table says what was measured."""

import json

import pytest
import torch

pytest.importorskip("cirkit")

from benchmarks import training_step
from benchmarks.report import table, write
from benchmarks.training_step import CASES, LIBRARIES, Case, Timing, measure


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_libraries_agree_on_every_case(case):
    assert case.disagreement() < 1e-9


@pytest.mark.parametrize("structure", ["einet", "hclt"])
def test_another_weight_is_refused(structure, monkeypatch):
    def wrong(graph, parameters, dtype):
        model = LIBRARIES["ours"](graph, parameters, dtype)
        with torch.no_grad():
            model.model.experts.circuit.layers[1].logits()[0].add_(
                torch.randn(5, generator=torch.Generator().manual_seed(0), dtype=dtype) * 1e-3
            )
        return model

    monkeypatch.setattr(training_step, "LIBRARIES", LIBRARIES | {"ours": wrong})
    with pytest.raises(ValueError, match="differ by"):
        Case(structure, 3, 5).disagreement()


def test_a_few_steps_lower_the_loss_of_both():
    case = Case("einet", 3, 5)
    rows = case.rows().float()
    for model in case.models(torch.float32).values():
        optimizer = torch.optim.Adam(model.parameters(), **training_step.OPTIMISER)
        losses = [training_step.training_step(model, optimizer, rows).item() for _ in range(20)]
        assert losses[-1] < losses[0] - 0.1


def test_a_run_is_written(tmp_path):
    rounds = []
    (timing,) = measure([Case("hclt", 2, 5)], rounds=2, steps=1, tick=lambda: rounds.append(1))
    assert len(rounds) == 2
    assert all(0 < seconds < 60 for seconds in timing.seconds.values())
    write(tmp_path, [timing], {"rounds": 2}, {"processor": "one"})
    assert json.loads((tmp_path / "training_step.json").read_text())["cells"][0]["ratio"] == timing.ratio
    assert table([timing]) in (tmp_path / "training_step.md").read_text()


def test_the_ratio_is_ours_over_theirs():
    timing = Timing(Case("hclt", 2, 5), {"ours": 1.0, "libcirkit": 4.0}, 0.0)
    assert timing.ratio == 0.25
    assert table([timing]).endswith("| hclt | 2 | 5 | 1000.00 | 4000.00 | 0.25 |")
