"""Records as runs write them, without running anything."""

from collections.abc import Mapping
from typing import Any

from experiments import configuration
from experiments.configuration import Run
from experiments.results import Record

MACHINE = {"python": "3.11.9", "torch": "2.13.0", "voronoi_circuits": "0.1.0", "processor": "a", "cores": 2}


def grid(seeds: int = 2) -> list[Run]:
    return configuration.grid(configuration.read(), seeds)


def record(run: Run, value: float) -> Record:
    """A record whose scores follow from one value: boxes are 0.2 below the refined bound."""
    refined = {"lower": value, "upper": value + 0.01, "log_z": [-0.11, -0.1], "boxes": 900, "seconds": 0.5}
    boxes = {"lower": value - 0.2, "upper": value + 0.3, "log_z": [-0.4, 0.0], "boxes": 10, "seconds": 0.1}
    bounds = {"unnormalized": value - 0.2, "ungated": value - 0.1, "refined": refined, "boxes": boxes}
    out: dict[str, Any] = {
        **run._asdict(),
        "columns": 2,
        "parameters": 160,
        "best_epoch": 3,
        "scores": bounds if run.settings["spec"]["kind"] == "vt" else {"exact": value},
        "seconds": {"learning": 9.0, "scoring": 1.0},
        "machine": MACHINE,
    }
    if run.settings["curve"]:
        sides = {"lower": [value - 1, value], "upper": [None, value]}
        out["curve"] = {"epoch": [1, 2], "alpha": [1.0, 50.0], **sides}
    return out


def records(seeds: int = 2, values: Mapping[str, float] | None = None) -> list[Record]:
    """The whole grid, each model at a value of its own, the seeds 0.2 apart."""
    levels = values or {}
    return [record(run, levels.get(run.model, -1.0) + 0.2 * run.seed) for run in grid(seeds)]
