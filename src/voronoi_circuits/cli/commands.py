"""All commands under one name."""

from __future__ import annotations

from collections.abc import Callable
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
EXAMPLES: dict[Callable[..., None], tuple[str, ...]] = {
    fit: ("fit rows.csv -o model", "fit rows.csv -o model --model hfv --cells 8 --epochs 50 --seed 0"),
    score: ("score model rows.csv -o scores.csv",),
    sample: ("sample model -n 500 -o drawn.csv", "sample model -n 500 -o drawn.csv --given x=0.5 --seed 1"),
    certify: ("certify model", "certify model --tolerance 1e-4 --budget 300 --keep"),
    datasets: ("datasets", "datasets pinwheel -o rows.csv", "datasets pinwheel -o test.csv --split test"),
    demo: ("demo", "demo --epochs 100 --out pictures"),
    reproduce: ("reproduce synthetic --out results --quick", "reproduce synthetic --out results --seeds 3"),
}
for command, examples in EXAMPLES.items():
    lines = (f"  voronoi-circuits {example}" for example in examples)
    app.command(epilog="\n".join(("\b", "Examples:", *lines)))(command)


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
    """Density models with geometric regions, and a proof of how far each likelihood can be off."""
