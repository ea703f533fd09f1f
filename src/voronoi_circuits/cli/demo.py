"""The main job in a minute or two: three models of one dataset, certified and drawn side by side."""

# n rows, D = 2 columns

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from torch import Tensor

from voronoi_circuits.certificates import certify
from voronoi_circuits.datasets import load
from voronoi_circuits.models.base import Kind, Model
from voronoi_circuits.plots import side_by_side
from voronoi_circuits.specs import HFV, VT, Circuit, Specification
from voronoi_circuits.tables import check_file_place
from voronoi_circuits.training import Adam, progress_bar

PICTURE = "demo.png"
MODELS: dict[str, Specification] = {
    "plain circuit": Circuit(units=10),
    "VT": VT(Circuit(units=10), cells=5),
    "HFV": HFV(Circuit(units=4), cells=3, units_per_cell=6),
}


def demo(
    out: Annotated[Path, typer.Option(help="Folder of the picture.")] = Path("out"),
    epochs: Annotated[int, typer.Option(help="Passes over the rows.")] = 60,
    seed: Annotated[int, typer.Option(help="Seed of data and models.")] = 0,
) -> None:
    """Fit a plain, a VT and an HFV circuit to pinwheel, certify them and draw them."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: this is a file; name a folder")
    out.mkdir(parents=True, exist_ok=True)
    check_file_place(out / PICTURE)
    torch.set_num_threads(1)  # tensors this small lose time to a second thread
    data = load("pinwheel", seed=seed)
    train, val, test = (torch.from_numpy(rows) for rows in (data.train, data.val, data.test))
    panels: list[tuple[str, Model, Tensor]] = []
    for name, specification in MODELS.items():
        generator = torch.Generator().manual_seed(seed)
        model = specification.build(train, generator)
        with progress_bar(f"{name:13}") as show:
            fitted = Adam(epochs=epochs).fit(model, train, val, generator=generator, progress=show)
        if fitted.interrupted:
            typer.echo(f"stopped after {fitted.epochs} epochs of the {name}: nothing is drawn", err=True)
            raise typer.Exit(130)
        typer.echo(report(name, model, test))
        panels.append((name, model, test))
    typer.echo(f"density, cells, centroids and boxes: {side_by_side(panels, out / PICTURE)}")


def report(name: str, model: Model, test: Tensor) -> str:
    """The test log-likelihood and its certificate, in a sentence."""
    certificate = certify(model, budget=10.0)
    with torch.no_grad():
        lower, upper = (float(side.mean()) for side in model.log_prob_bounds(test, certificate))
    if model.exactness.kind is Kind.EXACT:
        return f"{name}: {lower:.4f} nats a test row; {certificate}"
    return f"{name}: between {lower:.4f} and {upper:.4f} nats a test row; {certificate}"
