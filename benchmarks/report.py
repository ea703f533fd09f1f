"""What a run found, as a table to read and a file to compare with."""

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

import torch

from benchmarks.training_step import LIBRARIES, OPTIMISER, ROWS, TOLERANCE, Timing

SWITCHES = ("OMP_NUM_THREADS", "OMP_WAIT_POLICY")
PACKAGES = ("voronoi-circuits", "libcirkit", "torch", "numpy")


def machine() -> dict[str, object]:
    """Where the times come from: processor, threads, versions, and the load that others put on it."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        **{switch: os.environ[switch] for switch in SWITCHES if switch in os.environ},
        "load": round(os.getloadavg()[0], 1),
        "system": platform.system(),
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def _processor() -> str:
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text().splitlines() if listing.exists() else []
    named = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in lines)}
    known = " ".join(f"{key} {named[key]}" for key in ("cpu family", "model") if key in named)
    return f"{named.get('model name', platform.processor() or platform.machine())} {known}".strip()


def table(timings: Sequence[Timing]) -> str:
    """Milliseconds a step and their ratio, in Markdown."""
    lines = [
        "| structure | D | units | " + " | ".join(f"{name}, ms" for name in LIBRARIES) + " | ratio |",
        "|---|" + "---:|" * (3 + len(LIBRARIES)),
    ]
    for timing in timings:
        case = timing.case
        times = " | ".join(f"{1e3 * timing.seconds[name]:.2f}" for name in LIBRARIES)
        cells = f"| {case.structure} | {case.variables} | {case.units} | {times} | {timing.ratio:.2f} |"
        lines.append(cells)
    return "\n".join(lines)


def write(
    folder: Path, timings: Sequence[Timing], settings: dict[str, int], where: dict[str, object]
) -> None:
    """training_step.json, and training_step.md made of it."""
    folder.mkdir(parents=True, exist_ok=True)
    cells = [asdict(timing) | {"ratio": timing.ratio} for timing in timings]
    record = {"machine": where, "rows": ROWS, "optimiser": OPTIMISER, **settings, "cells": cells}
    (folder / "training_step.json").write_text(json.dumps(record, indent=2) + "\n")
    worst = max(timing.disagreement for timing in timings)
    facts = "\n".join(f"- {key}: {value}" for key, value in where.items())
    given = ", ".join(f"{key} {value}" for key, value in settings.items())
    text = f"""# A training step, ours and libcirkit's

Written by `python -m benchmarks`. Milliseconds of forward, loss, backward and Adam on {ROWS} rows in float32,
the fastest of interleaved rounds ({given}). The ratio is ours over libcirkit's. On the same parameters
the float64 log-likelihoods differ by at most {worst:.0e} nats (allowed: {TOLERANCE:.0e}).

{table(timings)}

{facts}
"""
    (folder / "training_step.md").write_text(text)
