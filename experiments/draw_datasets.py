"""Draw the synthetic sets: all eight (datasets.png), and both readings of the spiral (spirals.png).

Run from the root of the repository: python experiments/draw_datasets.py [folder, docs/images by default]
"""

import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure

from voronoi_circuits import datasets

INK = "#1f2a44"
FAR_TO_NEAR = LinearSegmentedColormap.from_list("far to near", ["#bfd2ec", "#4a78b8", INK])
STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titlecolor": INK,
    "axes.titlepad": 8,
    "figure.constrained_layout.h_pad": 0.12,
    "figure.constrained_layout.w_pad": 0.12,
    "savefig.dpi": 160,
}
CAMERA = {  # elevation and azimuth in degrees, chosen so that every crossing can be read
    "bent_lissajous": (24, -62),
    "interlocked_circles": (28, -58),
    "knotted": (84, -90),
    "twisted_eight": (28, -58),
}


def project(rows: np.ndarray, elevation: float, azimuth: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows (n, 3) -> their orthographic picture (n, 2) and how near each is to the eye (n,)."""
    up, around = np.radians([elevation, azimuth])
    right = np.array([-np.sin(around), np.cos(around), 0.0])
    eye = np.array([np.cos(up) * np.cos(around), np.cos(up) * np.sin(around), np.sin(up)])
    return rows @ np.stack([right, np.cross(eye, right)], axis=1), rows @ eye


def draw(axes: Axes, data: datasets.Dataset, title: str) -> None:
    """Scatter the training rows; in space, near is dark and drawn over what is far."""
    if len(data.columns) == 2:
        points, look = data.train, {"color": FAR_TO_NEAR(0.6), "s": 1.6, "alpha": 0.5}
    else:
        points, nearness = project(data.train, *CAMERA[data.name])
        order = np.argsort(nearness)
        points, look = points[order], {"c": nearness[order], "cmap": FAR_TO_NEAR, "s": 4.0}
    axes.scatter(*points.T, linewidths=0, clip_on=False, **look)
    low, high = points.min(axis=0), points.max(axis=0)
    middle, reach = (low + high) / 2, (high - low).max() / 2
    axes.set_xlim(middle[0] - reach, middle[0] + reach)
    axes.set_ylim(middle[1] - reach, middle[1] + reach)
    axes.set_aspect("equal")
    axes.set_title(title)
    axes.axis("off")


def all_eight() -> Figure:
    figure = Figure(figsize=(11, 6), layout="constrained")
    for axes, name in zip(figure.subplots(2, 4).flat, datasets.available(), strict=True):
        draw(axes, datasets.load(name, seed=0), name.replace("_", " "))
    return figure


def both_spirals() -> Figure:
    figure = Figure(figsize=(6, 3.4), layout="constrained")
    titles = {"literal": "literal: θ up to 15.7", "usual": "usual: θ up to 6.3"}
    for axes, (arc, title) in zip(figure.subplots(1, 2), titles.items(), strict=True):
        draw(axes, datasets.load("spiral", seed=0, arc=arc), title)
    return figure


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images")
    folder.mkdir(parents=True, exist_ok=True)
    mpl.use("Agg")
    with mpl.rc_context(STYLE):
        all_eight().savefig(folder / "datasets.png")
        both_spirals().savefig(folder / "spirals.png")
