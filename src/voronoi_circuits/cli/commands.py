"""All commands under one name."""

from __future__ import annotations

from typing import Annotated

import typer

from voronoi_circuits import __version__
from voronoi_circuits.cli.data import datasets
from voronoi_circuits.cli.demo import demo
from voronoi_circuits.cli.models import certify, fit, sample, score
from voronoi_circuits.cli.reproduce import reproduce

app = typer.Typer(
    name="voronoi-circuits",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (fit, score, sample, certify, datasets, demo, reproduce):
    app.command()(command)


def show_version(wanted: bool) -> None:
    """Prints the version and ends."""
    if wanted:
        typer.echo(f"voronoi-circuits {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    r"""Density models with geometric regions, and a proof of how far each likelihood can be off.

    \b
    voronoi-circuits datasets pinwheel -o rows.csv
    voronoi-circuits fit rows.csv -o model
    voronoi-circuits score model rows.csv -o scores.csv
    """
