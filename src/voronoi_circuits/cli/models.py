"""What is done with a model: fit it to a file, score and sample with it, certify it."""

# n rows, D columns

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.progress import track

from voronoi_circuits.certificates import Step
from voronoi_circuits.certificates import certify as certified
from voronoi_circuits.estimator import VoronoiDensity, load
from voronoi_circuits.estimator.choices import chosen_model
from voronoi_circuits.estimator.saving import FILES
from voronoi_circuits.persistence import check_place
from voronoi_circuits.specs import Specification
from voronoi_circuits.tables import Rows, check_file_place, read_csv, write_csv
from voronoi_circuits.training import Adam

BATCH = 4096

Model = Annotated[Path, typer.Argument(help="Folder of a fitted model.", show_default=False)]
Data = Annotated[Path, typer.Argument(help="CSV file; its first line names the columns.", show_default=False)]
Out = Annotated[Path, typer.Option("-o", "--out", help="CSV file to write.", show_default=False)]


def fit(
    data: Data,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.", show_default=False)],
    model: Annotated[str, typer.Option(help="circuit, mixture, vt or hfv.")] = "vt",
    cells: Annotated[
        int | None,
        typer.Option(help="Cells; components of a mixture. Default: by the rows.", show_default=False),
    ] = None,
    units: Annotated[
        int | None,
        typer.Option(help="Units of the experts; of an HFV cell. Default: by model.", show_default=False),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Passes over the rows.")] = 100,
    validation: Annotated[
        Path | None, typer.Option(help="CSV file that chooses the best epoch. Default: a tenth of DATA.")
    ] = None,
    budget: Annotated[float, typer.Option(help="Seconds for the final certificate.")] = 10.0,
    seed: Annotated[int | None, typer.Option(help="Seed; the same one gives the same model.")] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Fit a model to the rows of a CSV file."""
    check_place(out, FILES)
    rows = table(data)
    held = None if validation is None else table(validation)
    density = VoronoiDensity(
        specification(model, cells, units, len(rows.values)),
        Adam(epochs=epochs),
        certify_budget=budget,
        random_state=seed,
        verbose=not quiet,
    )
    with warnings.catch_warnings(record=True, action="always", category=UserWarning) as told:
        density.fit(rows, X_val=held).save(out)
    for warning in told:
        typer.echo(f"note: {warning.message}", err=True)
    typer.echo(f"{out}: {density.model_.n_parameters} parameters. {density.certificate_}", err=True)


def score(model: Model, data: Data, out: Out) -> None:
    """Write lower and upper bounds of the log density of each row; empty cells are missing values.

    Densities are in the data's own units, in nats; an exact model gives the same number twice.
    """
    check_file_place(out)
    density, rows = load(model), table(data)
    starts = range(0, len(rows.values), BATCH)
    parts = [
        np.column_stack(density.score_bounds(Rows(rows.values[i : i + BATCH], rows.columns, rows.kind)))
        for i in track(starts, "score", console=Console(stderr=True), disable=len(starts) == 1)
    ]
    bounds = np.concatenate(parts)
    write_csv(out, bounds, ["lower", "upper"])
    lower, upper = bounds.mean(axis=0)
    typer.echo(f"{out}: {len(bounds)} rows, mean between {lower:.4f} and {upper:.4f} nats", err=True)


def sample(
    model: Model,
    out: Out,
    n: Annotated[int, typer.Option("-n", help="Rows to draw.")] = 1000,
    cell: Annotated[int | None, typer.Option(help="Draw from this cell alone, counted from 0.")] = None,
    given: Annotated[
        list[str] | None,
        typer.Option(
            help="column=value; may be repeated. Columns without names are x0, x1, ... or 0, 1, ...",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the draws.")] = None,
) -> None:
    """Draw rows from a model, exactly."""
    check_file_place(out)
    density = load(model)
    names = getattr(density, "feature_names_in_", None)
    columns = [f"x{i}" for i in range(density.n_features_in_)] if names is None else list(names)
    values = assignments(given or [], columns if names is None else ())
    drawn = density.sample(n, cell=cell, given=values, random_state=seed)
    write_csv(out, np.asarray(drawn, dtype=np.float64), columns)
    typer.echo(f"{out}: {n} rows", err=True)


def certify(
    model: Model,
    method: Annotated[str, typer.Option(help="auto, boxes or refine.")] = "auto",
    tolerance: Annotated[float, typer.Option(help="Gap in nats at which refinement stops.")] = 1e-3,
    budget: Annotated[float, typer.Option(help="Seconds after which it stops.")] = 60.0,
    max_boxes: Annotated[int, typer.Option(help="Boxes after which it stops.")] = 200_000,
    keep: Annotated[
        bool, typer.Option("--keep", help="Store what is proven in MODEL; later scores use it.")
    ] = False,
) -> None:
    """Bound the normalising constant of a model, and so every likelihood that it reports."""
    density = load(model)
    if keep:
        check_place(model, FILES)
    with Console(stderr=True).status("certify") as status:

        def show(step: Step) -> None:
            status.update(f"certify: {step.boxes} boxes, gap {step.upper - step.lower:.2g} nats")

        found = certified(density.model_, method, tolerance, budget, max_boxes=max_boxes, progress=show)
    if keep:
        density.certificate_ = density.certificate_.intersect(found)
        density.save(model)
    typer.echo(str(found))
    typer.echo(found.status.message)


def table(path: Path) -> Rows:
    """The rows of a CSV file under their names."""
    values, columns = read_csv(path)
    return Rows(values, columns, "numpy")


def specification(model: str, cells: int | None, units: int | None, n: int) -> str | Specification:
    """The model by name, or its specification for n rows with other cells and units.

    >>> specification("hfv", 3, None, 1000)
    HFV(cells=3, expert=Circuit(units=4), units_per_cell=4)
    """
    if cells is None and units is None:
        return model
    names = {
        "circuit": ("", "units"),
        "mixture": ("components", "expert__units"),
        "hfv": ("cells", "units_per_cell"),
    }
    of_cells, of_units = names.get(model, ("cells", "expert__units"))
    if cells is not None and not of_cells:
        raise ValueError(
            "--cells: a plain circuit has no cells; leave it out, or take --model mixture, vt or hfv"
        )
    chosen = {of_cells: cells, of_units: units}
    return chosen_model(model, n).set_params(
        **{name: size for name, size in chosen.items() if size is not None}
    )


def assignments(given: Sequence[str], unnamed: Sequence[str]) -> dict[str | int, float]:
    """Columns and their values, each column once; ``unnamed`` is what columns without names are called here.

    >>> assignments(["x1=2", "0=1.5"], ["x0", "x1"])
    {1: 2.0, 0: 1.5}
    """
    positions = {name: i for i, called in enumerate(unnamed) for name in (called, str(i))}
    values: dict[str | int, float] = {}
    for text in given:
        name, value = assignment(text)
        column = positions.get(name, name)
        if column in values:
            raise ValueError(f"--given {text}: column {name} has a value already; give each column one")
        values[column] = value
    return values


def assignment(text: str) -> tuple[str, float]:
    """A column and its value.

    >>> assignment("height=1.8")
    ('height', 1.8)
    """
    column, equals, value = text.rpartition("=")
    try:
        return column, float(value)
    except ValueError:
        remedy = "write a number after =" if equals else "write it as column=value"
        raise ValueError(f"--given {text}: {remedy}") from None
