"""The datasets by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from voronoi_circuits.circuits.region_graph import valid_name
from voronoi_circuits.datasets import available, load
from voronoi_circuits.tables import write_csv


def datasets(
    name: Annotated[str | None, typer.Argument(help="The set to write.", show_default=False)] = None,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="CSV file to write.", show_default=False)
    ] = None,
    split: Annotated[str, typer.Option(help="train, val or test.")] = "train",
    seed: Annotated[int, typer.Option(help="Seed of the set.")] = 0,
) -> None:
    """List the datasets, or write one of them as CSV, standardised."""
    if name is None:
        if out is not None:
            raise ValueError(f"-o {out}: name the dataset to write, such as pinwheel")
        for known in available():
            typer.echo(known)
        return
    if out is None:
        raise ValueError(f"{name}: say where to write it, such as -o {name}.csv")
    data = load(name, seed=seed)
    splits = {"train": data.train, "val": data.val, "test": data.test}
    rows = splits[valid_name("--split", split, tuple(splits))]
    write_csv(out, rows.astype(np.float64), data.columns)
    typer.echo(f"{out}: {len(rows)} rows of {data.name}", err=True)
