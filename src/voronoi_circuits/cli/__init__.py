"""The command line: ``voronoi-circuits fit | score | sample | certify | datasets | demo | reproduce``."""

from __future__ import annotations

import typer

from voronoi_circuits.cli.commands import app

__all__ = ["app", "main"]


def main() -> None:
    """Runs a command; a mistake ends in one line on standard error and exit code 2."""
    try:
        app()
    except (ValueError, OSError) as error:
        typer.echo(f"error: {' '.join(str(error).split())}", err=True)
        raise SystemExit(2) from None
