"""One run: build, learn, certify, score.

# n test rows, D variables
"""

from __future__ import annotations

import math
import os
import platform
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import voronoi_circuits
from experiments.configuration import Run, specification
from voronoi_circuits import datasets
from voronoi_circuits.certificates import certify
from voronoi_circuits.models.base import Interval, Model
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training import Adam, History


def execute(run: Run, folder: Path) -> dict[str, Any]:
    """The record of a run; parameters are written to ``folder`` where the run keeps them."""
    start = time.perf_counter()
    train, val, test = splits(run)
    model, generator = start_of(run, train)
    learner = Adam(**run.settings["learner"])
    fitted = learner.fit(model, train, val, generator=generator, certificate=epoch_certificate(run))
    learned = time.perf_counter()
    scores = score(model, test.double(), run.settings["certificates"])
    record = {
        **run._asdict(),
        "columns": model.n_variables,
        "parameters": model.n_parameters,
        "best_epoch": fitted.best_epoch,
        "scores": scores,
        "seconds": {"learning": learned - start, "scoring": time.perf_counter() - learned},
        "machine": machine(),
    }
    if run.settings["curve"]:
        record["curve"] = curve(fitted.history)
    if run.settings["keep"] and run.seed == 0:
        record["kept"] = keep(model, folder / f"{run.key}.safetensors")
    return record


def splits(run: Run) -> tuple[Tensor, Tensor, Tensor]:
    """Training, validation and test rows, standardised."""
    data = run.settings["data"]
    rows = datasets.load(run.name, seed=data["seed"], n=tuple(data["rows"]))
    train, val, test = (torch.from_numpy(part) for part in (rows.train, rows.val, rows.test))
    return train, val, test


def start_of(run: Run, train: Tensor) -> tuple[Model, torch.Generator]:
    """The model before its first epoch, and the generator that learning goes on with."""
    generator = torch.Generator().manual_seed(run.seed)
    return specification(run.settings["spec"]).build(train, generator), generator


def epoch_certificate(run: Run) -> Any:
    """What bounds log Z after each epoch: boxes limit it, never seconds, so one seed gives one result."""
    settings = {"budget": None, **run.settings["certificates"].get("epoch", {})}
    return lambda model: certify(model, **settings)


def score(model: Model, rows: Tensor, certificates: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Mean test log-likelihoods in nats.

    Exact models have one; a VT model has bounds by each certificate that scores it, and its ungated twin's.
    """
    with torch.no_grad():
        if not isinstance(model, VTModel):
            return {"exact": float(model.log_prob_bounds(rows)[0].mean())}
        scores: dict[str, Any] = {
            "unnormalized": float(model.log_unnormalized(rows).mean()),
            "ungated": float(model.ungated().log_prob(rows).mean()),
        }
        for name in certificates.keys() - {"epoch"}:
            certificate = certify(model, **certificates[name])
            scores[name] = {
                **bounds(model, rows, certificate),
                "log_z": finite([certificate.lower, certificate.upper]),
                "status": certificate.status.value,
                "boxes": certificate.boxes,
                "seconds": certificate.seconds,
            }
    return scores


def bounds(model: VTModel, rows: Tensor, certificate: Interval) -> dict[str, float | None]:
    """Bounds of the mean log-likelihood."""
    lower, upper = model.log_prob_bounds(rows, certificate)
    return dict(zip(("lower", "upper"), finite([float(lower.mean()), float(upper.mean())]), strict=True))


def finite(values: list[float]) -> list[float | None]:
    """Numbers that JSON can hold: an infinite bound, one that proves nothing, is None."""
    return [value if math.isfinite(value) else None for value in values]


def curve(history: History) -> dict[str, list[float | None]]:
    """The epochs of a run: inverse temperature and bounds of the validation log-likelihood."""
    return {name: finite(history[name]) for name in ("epoch", "alpha", "lower", "upper")}


def keep(model: Model, path: Path) -> str:
    """Writes parameters, whole or not at all; the name of the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}")
    save_file(model.state_dict(), unfinished)
    os.replace(unfinished, path)
    return path.name


def kept(run: Run, path: Path) -> tuple[Model, Tensor]:
    """The model of a finished run, as it was kept, and its training rows."""
    train, _, _ = splits(run)
    model, _ = start_of(run, train)
    model.load_state_dict(load_file(path))
    return model, train


def machine() -> dict[str, Any]:
    """Where a run took place, and on what."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "voronoi_circuits": voronoi_circuits.__version__,
        "system": f"{sys.platform} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """The processor's name, as the system gives it."""
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown"
