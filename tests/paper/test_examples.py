"""Every example runs, quickly, draws its picture, and shows what docs/examples.md says it shows."""

import re
from math import log
from pathlib import Path

import pytest

from examples import oblique_facet, rotated_hyperplane, two_level, wine_table

ROOT = Path(__file__).parents[2]


def test_one_oblique_facet(tmp_path: Path) -> None:
    found = oblique_facet.main(tmp_path, side=100)
    assert found["mass"] == pytest.approx(0.5, abs=1e-3)
    assert found["distance"] > 0.2
    assert found["lower"] <= log(0.5) <= found["upper"]
    assert (tmp_path / "oblique_facet.png").stat().st_size > 1000


def test_a_rotated_hyperplane(tmp_path: Path) -> None:
    found = rotated_hyperplane.main(tmp_path, sizes=(2, 4, 8), steps=500)
    assert found[1] < 1e-3 < found[8] < found[4] < found[2]
    assert (tmp_path / "rotated_hyperplane.png").stat().st_size > 1000


def test_two_levels_of_gates(tmp_path: Path) -> None:
    found = two_level.main(tmp_path, side=20, nodes=12, boxes=1000)
    assert found["lower"] <= log(found["z"]) <= found["upper"]
    assert (tmp_path / "two_level.png").stat().st_size > 1000


def test_a_table(tmp_path: Path) -> None:
    found = wine_table.main(tmp_path, epochs=2, seconds=0.5)
    assert found["lower"] <= found["upper"]
    assert 0 <= found["below"] <= found["above"] <= 1
    assert (tmp_path / "wine_table.png").stat().st_size > 1000


def test_the_page_names_every_example_and_shows_its_picture() -> None:
    page = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    files = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert set(re.findall(r"python -m examples\.(\w+)", page)) == files
    assert set(re.findall(r"\]\(images/(\w+)\.png\)", page)) == files
    assert all((ROOT / "docs" / "images" / f"{name}.png").exists() for name in files)
