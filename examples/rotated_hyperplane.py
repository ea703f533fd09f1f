"""x_1 + x_2 = c: one pair of centroids states the boundary; axis-aligned cells climb it in stairs.

Run from the root of the repository: python -m examples.rotated_hyperplane [folder, docs/images by default]
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from scipy.stats import norm

from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.plots.style import picture, spaced

C = 0.5
LINE, SIDES = "#d55e00", ("#dfe8f4", "#4a78b8")


def staircase(k: int, steps: int = 4000) -> tuple[np.ndarray, np.ndarray, float]:
    """k × k cells of equal mass under N(0, I): inner edges, which cells lie above, the mass they misplace.

    A product cell lies on the side where it has more mass; the rest of it is misplaced, and no choice of
    sides for these cells misplaces less.
    """
    edges = norm.ppf(np.arange(1, k) / k)
    share = (np.arange(steps) + 0.5) / steps  # equal steps of mass along x_1
    x = norm.ppf(share)
    lower = np.concatenate([[0.0], norm.cdf(edges)])
    below = np.clip(norm.cdf(C - x)[:, None] - lower, 0, 1 / k) / steps
    cells = np.zeros((k, k))
    np.add.at(cells, np.searchsorted(edges, x), below)
    above = 1 / k**2 - cells
    return edges, above > cells, float(np.minimum(cells, above).sum())


def main(folder: Path, sizes: Sequence[int] = (2, 4, 8, 16), steps: int = 4000) -> dict[int, float]:
    pair = Tessellation(torch.tensor([[0.0, 0.0], [C, C]], dtype=torch.float64))
    rows = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    wrong = ((pair.nearest(rows) == 1) != (rows.sum(1) > C)).double().mean().item()
    print(f"VT, one pair of centroids: {wrong:.4f} of the mass misplaced")
    stairs = {k: staircase(k, steps) for k in sizes}
    for k, (_, _, misplaced) in stairs.items():
        print(f"HFV, {k:2} x {k:2} cells:        {misplaced:.4f} of the mass misplaced")

    def draw() -> Figure:
        figure = Figure(figsize=(2.6 * (1 + len(stairs)), 3.5), layout=spaced())
        panels = figure.subplots(1, 1 + len(stairs), sharey=True)
        panels[0].fill([-3, 3, 3, -3], [C + 3, C - 3, 9, 9], color=SIDES[1])
        panels[0].scatter([0, C], [0, C], color=LINE, edgecolors="white", zorder=3)
        panels[0].set_title("VT, one pair\nnone misplaced")
        for axes, (k, (edges, above, misplaced)) in zip(panels[1:], stairs.items(), strict=True):
            sides = np.concatenate([[-3], edges, [3]])
            axes.pcolormesh(sides, sides, above.T, cmap=ListedColormap(SIDES), vmin=0, vmax=1)
            axes.set_title(f"HFV, {k} x {k} cells\n{misplaced:.1%} misplaced")
        for axes in panels:
            axes.plot([-3, 3], [C + 3, C - 3], color=LINE, linewidth=1.3)
            axes.set(xlim=(-3, 3), ylim=(-3, 3), aspect="equal", facecolor=SIDES[0], xlabel="$x_1$")
            axes.grid(visible=False)
        panels[0].set_ylabel("$x_2$")
        return figure

    picture(draw, folder / "rotated_hyperplane.png")
    return {1: wrong} | {k: misplaced for k, (_, _, misplaced) in stairs.items()}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
