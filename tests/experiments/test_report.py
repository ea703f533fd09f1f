"""Tables and figures say what the records say."""

import doctest
import math

import pytest

from experiments import pages, report, results, scores
from tests.experiments.fakes import grid, record, records

VALUES = {
    "circuit": -1.0,
    "circuit_units": -0.9,
    "vt": -0.5,
    "vt_ours": -0.7,
    "hfv_units": -1.3,
    "hfv_ours": -0.95,
}


def cells(page, head):
    """The rows of the table below a heading."""
    lines = [
        line for line in page.split(f"## {head}\n")[1].split("\n## ")[0].splitlines() if line.startswith("|")
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.fixture
def page():
    return pages.markdown(report.ordered(records(2, VALUES)), ["synthetic.png"])


def test_likelihoods_are_means_and_deviations(page):
    table = cells(page, "By the paper's protocol, and what the paper leaves out")
    row = dict(zip(table[0], table[2], strict=True))
    assert (row["set"], row["structure"]) == ("alphabet", "EinsumNet")
    assert row["plain circuit"] == "-0.900 ± 0.141"
    assert row["VT"] == "-0.600 ± 0.141"
    assert row["its ungated twin"] == "-0.500 ± 0.141"
    assert "VT, ours" not in row
    assert len(table) == 2 + 16
    ours = cells(page, "Our settings")
    assert dict(zip(ours[0], ours[2], strict=True))["VT, ours"] == "-0.600 ± 0.141"


def test_a_model_that_did_not_run_on_a_set_has_a_dash(page):
    table = cells(page, "By the paper's protocol, and what the paper leaves out")
    by_set = {tuple(row[:2]): dict(zip(table[0], row, strict=True)) for row in table[2:]}
    assert by_set["knotted", "HCLT"]["plain circuit, 6 units"] == "–"
    assert by_set["spiral", "HCLT"]["plain circuit, 6 units"] != "–"


def test_certificates_show_both_intervals_and_the_true_gap(page):
    table = cells(page, "Certificates")
    row = dict(zip(table[0], table[2], strict=True))
    assert [row["lower (boxes)"], row["lower (refined)"], row["true gap"]] == ["-0.6000", "-0.4000", "0.2000"]
    assert [row["log Z from"], row["log Z to"]] == ["-0.1100", "-0.1000"]
    assert len(table) == 2 + 8 * 2 * 2


def test_differences_take_the_best_vt_and_the_peer_of_the_same_size(page):
    table = cells(page, "Against circuits without gates")
    rows = {tuple(row[:2]): dict(zip(table[0], row, strict=True)) for row in table[2:]}
    assert rows["spiral", "HCLT"]["best VT"] == "+0.500"
    assert rows["spiral", "HCLT"]["VT, ours"] == "+0.300"
    assert rows["spiral", "HCLT"]["HFV, several units a cell"] == "-0.400"
    assert rows["knotted", "HCLT"]["HFV, several units a cell"] == "-0.300"
    assert rows["spiral", "HCLT"]["HFV, ours"] == "-0.050"


def test_a_bound_that_proves_nothing_is_a_dash_and_no_mark():
    runs = [run for run in grid(2) if (run.name, run.structure) == ("spiral", "hclt")]
    found = [record(run, -1.0) for run in runs]
    for entry in found:
        if entry["model"] == "vt" and entry["seed"] == 1:
            entry["scores"]["boxes"] |= {"lower": None, "upper": None}
    page = pages.markdown(found, [])
    table = cells(page, "By the paper's protocol, and what the paper leaves out")
    assert dict(zip(table[0], table[2], strict=True))["VT"] == "–"
    assert "VT (lower bound)" not in {row["model"] for row in report.synthetic_rows(found)}


def test_the_figure_shows_the_papers_models_first():
    rows = report.synthetic_rows(report.ordered(records(2, VALUES)))
    assert len(rows) == 16 * 7
    first = [row for row in rows if (row["set"], row["structure"]) == ("bent lissajous", "HCLT")]
    assert [row["look"] for row in first] == ["circuit", "hfv", "vt", "ungated", "mixture", "vt", "hfv"]
    assert [row["ours"] for row in first] == [False] * 5 + [True] * 2
    assert [round(row["mean"], 6) for row in first[:3:2]] == [-0.9, -0.6]


def test_curves_are_means_over_seeds_and_an_unknown_bound_is_open():
    rows = report.curve_rows(report.ordered(records(2, VALUES)))
    mine = [row for row in rows if (row["panel"], row["model"]) == ("HCLT", "VT (lower bound)")]
    assert [row["epoch"] for row in mine] == [1, 2]
    assert [row["lower"] for row in mine] == pytest.approx([-1.4, -0.4])
    assert mine[0]["upper"] == math.inf
    assert mine[1]["upper"] == pytest.approx(-0.4)


def test_our_curves_have_panels_of_their_own_beside_the_plain_circuit():
    shown: dict[str, set[str]] = {}
    for row in report.curve_rows(report.ordered(records(1, VALUES))):
        shown.setdefault(row["panel"], set()).add(row["look"] + "-ours" * row["ours"])
    assert list(shown) == ["EinsumNet", "HCLT", "EinsumNet, our settings", "HCLT, our settings"]
    assert shown["HCLT"] == {"circuit", "hfv", "vt", "mixture"}
    assert shown["HCLT, our settings"] == {"circuit", "hfv-ours", "vt-ours"}


def test_one_seed_has_no_deviation():
    assert pages.shown(scores.summary([{}], lambda _: -1.0)) == "-1.000"


def test_the_report_is_rebuilt_from_the_file_alone(tmp_path):
    for entry in records(1, VALUES)[::-1]:
        results.append(tmp_path / "results.jsonl", entry)
    first = report.write(tmp_path).read_text()
    assert {path.name for path in tmp_path.iterdir()} == {
        "results.jsonl",
        "report.md",
        "synthetic.png",
        "learning_curves.png",
    }
    assert "tessellations.png" not in first
    assert report.write(tmp_path).read_text() == first
    assert "torch 2.13.0" in first


def test_no_results_are_an_error(tmp_path):
    with pytest.raises(ValueError, match="has no results: run the experiment first"):
        report.write(tmp_path)


@pytest.mark.parametrize("module", [pages, scores])
def test_examples(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed
