"""The results file: one JSON line for each finished run, written whole or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.configuration import Run

Record = dict[str, Any]


def read(path: Path) -> list[Record]:
    """All records; a last line torn by a kill is cut off the file, any other damage is an error."""
    if not path.exists():
        return []
    raw = path.read_bytes()
    whole = raw[: raw.rfind(b"\n") + 1]
    if len(whole) < len(raw):
        os.truncate(path, len(whole))
    records: list[Record] = []
    for number, line in enumerate(whole.decode().splitlines(), 1):
        try:
            records.append(json.loads(line))
        except json.JSONDecodeError as damage:
            raise ValueError(
                f"{path}, line {number}, is no JSON: remove the line to repeat its run"
            ) from damage
    return records


def append(path: Path, record: Record) -> None:
    """Adds a record in one write and waits until it is on the disk."""
    line = json.dumps(record, allow_nan=False) + "\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.encode())
        os.fsync(file)
    finally:
        os.close(file)


def run_of(record: Record) -> Run:
    """The run that a record is the result of."""
    return Run(*(record[field] for field in Run._fields))


def finished(records: Iterable[Record]) -> set[str]:
    """The identities of finished runs."""
    return {run_of(record).identity for record in records}


def latest(records: Iterable[Record]) -> list[Record]:
    """The last record of each key: what an edited configuration has replaced is left out."""
    return list({run_of(record).key: record for record in records}.values())
