"""A fitted estimator as a folder: settings, structure and certificate in JSON, numbers in safetensors."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from voronoi_circuits.certificates import Certificate, Status, Step
from voronoi_circuits.estimator.columns import Columns
from voronoi_circuits.estimator.fitting import Fit
from voronoi_circuits.persistence import (
    DamagedModelError,
    describe,
    plain,
    read_folder,
    rebuild,
    restored,
    write_folder,
)
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture
from voronoi_circuits.tables.standard import StandardTransform
from voronoi_circuits.training import Adam, History

FORMAT, VERSION = "voronoi-circuits model", 1
DOCUMENT, NUMBERS = FILES = "model.json", "parameters.safetensors"
TYPES: Mapping[str, type] = {
    kind.__name__: kind for kind in (Circuit, Mixture, VT, HFV, Adam, Certificate, Status, Step)
}


def write(path: str | Path, settings: Mapping[str, object], fitted: Fit) -> None:
    """Writes settings and fit as a folder, whole or not at all."""
    columns, transform = fitted.columns, fitted.columns.transform
    document = {
        "format": FORMAT,
        "version": VERSION,
        "written_by": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("voronoi-circuits", "torch")},
        },
        "settings": {name: plain(value, name, TYPES) for name, value in settings.items()},
        "columns": {"names": plain(columns.names, "columns", TYPES), "kind": columns.kind},
        "structure": plain(describe(fitted.model), "model", TYPES),
        "certificate": plain(fitted.certificate, "certificate", TYPES),
        "history": [[plain(entry, "history", TYPES) for entry in row] for row in fitted.history.rows()],
        "epochs": fitted.epochs,
    }
    scale = {"mean": torch.from_numpy(transform.mean), "deviation": torch.from_numpy(transform.deviation)}
    state = {f"model.{name}": tensor.contiguous() for name, tensor in fitted.model.state_dict().items()}
    text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
    write_folder(path, {DOCUMENT: text.encode(), NUMBERS: safetensors.torch.save(scale | state)})


def read(path: str | Path) -> tuple[dict[str, Any], Fit]:
    """The settings and the fit that ``write`` wrote."""
    files = read_folder(path, FILES)
    document = json.loads(files[DOCUMENT])
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        found = f"{document.get('format')!r} version {document.get('version')!r}"
        raise ValueError(
            f"{Path(path) / DOCUMENT}: this is {found}, and this library reads {FORMAT!r} version {VERSION}"
        )
    try:
        return _restored(document, safetensors.torch.load(files[NUMBERS]))
    except (KeyError, TypeError) as error:
        raise DamagedModelError(
            f"{Path(path) / DOCUMENT}: this is not what save wrote ({error}); save the model again"
        ) from error


def _restored(document: Mapping[str, Any], numbers: dict[str, torch.Tensor]) -> tuple[dict[str, Any], Fit]:
    transform = StandardTransform(numbers.pop("mean").numpy(), numbers.pop("deviation").numpy())
    columns = Columns(restored(document["columns"]["names"], TYPES), document["columns"]["kind"], transform)
    state = {name.removeprefix("model."): tensor for name, tensor in numbers.items()}
    history = History()
    for row in document["history"]:
        history.append(**dict(zip(History.columns, (restored(entry, TYPES) for entry in row), strict=True)))
    fitted = Fit(
        rebuild(restored(document["structure"], TYPES), state),
        restored(document["certificate"], TYPES),
        history,
        document["epochs"],
        columns,
    )
    return {name: restored(value, TYPES) for name, value in document["settings"].items()}, fitted
