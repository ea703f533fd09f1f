"""Imports point one way: which room of the package may import which (docs/architecture.md).

A room is a module or a package directly under `voronoi_circuits`; what it may import, it may import whole:
also what the rooms that it knows know.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = "voronoi_circuits"
SOURCE = Path(__file__).parents[1] / "src" / PACKAGE

KNOWS = {
    "circuits": set(),
    "geometry": set(),
    "datasets": set(),
    "tables": set(),
    "models": {"circuits", "geometry"},
    "certificates": {"models"},
    "training": {"models", "certificates"},
    "specs": {"models", "training"},
    "persistence": {"specs", "datasets", "tables"},
    "estimator": {"persistence"},
    "plots": {"estimator"},
    "__init__": {"plots"},
    "cli": {"__init__"},
}


def below(room: str) -> set[str]:
    """The rooms that `room` may import: itself, what it knows, and what those know."""
    return {room}.union(*(below(known) for known in KNOWS[room]))


def imports(path: Path, source: Path) -> Iterator[tuple[int, str]]:
    """Line and room of each import of the package in `path`, wherever in the module it stands.

    A name that is none of the package's modules comes from its face, `__init__`.
    """
    rooms = KNOWS.keys() | {entry.name.removesuffix(".py") for entry in source.iterdir()}
    home = [PACKAGE, *path.relative_to(source).parts[:-1]]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = home[: len(home) - node.level + 1] if node.level else []
            origin = [*start, *(node.module.split(".") if node.module else [])]
            names = [[*origin, alias.name] for alias in node.names]
        else:
            continue
        for package, room, *_ in ([*name, "__init__"] for name in names):
            if package == PACKAGE:
                yield node.lineno, room if room in rooms else "__init__"


def violations(source: Path) -> list[str]:
    """One line for each import against the direction, and for each room that the table does not hold."""
    found: list[str] = []
    for path in sorted(source.rglob("*.py")):
        where = path.relative_to(source)
        room = where.parts[0].removesuffix(".py")
        if room not in KNOWS:
            found.append(
                f"{where}: the room '{room}' is new: say in KNOWS and docs/architecture.md what it may import"
            )
            continue
        found += [
            f"{where}:{line}: '{room}' must not import '{target}'"
            for line, target in imports(path, source)
            if target not in below(room)
        ]
    return found


def test_every_room_exists() -> None:
    assert KNOWS.keys() <= {entry.name.removesuffix(".py") for entry in SOURCE.iterdir()}


def test_imports_point_one_way() -> None:
    assert any(SOURCE.rglob("*.py")), f"no modules under {SOURCE}"
    assert not (found := violations(SOURCE)), "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("where", "line", "target"),
    [
        ("circuits/folded.py", "from voronoi_circuits.geometry import Tessellation", "geometry"),
        ("circuits/leaves/gaussian.py", "from ...models.gated import Gated", "models"),
        ("circuits/leaves/gaussian.py", "from ... import geometry", "geometry"),
        ("geometry/boxes.py", "import voronoi_circuits.circuits.questions as questions", "circuits"),
        ("models/voronoi.py", "def bound():\n    from voronoi_circuits import certificates", "certificates"),
        ("models/voronoi.py", "from ..certificates import certify", "certificates"),
        ("certificates/boxes.py", "if TYPE_CHECKING:\n    import voronoi_circuits.training", "training"),
        ("training/loop.py", "from voronoi_circuits import VoronoiDensity", "__init__"),
        ("datasets/load.py", "from voronoi_circuits.tables import columns", "tables"),
        ("specs.py", "from .estimator import VoronoiDensity", "estimator"),
        ("plots.py", "from voronoi_circuits.cli import main", "cli"),
        ("tables/columns.py", "import voronoi_circuits", "__init__"),
    ],
)
def test_a_planted_import_is_caught(tmp_path: Path, where: str, line: str, target: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    (found,) = violations(tmp_path)
    room = where.split("/")[0].removesuffix(".py")
    assert found == f"{where}:{line.count(chr(10)) + 1}: '{room}' must not import '{target}'"


def test_a_room_of_no_known_place_is_caught(tmp_path: Path) -> None:
    (tmp_path / "helpers.py").write_text("import torch")
    (found,) = violations(tmp_path)
    assert found.startswith("helpers.py: the room 'helpers' is new")


@pytest.mark.parametrize(
    ("where", "line"),
    [
        (
            "circuits/leaves/gaussian.py",
            "from ..questions import Question\nfrom . import base\nimport torch, math",
        ),
        ("certificates/boxes.py", "from voronoi_circuits.geometry.boxes import Box"),
        ("training/loop.py", "from voronoi_circuits.certificates import certify"),
        ("cli/__init__.py", "from voronoi_circuits import __version__, plots"),
        ("__init__.py", "from .estimator import VoronoiDensity\nfrom . import datasets"),
    ],
)
def test_what_the_direction_allows_passes(tmp_path: Path, where: str, line: str) -> None:
    path = tmp_path / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(line)
    assert violations(tmp_path) == []
