"""The paper's tables and figures, from a checkout."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from voronoi_circuits.circuits.region_graph import valid_name


def reproduce(
    what: Annotated[str, typer.Argument(help="synthetic", show_default=False)],
    out: Annotated[Path, typer.Option(help="Folder of results and figures.", show_default=False)],
    quick: Annotated[
        bool, typer.Option("--quick", help="A small part of it with one seed, in minutes.")
    ] = False,
    seeds: Annotated[
        int | None,
        typer.Option(
            help="Runs of each model on each set. Default: 3, or 1 with --quick.", show_default=False
        ),
    ] = None,
) -> None:
    """Run the paper's experiments and draw their figures; a run that was killed goes on where it stopped."""
    valid_name("experiment", what, ("synthetic",))
    if quick and seeds not in (None, 1):
        raise ValueError(f"--seeds {seeds}: --quick runs one seed; leave one of them out")
    if seeds is None:
        seeds = 1 if quick else 3
    here = Path.cwd()
    if (here / "experiments" / f"{what}.py").is_file():
        sys.path.insert(0, str(here))
    try:
        experiment = import_module(f"experiments.{what}")
    except ModuleNotFoundError as error:
        if error.name not in ("experiments", f"experiments.{what}"):
            raise
        raise ValueError("the experiments are not installed: run this in a checkout of the project") from None
    experiment.main(out, quick=quick, seeds=seeds)
