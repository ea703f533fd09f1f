"""Proposition "Single-Layer Intractability": one oblique facet, and the integral no longer factors.

Run from the root of the repository: python -m examples.oblique_facet [folder, docs/images by default]
"""

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure

import voronoi_circuits as vc
from voronoi_circuits.models import VTModel
from voronoi_circuits.plots.style import DENSITY, picture, spaced

LINE = "#d55e00"


def standard_normal_experts() -> VTModel:
    """Two standard normal experts, gated by the centroids (0, 1) and (1, 0): V_1 = {x_2 > x_1}."""
    generator = torch.Generator().manual_seed(0)
    model = vc.VT(vc.Circuit(units=1), cells=2).build(torch.randn(100, 2, generator=generator), generator)
    with torch.no_grad():
        model.placed[0].tessellation.centroids.copy_(torch.tensor([[0.0, 1.0], [1.0, 0.0]]))
        for region in (0, 1):
            leaf, at = model.experts.circuit.leaf(region)
            leaf.location[:, at] = 0.0
            leaf.raw[:, at] = torch.tensor(1.0 - float(leaf.floor)).log()
    return model


def main(folder: Path, side: int = 400) -> dict[str, float]:
    model = standard_normal_experts()
    middles = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 12 - 6
    grid, area = torch.cartesian_prod(middles, middles), (12 / side) ** 2
    with torch.no_grad():
        p = model.log_unnormalized(grid).exp() * 2  # π_k = 1/2
    share = torch.heaviside(
        grid[:, 1] - grid[:, 0], torch.tensor(0.5, dtype=torch.float64)
    )  # of a square in V_1
    cell = (p * share).view(side, side).numpy()
    mass = cell.sum() * area
    shadows = 1.0  # V_1 casts the whole of each axis as its shadow, and each holds all of its marginal
    product = np.outer(cell.sum(1), cell.sum(0)) * area / mass
    distance = abs(cell - product).sum() * area / 2 / mass
    certificate = vc.certify(model)
    print(f"mass of V_1 under p_1:                     {mass:.4f}")
    print(f"product of the masses of its two shadows:  {shadows:.4f}")
    print(f"p_1 within V_1 against the product of its marginals: total variation {distance:.4f}")
    print(certificate)

    def draw() -> Figure:
        figure = Figure(figsize=(7.2, 3.9), layout=spaced())
        panels = figure.subplots(1, 2, sharey=True)
        titles = ["$p_1$ within $V_1$", "the product of its two marginals"]
        for axes, values, title in zip(panels, [cell, product], titles, strict=True):
            axes.imshow(values.T, DENSITY, extent=(-6, 6, -6, 6), origin="lower", vmin=0)
            axes.plot([-6, 6], [-6, 6], color=LINE, linewidth=1.3)
            axes.scatter([0, 1], [1, 0], color=LINE, edgecolors="white", zorder=3)
            axes.set(title=title, xlabel="$x_1$", xlim=(-3, 3), ylim=(-3, 3))
            axes.grid(visible=False)
        panels[0].set_ylabel("$x_2$")
        return figure

    picture(draw, folder / "oblique_facet.png")
    return {
        "mass": float(mass),
        "distance": float(distance),
        "lower": certificate.lower,
        "upper": certificate.upper,
    }


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
