"""What is saved comes back whole and unchanged, or is refused by the name of the file."""

import json
import math
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import voronoi_circuits as vc
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.persistence import (
    DamagedModelError,
    describe,
    plain,
    read_folder,
    rebuild,
    restored,
    write_folder,
)
from voronoi_circuits.specs import Specification

ROWS = np.random.default_rng(0).normal(size=(120, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.5], [0, 0, 2.0]])
CODES = np.column_stack([ROWS[:, :2], np.arange(120) % 3])
GRAPH = RegionGraph(
    (
        *(Region((v,), 3, "leaf", leaf="gaussian") for v in range(3)),
        Region((0, 1), 3, "cp", (0, 1)),
        Region((0, 1, 2), 1, "tucker", (2, 3)),
    )
)
SPECIFICATIONS: dict[str, Specification] = {
    "circuit": vc.Circuit(units=3),
    "histogram": vc.Circuit(units=3, leaf={0: "histogram"}),
    "own graph": vc.Circuit(GRAPH),
    "mixture": vc.Mixture(vc.Circuit("einet", "tucker", units=2, repetitions=2), components=3),
    "vt": vc.VT(vc.Circuit(units=2), cells=3),
    "nested": vc.VT(vc.Circuit(GRAPH), cells=3, shared=True, gate_at=["root", (0, 1)]),
    "hfv": vc.HFV(vc.Circuit(units=2), cells=2, units_per_cell=2),
}


def small(model: Specification | str, **settings: object) -> vc.VoronoiDensity:
    options = {"certify_budget": 0.5, "random_state": 0, **settings}
    return vc.VoronoiDensity(model, vc.Adam(epochs=1), **options)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("home") / "model"
    small(vc.VT(vc.Circuit(units=2), cells=2)).fit(ROWS).save(path)
    return path


@pytest.fixture
def copy(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "model"))


@pytest.mark.parametrize("kind", SPECIFICATIONS)
def test_every_kind_of_model_comes_back_bit_for_bit(kind: str, tmp_path: Path) -> None:
    density = small(SPECIFICATIONS[kind]).fit(ROWS)
    density.save(tmp_path / "model")
    again = vc.load(tmp_path / "model")
    for before, after in zip(density.score_bounds(ROWS), again.score_bounds(ROWS), strict=True):
        assert before.tobytes() == after.tobytes()
    assert again.certificate_ == density.certificate_
    np.testing.assert_array_equal(list(again.history_.rows()), list(density.history_.rows()))
    assert (again.n_iter_, again.n_features_in_) == (1, 3)
    assert repr(again) == repr(density)
    np.testing.assert_array_equal(again.sample(9, random_state=1), density.sample(9, random_state=1))


def test_a_model_of_codes_comes_back() -> None:
    x = torch.from_numpy(CODES).float()
    model = vc.Circuit(units=2, leaf={2: "categorical"}).build(x, torch.Generator().manual_seed(0))
    again = rebuild(
        restored(json.loads(json.dumps(plain(describe(model), "model", {}))), {}), model.state_dict()
    )
    assert torch.equal(again.log_unnormalized(x), model.log_unnormalized(x))


def test_a_truncated_model_comes_back_truncated() -> None:
    x = torch.from_numpy(ROWS).float()
    model = vc.Circuit(units=2).build(x, torch.Generator().manual_seed(0)).truncate({0: (-1.0, math.inf)})
    again = rebuild(restored(plain(describe(model), "model", {}), {}), model.state_dict())
    assert torch.equal(again.log_unnormalized(x), model.log_unnormalized(x))
    assert bool((again.log_unnormalized(x) == -torch.inf).any())


def test_a_model_without_a_file_form_is_refused() -> None:
    model = vc.VT(vc.Circuit(units=2), cells=2).build(torch.from_numpy(ROWS).float()).soften(3.0)
    with pytest.raises(ValueError, match="SoftModel cannot be saved"):
        describe(model)


@pytest.mark.parametrize("name", ["model.json", "parameters.safetensors", "SHA256SUMS"])
@pytest.mark.parametrize("where", [0.0, 0.37, 0.999])
def test_any_changed_byte_is_refused(copy: Path, name: str, where: float) -> None:
    content = bytearray((copy / name).read_bytes())
    content[int(where * len(content))] ^= 1
    (copy / name).write_bytes(content)
    with pytest.raises(DamagedModelError, match=f"{name} .*one of them was changed") as error:
        vc.load(copy)
    assert "SHA256SUMS disagree" in str(error.value)


def added_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b" ")


def missing_byte(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("name", ["model.json", "parameters.safetensors", "SHA256SUMS"])
@pytest.mark.parametrize("harm", [added_byte, missing_byte, Path.unlink])
def test_added_and_missing_bytes_and_files_are_refused(
    copy: Path, name: str, harm: Callable[[Path], None]
) -> None:
    harm(copy / name)
    with pytest.raises(ValueError, match=f"{name}.*(disagree|changed|missing)"):
        vc.load(copy)


def test_an_added_file_is_refused(copy: Path) -> None:
    (copy / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"notes\.txt: the file is no part of a saved model"):
        vc.load(copy)


@pytest.mark.parametrize("name", ["model.json", "parameters.safetensors", "SHA256SUMS"])
def test_a_folder_in_a_files_place_is_refused(copy: Path, name: str) -> None:
    (copy / name).unlink()
    (copy / name).mkdir()
    with pytest.raises(DamagedModelError, match=f"{name}: this is not a file"):
        vc.load(copy)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"batch_size":', '"batch":', "batch"),
        ('"certificate":', '"certificates":', "certificate"),
        ('"columns":', '"rows":', "columns"),
        ('"Adam":', '"Sgd":', "Sgd"),
    ],
)
def test_a_document_of_other_keys_is_refused(copy: Path, old: str, new: str, message: str) -> None:
    files = read_folder(copy, ("model.json", "parameters.safetensors"))
    text = files["model.json"].decode()
    assert old in text
    write_folder(copy, {**files, "model.json": text.replace(old, new).encode()})
    with pytest.raises(DamagedModelError, match=rf"model/model\.json: .*{message}"):
        vc.load(copy)


def test_what_is_no_model_is_told_apart(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="there is no such model"):
        vc.load(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="this is a file"):
        vc.load(tmp_path / "file")


def test_another_version_is_refused(copy: Path) -> None:
    files = read_folder(copy, ("model.json", "parameters.safetensors"))
    text = files["model.json"].replace(b'"version": 1', b'"version": 2')
    write_folder(copy, {**files, "model.json": text})
    with pytest.raises(ValueError, match=r"model\.json: this is 'voronoi-circuits model' version 2"):
        vc.load(copy)


def test_a_model_replaces_a_model_and_nothing_else(copy: Path, tmp_path: Path) -> None:
    density = small("circuit").fit(ROWS)
    density.save(copy)
    assert vc.load(copy).model == "circuit"
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter.tex").write_text("years of work")
    (tmp_path / "empty").mkdir()
    density.save(tmp_path / "empty")
    with pytest.raises(FileExistsError, match="something else than a saved model"):
        density.save(tmp_path / "thesis")
    with pytest.raises(FileNotFoundError, match="does not exist; make it first"):
        density.save(tmp_path / "no" / "model")
    assert (tmp_path / "thesis" / "chapter.tex").read_text() == "years of work"
    assert sorted(os.listdir(tmp_path)) == ["empty", "model", "thesis"]


def test_a_save_that_fails_leaves_what_was_there(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = read_folder(copy, ("model.json", "parameters.safetensors"))
    rename = Path.rename

    def failing(self: Path, target: Path) -> Path:
        if self.name.endswith("partial"):
            raise OSError("disk full")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(OSError, match="disk full"):
        write_folder(copy, {**before, "model.json": b"{}"})
    assert read_folder(copy, ("model.json", "parameters.safetensors")) == before
    assert os.listdir(copy.parent) == ["model"]


@pytest.mark.parametrize(
    "value",
    [
        None,
        [True, 2, 0.1, "x"],
        (1, (2, 3)),
        {0: "gaussian", (1, 2): 4, "a": None},
        {1, 2},
        frozenset({0}),
        range(1, 9, 3),
        math.inf,
    ],
)
def test_values_come_back_as_they_were(value: object) -> None:
    again = restored(json.loads(json.dumps(plain(value, "it", {}), allow_nan=False)), {})
    assert again == value
    assert type(again) is type(value)


def test_numpy_numbers_become_plain_ones() -> None:
    assert plain({"a": np.int64(3)}, "it", {}) == {"$dict": [["a", 3]]}
    assert math.isnan(restored(plain(math.nan, "it", {}), {}))


def test_a_random_state_comes_back_where_it_was() -> None:
    random = np.random.RandomState(3)
    random.normal(size=5)
    again = restored(json.loads(json.dumps(plain(random, "random_state", {}))), {})
    assert again.normal() == random.normal()


def test_what_cannot_be_written_is_named() -> None:
    with pytest.raises(ValueError, match=r"model holds a object, which cannot be saved"):
        plain({"a": object()}, "model", {})

    class Circuit:
        pass

    with pytest.raises(ValueError, match="holds a Circuit"):
        plain(Circuit(), "model", {"Circuit": vc.Circuit})
