"""Example "Two-Level Interaction": a gate at the root and one at its left child, x_1 to x_4.

The root's gate says x_1 + x_2 + x_3 + x_4 <= c_1, the left child's x_1 − x_2 <= c_2. Once x_3 and x_4 are
summed out, the root's constraint on (x_1, x_2) is no half-plane any more.

Run from the root of the repository: python -m examples.two_level [folder, docs/images by default]
"""

import sys
from pathlib import Path

import torch
from matplotlib.figure import Figure

import voronoi_circuits as vc
from voronoi_circuits.certificates import integral_bounds
from voronoi_circuits.circuits import Region, RegionGraph
from voronoi_circuits.models import VTModel
from voronoi_circuits.plots.style import DENSITY, INK, picture, spaced

C1, C2 = 0.6, 0.5
VTREE = RegionGraph((
    *(Region((v,), 2, "leaf", leaf="gaussian") for v in range(4)),
    Region((0, 1), 2, "cp", (0, 1)),
    Region((2, 3), 2, "cp", (2, 3)),
    Region((0, 1, 2, 3), 1, "cp", (4, 5)),
))  # fmt: skip


def nested() -> VTModel:
    """Two cells at the root, two at the region (0, 1) below it."""
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(500, 4, generator=generator)
    spec = vc.VT(vc.Circuit(VTREE), cells=2, gate_at=["root", (0, 1)])
    model = spec.build(rows, generator).double()
    root, left = model.placed
    with torch.no_grad():
        root.tessellation.centroids.copy_(C1 / 4 + torch.tensor([[-0.5], [0.5]]).expand(2, 4))
        left.tessellation.centroids.copy_(
            torch.tensor([[C2 / 2 - 0.5, 0.5 - C2 / 2], [C2 / 2 + 0.5, -0.5 - C2 / 2]])
        )
    return model


def marginal(model: VTModel, seen: torch.Tensor, nodes: int) -> torch.Tensor:
    """∫ f dx_3 dx_4 at the rows (x_1, x_2), by a lattice of nodes² points, no two with one sum x_3 + x_4."""
    i = torch.arange(nodes**2, dtype=torch.float64) + 0.5
    rest = torch.stack([i / nodes**2, i * (5**0.5 - 1) / 2 % 1], 1) * 10 - 5
    total = torch.zeros(len(seen), dtype=torch.float64)
    with torch.no_grad():
        for i, part in enumerate(seen.split(200)):
            rows = torch.cat([part.repeat_interleave(len(rest), 0), rest.repeat(len(part), 1)], 1)
            found = model.log_unnormalized(rows).exp().view(len(part), -1).sum(1) * (10 / nodes) ** 2
            total[200 * i : 200 * i + len(part)] = found
    return total


def main(folder: Path, side: int = 60, nodes: int = 28, boxes: int = 80_000) -> dict[str, float]:
    model = nested()
    certificate = vc.certify(model, max_boxes=boxes)
    print(certificate)
    axis = (torch.arange(side, dtype=torch.float64) + 0.5) / side * 6 - 3
    plane = marginal(model, torch.cartesian_prod(axis, axis), nodes).view(side, side)
    z = float(plane.sum()) * (6 / side) ** 2
    print(f"Z by quadrature on [-3, 3]^2 x [-5, 5]^2: {z:.3f}")
    line = torch.linspace(-2, 2, 17, dtype=torch.float64)
    seen = torch.stack([line, line], 1)
    truth = marginal(model, seen, 4 * nodes)
    rows = torch.cat([seen, torch.full_like(seen, torch.nan)], 1)
    low, high = (bound.exp() for bound in integral_bounds(model, rows, max_boxes=64))

    def draw() -> Figure:
        figure = Figure(figsize=(8.4, 3.9), layout=spaced())
        left, right = figure.subplots(1, 2)
        left.imshow(plane.T.numpy(), DENSITY, extent=(-3, 3, -3, 3), origin="lower")
        left.plot([-3, 3], [-3 - C2, 3 - C2], color="#d55e00", linewidth=1.3, label="left gate")
        for rest, dashes in zip((-1.5, 0.0, 1.5), ("dotted", "dashed", "dashdot"), strict=True):
            label = f"root gate where $x_3 + x_4 = {rest:g}$"
            left.plot([-3, 3], [C1 - rest + 3, C1 - rest - 3], color="#009e73", linestyle=dashes, label=label)
        left.set(title="$f$ without $x_3, x_4$", xlabel="$x_1$", ylabel="$x_2$", xlim=(-3, 3), ylim=(-3, 3))
        left.grid(visible=False)
        left.legend(fontsize=7, loc="upper left", frameon=True)
        right.fill_between(
            line.numpy(), low.numpy(), high.numpy(), color="#d55e00", alpha=0.3, label="certified, 64 boxes"
        )
        right.plot(line.numpy(), truth.numpy(), color=INK, label="quadrature")
        right.set(title="along $x_1 = x_2$", xlabel="$x_1 = x_2$", ylim=(0, None))
        right.legend()
        return figure

    picture(draw, folder / "two_level.png")
    return {"z": z, "lower": certificate.lower, "upper": certificate.upper}


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/images"))
