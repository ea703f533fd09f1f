"""The commands, from a file of rows to a certificate, and one helpful line for every mistake."""

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

import voronoi_circuits as vc
from voronoi_circuits.cli import app, main
from voronoi_circuits.tables import read_csv, write_csv
from voronoi_circuits.training.loop import Training

ROWS = np.random.default_rng(0).normal(size=(200, 2)) * [1.0, 20.0] + [0.0, 100.0]


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("home")
    write_csv(home / "rows.csv", ROWS, ["height", "weight"])
    options = ("--cells", 3, "--units", 2, "--epochs", 2, "--seed", 0, "--budget", 2)
    result = run("fit", home / "rows.csv", "-o", home / "model", *options)
    assert result.stdout == ""
    assert "log Z is proven to lie in" in result.stderr
    return home


def test_fit_takes_names_and_sizes(home: Path) -> None:
    density = vc.load(home / "model")
    assert list(density.feature_names_in_) == ["height", "weight"]
    assert (density.model.cells, density.model.expert.units, density.n_iter_) == (3, 2, 2)


@pytest.mark.parametrize(
    ("options", "model"),
    [
        (("--model", "circuit", "--units", "3"), vc.Circuit(units=3)),
        (("--model", "mixture", "--cells", "2"), vc.Mixture(vc.Circuit(units=16), components=2)),
        (("--model", "hfv", "--units", "2"), vc.HFV(vc.Circuit(units=4), cells=10, units_per_cell=2)),
        (("--model", "circuit", "--quiet"), "circuit"),
    ],
)
def test_fit_takes_every_kind(home: Path, tmp_path: Path, options: tuple[str, ...], model: object) -> None:
    run(
        "fit",
        home / "rows.csv",
        "-o",
        tmp_path / "m",
        "--epochs",
        1,
        "--validation",
        home / "rows.csv",
        *options,
    )
    assert repr(vc.load(tmp_path / "m").model) == repr(model)


def test_score_writes_the_estimators_bounds(home: Path, tmp_path: Path) -> None:
    hidden = ROWS.copy()
    hidden[3, 1] = np.nan
    write_csv(tmp_path / "hidden.csv", hidden, ["height", "weight"])
    result = run("score", home / "model", tmp_path / "hidden.csv", "-o", tmp_path / "scores.csv")
    bounds, names = read_csv(tmp_path / "scores.csv")
    assert names == ("lower", "upper")
    np.testing.assert_array_equal(bounds, np.column_stack(vc.load(home / "model").score_bounds(hidden)))
    assert result.stdout == ""
    assert f"200 rows, mean between {bounds[:, 0].mean():.4f}" in result.stderr


def test_sample_writes_the_estimators_draws(home: Path, tmp_path: Path) -> None:
    run("sample", home / "model", "-n", 7, "-o", tmp_path / "drawn.csv", "--given", "height=0.5", "--seed", 1)
    drawn, names = read_csv(tmp_path / "drawn.csv")
    assert names == ("height", "weight")
    truth = vc.load(home / "model").sample(7, given={"height": 0.5}, random_state=1)
    np.testing.assert_array_equal(drawn, truth)
    run("sample", home / "model", "-n", 7, "-o", tmp_path / "drawn.csv", "--cell", 1)
    assert (vc.load(home / "model").predict(read_csv(tmp_path / "drawn.csv")[0]) == 1).all()


def test_certify_says_what_it_proves_and_keeps_it_on_demand(home: Path) -> None:
    before = vc.load(home / "model").certificate_
    result = run("certify", home / "model", "--method", "boxes")
    sentence, meaning = result.stdout.splitlines()
    assert sentence.startswith("log Z is proven to lie in [")
    assert meaning == "One inner and one outer box a cell, without refinement."
    assert vc.load(home / "model").certificate_ == before
    run("certify", home / "model", "--tolerance", 5e-4, "--budget", 5, "--keep")
    after = vc.load(home / "model").certificate_
    assert before.lower <= after.lower <= after.upper <= before.upper
    assert after.gap < before.gap


def test_datasets_are_listed_and_written(tmp_path: Path) -> None:
    assert run("datasets").stdout.split() == list(vc.datasets.available())
    run("datasets", "pinwheel", "-o", tmp_path / "test.csv", "--split", "test", "--seed", 3)
    values, names = read_csv(tmp_path / "test.csv")
    np.testing.assert_array_equal(values, vc.datasets.load("pinwheel", seed=3).test)
    assert names == ("x", "y")


def test_the_demo_says_and_draws_three_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    short = vc.datasets.load("pinwheel", n=(300, 50, 50))
    monkeypatch.setattr("voronoi_circuits.cli.demo.load", lambda *_, **__: short)
    result = run("demo", "--epochs", 1, "--out", tmp_path / "out")
    plain, vt, hfv, picture = result.stdout.splitlines()
    assert plain.startswith("plain circuit: ")
    assert plain.endswith("exactly.")
    assert vt.startswith("VT: between ")
    assert "is proven to lie in" in vt
    assert hfv.startswith("HFV: ")
    assert hfv.endswith("exactly.")
    assert picture.endswith("demo.png")
    assert (tmp_path / "out" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_reproduce_hands_over_to_the_checkouts_experiments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "experiments").mkdir()
    note = (
        "from pathlib import Path\ndef main(out, *, quick, seeds):\n    out.write_text(f'{quick} {seeds}')\n"
    )
    (tmp_path / "experiments" / "synthetic.py").write_text(note)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "path", [entry for entry in sys.path if not (Path(entry) / "experiments").is_dir()]
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "experiments"]:
        monkeypatch.delitem(sys.modules, name)
    run("reproduce", "synthetic", "--out", tmp_path / "told", "--seeds", 2)
    assert (tmp_path / "told").read_text() == "False 2"
    run("reproduce", "synthetic", "--out", tmp_path / "told")
    assert (tmp_path / "told").read_text() == "False 3"
    run("reproduce", "synthetic", "--out", tmp_path / "told", "--quick")
    assert (tmp_path / "told").read_text() == "True 1"
    for name in [name for name in sys.modules if name.partition(".")[0] == "experiments"]:
        monkeypatch.delitem(sys.modules, name)


def test_an_interrupted_fit_is_saved_and_says_so(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "_epoch", interrupted)
    result = run("fit", home / "rows.csv", "-o", tmp_path / "m", "--model", "circuit")
    assert "note: fit was interrupted after 0 epochs: the model is the best so far\n" in result.stderr
    assert vc.load(tmp_path / "m").n_iter_ == 0


def test_an_interrupted_demo_stops_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "_epoch", interrupted)
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert (result.exit_code, result.stdout) == (130, "")
    assert result.stderr.endswith("stopped after 0 epochs of the plain circuit: nothing is drawn\n")
    assert not any(tmp_path.iterdir())


def test_columns_without_names_go_by_position(tmp_path: Path) -> None:
    vc.VoronoiDensity("circuit", vc.Adam(epochs=1), random_state=0).fit(ROWS).save(tmp_path / "m")
    for name, column in (("x0", 0), ("0", 0), ("x1", 1), ("1", 1)):
        run("sample", tmp_path / "m", "-n", 3, "-o", tmp_path / "d.csv", "--given", f"{name}=0.5")
        values, names = read_csv(tmp_path / "d.csv")
        assert names == ("x0", "x1")
        assert (values == 0.5).all(axis=0).tolist() == [column == 0, column == 1]
    twice = CliRunner().invoke(
        app,
        ["sample", str(tmp_path / "m"), "-o", str(tmp_path / "d.csv"), "--given", "0=1", "--given", "x0=2"],
    )
    assert "--given x0=2: column x0 has a value already" in str(twice.exception)


@pytest.mark.parametrize("command", ["fit", "score", "sample", "certify", "datasets", "demo", "reproduce"])
def test_help_shows_examples(command: str) -> None:
    assert f"Examples:\n    voronoi-circuits {command}" in run(command, "--help").stdout


def test_version() -> None:
    assert run("--version").stdout == f"voronoi-circuits {vc.__version__}\n"


MISTAKES: dict[str, tuple[Callable[[Path], list[object]], str]] = {
    "no file": (lambda h: ["fit", h / "none.csv", "-o", h / "m"], "none.csv: there is no such file"),
    "no model": (lambda h: ["certify", h / "none"], "none: there is no such model"),
    "model name": (lambda h: ["fit", h / "rows.csv", "-o", h / "m", "--model", "vtt"], "did you mean 'vt'"),
    "no place": (
        lambda h: ["fit", h / "rows.csv", "-o", h / "rows.csv"],
        "something else than a saved model",
    ),
    "cells": (
        lambda h: ["fit", h / "rows.csv", "-o", h / "m", "--model", "circuit", "--cells", 2],
        "--cells: a plain circuit has no cells",
    ),
    "columns": (
        lambda h: ["score", h / "model", h / "other.csv", "-o", h / "s.csv"],
        "should match those that were passed during fit. Feature names unseen at fit time: - width",
    ),
    "given": (
        lambda h: ["sample", h / "model", "-o", h / "s.csv", "--given", "height"],
        "--given height: write it as column=value",
    ),
    "no number": (
        lambda h: ["sample", h / "model", "-o", h / "s.csv", "--given", "height=tall"],
        "--given height=tall: write a number after =",
    ),
    "given twice": (
        lambda h: ["sample", h / "model", "-o", h / "s.csv", "--given", "height=1", "--given", "height=2"],
        "--given height=2: column height has a value already",
    ),
    "given by position": (
        lambda h: ["sample", h / "model", "-o", h / "s.csv", "--given", "x0=1"],
        "there is no column 'x0'; the columns are 'height', 'weight'",
    ),
    "no place for a model": (
        lambda h: ["fit", h / "rows.csv", "-o", "/proc/m"],
        "/proc/m: the folder /proc ",
    ),
    "no place for scores": (
        lambda h: ["score", h / "none", h / "none.csv", "-o", "no/dir/x.csv"],
        "no/dir/x.csv: the folder no/dir does not exist; make it first",
    ),
    "no place for rows": (
        lambda h: ["sample", h / "none", "-o", "no/dir/x.csv"],
        "no/dir/x.csv: the folder no/dir does not exist; make it first",
    ),
    "no place for a picture": (lambda h: ["demo", "--out", h / "rows.csv"], "rows.csv: this is a file"),
    "dataset": (lambda h: ["datasets", "pinwhel", "-o", h / "s.csv"], "pinwheel"),
    "no dataset": (lambda h: ["datasets", "-o", h / "s.csv"], "name the dataset to write"),
    "nowhere": (lambda h: ["datasets", "pinwheel"], "say where to write it"),
    "method": (lambda h: ["certify", h / "model", "--method", "box"], "did you mean 'boxes'"),
    "quick seeds": (
        lambda h: ["reproduce", "synthetic", "--out", h / "r", "--quick", "--seeds", 10],
        "--seeds 10: --quick runs one seed; leave one of them out",
    ),
    "experiment": (lambda h: ["reproduce", "uci", "--out", h / "r"], "unknown experiment 'uci'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_ends_in_one_line(
    home: Path, mistake: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_csv(home / "other.csv", ROWS, ["height", "width"])
    arguments, message = MISTAKES[mistake]
    monkeypatch.setattr(sys, "argv", ["voronoi-circuits", *map(str, arguments(home))])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert message in line


def test_experiments_need_a_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        sys, "path", [entry for entry in sys.path if not (Path(entry) / "experiments").is_dir()]
    )
    for name in [name for name in sys.modules if name.partition(".")[0] == "experiments"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "argv", ["voronoi-circuits", "reproduce", "synthetic", "--out", "r"])
    with pytest.raises(SystemExit):
        main()
    assert "run this in a checkout of the project" in capsys.readouterr().err
