"""A folder that is complete and unchanged, or refused: files beside a list of their SHA-256 digests."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Collection, Mapping
from pathlib import Path

from voronoi_circuits.tables.files import check_folder_of

DIGESTS = "SHA256SUMS"
"""The list of digests, as ``sha256sum --check`` reads it."""


class DamagedModelError(ValueError):
    """A model folder with a changed, missing or added file; the message names it."""


def write_folder(path: str | Path, files: Mapping[str, bytes]) -> None:
    """Writes files and their digests as a folder, which appears whole or not at all.

    They are written beside the place and moved there. A folder of the same files that is there already is
    replaced then; anything else that is there is left alone, with an error.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     write_folder(Path(home, "model"), {"a.json": b"{}"})
    ...     sorted(os.listdir(Path(home, "model")))
    ['SHA256SUMS', 'a.json']
    """
    path = Path(path)
    check_place(path, files)
    partial, former = (path.with_name(f".{path.name}.{os.getpid()}.{what}") for what in ("partial", "former"))
    try:
        partial.mkdir()
        for name, content in {**files, DIGESTS: _digests(files)}.items():
            (partial / name).write_bytes(content)
        if path.exists():
            path.rename(former)
        partial.rename(path)
    finally:
        if former.exists() and not path.exists():
            former.rename(path)
        for leftover in (partial, former):
            shutil.rmtree(leftover, ignore_errors=True)


def check_place(path: Path, names: Collection[str]) -> None:
    """Refuses a place where a folder of these files cannot be written without harm to something else.

    >>> check_place(Path("no", "such", "model"), ["a.json"])
    Traceback (most recent call last):
    FileNotFoundError: no/such/model: the folder no/such does not exist; make it first
    """
    check_folder_of(path)
    if path.is_symlink() or (path.exists() and not _replaceable(path, names)):
        raise FileExistsError(
            f"{path}: something else than a saved model is there; choose another name, or remove it"
        )


def read_folder(path: str | Path, names: Collection[str]) -> dict[str, bytes]:
    """The files of these names, as ``write_folder`` wrote them, to the byte and with nothing beside them.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as home:
    ...     write_folder(Path(home, "model"), {"a.json": b"{}"})
    ...     read_folder(Path(home, "model"), ["a.json"])
    {'a.json': b'{}'}
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such model; name a folder that save wrote")
    if not path.is_dir():
        raise DamagedModelError(f"{path}: this is a file, and a saved model is a folder; name the folder")
    expected = {*names, DIGESTS}
    found = set(os.listdir(path))
    for name in sorted(expected - found):
        raise DamagedModelError(f"{path / name}: the file is missing; save the model again")
    for name in sorted(found - expected):
        raise DamagedModelError(f"{path / name}: the file is no part of a saved model; remove it")
    for name in sorted(expected):
        if not (path / name).is_file():
            raise DamagedModelError(f"{path / name}: this is not a file; save the model again")
    files = {name: (path / name).read_bytes() for name in names}
    listed = (path / DIGESTS).read_bytes()
    for name, content in files.items():
        if _line(name, content) not in listed:
            raise DamagedModelError(
                f"{path}: {name} and {DIGESTS} disagree: one of them was changed; save the model again"
            )
    if listed != _digests(files):
        raise DamagedModelError(f"{path / DIGESTS}: the file was changed; save the model again")
    return files


def _replaceable(path: Path, names: Collection[str]) -> bool:
    """Whether a folder is empty, or holds what ``write_folder`` writes and nothing else."""
    return path.is_dir() and set(os.listdir(path)) in (set[str](), {*names, DIGESTS})


def _line(name: str, content: bytes) -> bytes:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n".encode()


def _digests(files: Mapping[str, bytes]) -> bytes:
    return b"".join(_line(name, content) for name, content in sorted(files.items()))
