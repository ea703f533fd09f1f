"""Figures of plain tables: a list of dicts in, one for each point, and no model anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from numpy.typing import NDArray

from voronoi_circuits.plots.style import COLOURS, FAINT, GRID, INK, LOOKS, PAPER, picture, spaced

Row = Mapping[str, Any]
Array = NDArray[np.float64]


def synthetic_figure(rows: Sequence[Row], path: str | Path) -> Path:
    """Test log-likelihoods, a panel for each set: mean and deviation over seeds.

    Columns: ``set``, ``structure``, ``model`` (its label), ``look`` (a key of LOOKS), ``ours`` (drawn
    hollow), ``mean``, ``deviation``.

    >>> row = {"set": "spiral", "structure": "HCLT", "model": "VT", "look": "vt", "ours": False}
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     synthetic_figure([{**row, "mean": 1.0, "deviation": 0.1}], Path(folder) / "synthetic.png").name
    'synthetic.png'
    """
    return picture(lambda: _synthetic_figure(some(rows)), path)


def _synthetic_figure(rows: Sequence[Row]) -> Figure:
    sets, structures, models = (distinct(rows, name) for name in ("set", "structure", "model"))
    across = min(4, len(sets))
    down = -(-len(sets) // across)
    figure = Figure(figsize=(max(2.6 * across, 7.0), 1.1 + 2.5 * down), layout=spaced())
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for axes, name in zip(panels, sets, strict=False):
        for row in (row for row in rows if row["set"] == name):
            shift = (models.index(row["model"]) + 0.5) / len(models) - 0.5
            place = structures.index(row["structure"]) + 0.78 * shift
            axes.errorbar(place, row["mean"], row["deviation"], capsize=2, elinewidth=1, **mark(row))
        axes.set(title=name, xlim=(-0.5, len(structures) - 0.5))
        axes.set_xticks(range(len(structures)), structures)
        axes.tick_params(axis="x", length=0)
        axes.grid(visible=False, axis="x")
        for border in range(1, len(structures)):
            axes.axvline(border - 0.5, color=GRID, linewidth=0.8, zorder=0)
        axes.margins(y=0.12)
    for axes in panels[len(sets) :]:
        axes.set_visible(False)
    figure.supylabel("test log-likelihood (nats)", color=INK, fontsize=10)
    first = first_rows(rows)
    marks = [Line2D([], [], label=name, **mark(first[name])) for name in models]
    figure.legend(handles=marks, loc="outside lower center", ncols=min(4, len(marks)))
    return figure


def mark(row: Row) -> dict[str, Any]:
    """Colour and shape of a row's model; hollow where the setting is ours."""
    colour, shape = LOOKS[row["look"]]
    face = PAPER if row["ours"] else colour
    return {"color": colour, "marker": shape, "markerfacecolor": face, "markersize": 6, "linestyle": "none"}


def learning_curves(rows: Sequence[Row], path: str | Path) -> Path:
    """Validation log-likelihood by epoch: a line at ``lower``, shaded up to ``upper``.

    Columns: ``panel``, ``model`` (its label), ``look`` (a key of LOOKS), ``ours`` (dashed), ``epoch``,
    ``lower``, ``upper``.

    >>> row = {"panel": "HCLT", "model": "VT", "look": "vt", "ours": False}
    >>> rows = [{**row, "epoch": epoch, "lower": epoch, "upper": epoch + 0.5} for epoch in (1, 2)]
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     learning_curves(rows, Path(folder) / "curves.png").name
    'curves.png'
    """
    return picture(lambda: _learning_curves(some(rows)), path)


def _learning_curves(rows: Sequence[Row]) -> Figure:
    panels, models = distinct(rows, "panel"), distinct(rows, "model")
    across = min(2, len(panels))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(0.4 + 4.2 * across, 1.0 + 3.0 * down), layout=spaced())
    grid = figure.subplots(down, across, squeeze=False, sharex=True, sharey=True)
    for axes, panel in zip(grid.flat, panels, strict=False):
        for model in models:
            _curve(axes, [row for row in rows if (row["panel"], row["model"]) == (panel, model)])
        axes.set(title=panel)
    for axes in list(grid.flat)[len(panels) :]:
        axes.set_visible(False)
    for axes in grid[-1]:
        axes.set_xlabel("epoch")
    grid[0, 0].set_ylim(*limits(column(rows, "lower"), column(rows, "upper")))
    figure.supylabel("validation log-likelihood (nats)", color=INK, fontsize=10)
    first = first_rows(rows)
    marks: list[Line2D | Patch] = [Line2D([], [], label=name, **line(first[name])) for name in models]
    marks.append(Patch(facecolor=FAINT, alpha=0.4, linewidth=0, label="certified interval"))
    figure.legend(handles=marks, loc="outside lower center", ncols=min(across + 1, len(marks)))
    return figure


def _curve(axes: Axes, rows: Sequence[Row]) -> None:
    if rows:
        epochs, lower, upper = (column(rows, name) for name in ("epoch", "lower", "upper"))
        axes.fill_between(epochs, lower, upper, color=LOOKS[rows[0]["look"]][0], alpha=0.16, linewidth=0)
        axes.plot(epochs, lower, **line(rows[0]))


def line(row: Row) -> dict[str, Any]:
    """Colour of a row's model; dashed where the setting is ours."""
    return {"color": LOOKS[row["look"]][0], "linestyle": "--" if row["ours"] else "-", "linewidth": 1.8}


def limits(lower: Array, upper: Array) -> tuple[float, float]:
    """Limits of an axis that leave out the lowest twentieth of the lower curves, where training starts.

    >>> low, high = limits(np.array([-500.0] + 39 * [1.0]), np.full(40, 2.0))
    >>> low > 0, high > 2
    (True, True)
    """
    low, high = float(np.quantile(lower, 0.05)), float(np.max(upper[np.isfinite(upper)]))
    return low - 0.1 * (high - low), high + 0.05 * (high - low)


def gap_curves(rows: Sequence[Row], path: str | Path) -> Path:
    """The gap of a certificate against boxes and against seconds, on logarithmic axes.

    Columns: ``curve`` (its label), ``dimension``, ``boxes``, ``seconds``, ``gap``. Dotted lines leave from
    the start of each curve with the theorem's slope, gap ~ boxes^(-1/D).

    >>> row = {"curve": "D = 2", "dimension": 2, "seconds": 1.0}
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     gap_curves([{**row, "boxes": n, "gap": 1 / n} for n in (10, 99)], Path(folder) / "gap.png").name
    'gap.png'
    """
    return picture(lambda: _gap_curves(some(rows)), path)


def _gap_curves(rows: Sequence[Row]) -> Figure:
    figure = Figure(figsize=(8.6, 3.9), layout=spaced())
    by_boxes, by_seconds = figure.subplots(1, 2, sharey=True)
    names = distinct(rows, "curve")
    for name, colour in zip(names, cycle(COLOURS), strict=False):
        curve = [row for row in rows if row["curve"] == name and row["gap"] > 0]
        boxes, seconds, gap = (column(curve, part) for part in ("boxes", "seconds", "gap"))
        theorem = gap[:1] * (boxes / boxes[:1]) ** (-1.0 / curve[0]["dimension"])
        by_boxes.loglog(boxes, theorem, color=colour, linewidth=1.0, linestyle=":", zorder=3)
        by_boxes.loglog(boxes, gap, color=colour, linewidth=1.8)
        by_seconds.loglog(seconds, gap, color=colour, linewidth=1.8)
    by_boxes.set(xlabel="boxes", ylabel="gap of log Z (nats)")
    by_seconds.set(xlabel="seconds")
    colours = dict(zip(names, cycle(COLOURS), strict=False))
    marks = [Line2D([], [], color=colour, linewidth=1.8, label=name) for name, colour in colours.items()]
    marks.append(Line2D([], [], color=FAINT, linewidth=1.0, linestyle=":", label="the theorem's slope, −1/D"))
    figure.legend(handles=marks, loc="outside lower center", ncols=min(5, len(marks)))
    return figure


def some(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows, refused where there are none."""
    if not rows:
        raise ValueError("rows is empty, so there is nothing to draw: give one dict for each point")
    return rows


def column(rows: Iterable[Row], name: str) -> Array:
    """A column as numbers."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def distinct(rows: Iterable[Row], name: str) -> list[Any]:
    """The values of a column, each once, in the order in which they come.

    >>> distinct([{"a": 2}, {"a": 1}, {"a": 2}], "a")
    [2, 1]
    """
    return list(dict.fromkeys(row[name] for row in rows))


def first_rows(rows: Sequence[Row]) -> dict[str, Row]:
    """The first row of each model."""
    return {row["model"]: row for row in reversed(rows)}
