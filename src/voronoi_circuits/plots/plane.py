"""Models of two variables: their density with the cells that gate it.

# n rows, K cells, S segments, G points on a side of the grid
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from numpy.typing import NDArray
from torch import Tensor

from voronoi_circuits.certificates.inner_boxes import conservative_box
from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.plots.style import DENSITY, PAPER, picture, spaced

Array = NDArray[np.float64]
BORDER, BOX, LINE = "#d55e00", "#f0a30a", 1.3
NATS_SHOWN = 9.0


def side_by_side(panels: Sequence[tuple[str, Model, Tensor]], path: str | Path) -> Path:
    """Densities with what gates them: a title, a model and rows (n, 2) that frame it for each panel.

    Colour is the log density, on one scale for all panels. A VT model shows its cells, centroids and the
    conservative inner boxes, an HFV model the grid of its intervals.

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     side_by_side([("VT", model, rows)], Path(folder) / "vt.png").name
    'vt.png'
    """
    if not panels:
        raise ValueError("panels is empty: give one (title, model, rows) for each panel")
    for title, model, rows in panels:
        if model.n_variables != 2 or rows.dim() != 2 or rows.shape[1] != 2 or len(rows) == 0:
            raise ValueError(f"panel {title!r}: give a model of two variables and rows (n, 2) that frame it")
    return picture(lambda: _side_by_side(panels), path)


def _side_by_side(panels: Sequence[tuple[str, Model, Tensor]]) -> Figure:
    lines = max(title.count("\n") for title, _, _ in panels)
    figure = Figure(figsize=(0.6 + 3.3 * len(panels), 3.9 + 0.2 * lines), layout=spaced())
    frames = [frame(rows) for _, _, rows in panels]
    densities = [log_density(model, *sides) for (_, model, _), sides in zip(panels, frames, strict=True)]
    top = max(float(values.max()) for values in densities)
    shades = Normalize(top - NATS_SHOWN, top)
    every = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, model, _), (low, high), values in zip(every, panels, frames, densities, strict=True):
        sides = (float(low[0]), float(high[0]), float(low[1]), float(high[1]))
        axes.imshow(values, DENSITY, shades, extent=sides, origin="lower", interpolation="bilinear")
        draw_gates(axes, model)
        axes.set(title=title, xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[])
        axes.spines[:].set_visible(True)
    bar = figure.colorbar(every[0].images[0], ax=list(every), shrink=0.72, aspect=24)
    bar.set_label("log density (nats)")
    bar.outline.set_visible(False)
    marks = legend(model for _, model, _ in panels)
    if marks:
        figure.legend(handles=marks, loc="outside lower center", ncols=len(marks))
    return figure


def legend(models: Iterable[Model]) -> list[Line2D | Patch]:
    """The marks that occur, in words."""
    kinds = {type(model) for model in models}
    marks: list[Line2D | Patch] = []
    if kinds & {VTModel, HFVModel}:
        marks.append(Line2D([], [], color=BORDER, linewidth=LINE, label="cell border"))
    if VTModel in kinds:
        marks.append(
            Line2D(
                [], [], color=BORDER, marker="o", markeredgecolor=PAPER, linestyle="none", label="centroid"
            )
        )
        marks.append(Patch(facecolor="none", edgecolor=BOX, linewidth=LINE, label="inner box"))
    return marks


def frame(rows: Tensor, margin: float = 0.06) -> tuple[Array, Array]:
    """A square about the rows: its lower left and upper right corner.

    >>> low, high = frame(torch.tensor([[0.0, 0.0], [2.0, 1.0]]), margin=0.0)
    >>> low.tolist(), high.tolist()
    ([0.0, -0.5], [2.0, 1.5])
    """
    points = rows.detach().double().numpy()
    low, high = points.min(0), points.max(0)
    centre, reach = (low + high) / 2, (high - low).max() / 2 * (1 + margin)
    return centre - reach, centre + reach


def log_density(model: Model, low: Array, high: Array, side: int = 300) -> Array:
    """log p at the middles of a grid (G, G), the second variable upwards; log f where Z is not exact."""
    steps = (np.arange(side) + 0.5) / side
    across, up = (low[i] + (high[i] - low[i]) * steps for i in (0, 1))
    grid = torch.from_numpy(np.stack(np.meshgrid(across, up), -1).reshape(-1, 2))
    density = model.log_prob if isinstance(model, ExactModel) else model.log_unnormalized
    with torch.no_grad():
        return torch.cat([density(rows) for rows in grid.split(10_000)]).view(side, side).numpy()


def draw_gates(axes: Axes, model: Model) -> None:
    """The cells of a model, on axes that show its density."""
    if isinstance(model, VTModel) and model.root_gate is not None:
        centroids = model.root_gate.tessellation.centroids.detach().double()
        borders = list(cell_borders(centroids.numpy()))
        axes.add_collection(LineCollection(borders, colors=BORDER, linewidths=LINE))
        low, high = (sides.numpy() for sides in conservative_box(centroids))
        for (x, y), (width, height) in zip(low, high - low, strict=True):
            if np.isfinite(width):
                axes.add_patch(Rectangle((x, y), width, height, fill=False, edgecolor=BOX, linewidth=LINE))
        axes.scatter(*centroids.numpy().T, s=26, color=BORDER, edgecolors=PAPER, linewidths=0.8, zorder=3)
    if isinstance(model, HFVModel):
        for index, region in enumerate(model.experts.circuit.graph.regions):
            if str(index) in model.intervals:
                line = axes.axvline if region.scope[0] == 0 else axes.axhline
                for edge in model.interval_cells(index).edges()[1][0, :-1].tolist():
                    line(edge, color=BORDER, linewidth=LINE)


def cell_borders(centroids: Array, reach: float = 1e3) -> Array:
    """The facets of a Voronoi diagram: centroids (K, 2) -> segments (S, 2, 2); endless ones are cut off.

    The facet of cells k and j is the part of m + t u, with m = (c_k + c_j)/2 and u at right angles to
    c_j - c_k, that no third centroid c_i is nearer to:

        t u·(c_i - c_k) <= (c_i - c_k)·((c_i + c_k)/2 - m),   |t| <= reach.

    >>> cell_borders(np.array([[-1.0, 0.0], [1.0, 0.0]]), reach=5.0).tolist()
    [[[0.0, -5.0], [0.0, 5.0]]]
    """
    found: list[Array] = []
    for k, j in zip(*np.triu_indices(len(centroids), 1), strict=True):
        across = centroids[j] - centroids[k]
        length = np.hypot(*across)
        if length == 0:
            continue
        middle = (centroids[k] + centroids[j]) / 2
        along = np.array([-across[1], across[0]]) / length
        others = np.delete(centroids, [k, j], axis=0) - centroids[k]
        room = (others * (others / 2 + centroids[k] - middle)).sum(1)
        slope = others @ along
        start = float(np.max(room[slope < 0] / slope[slope < 0], initial=-reach))
        end = float(np.min(room[slope > 0] / slope[slope > 0], initial=reach))
        if start < end and bool((room[slope == 0] >= 0).all()):
            found.append(np.stack([middle + start * along, middle + end * along]))
    return np.array(found).reshape(-1, 2, 2)
