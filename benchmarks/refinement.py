"""How fast refinement closes the gap: boxes and seconds, for two to five variables.

    python -m benchmarks.refinement              measure, then draw
    python -m benchmarks.refinement --draw       draw and tabulate again from the results alone

# D variables, K = 10 cells
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch

from voronoi_circuits.certificates import Step, certify
from voronoi_circuits.plots import gap_curves
from voronoi_circuits.specs import VT, Circuit
from voronoi_circuits.training import Adam

RESULTS = Path(__file__).parent / "results" / "refinement.json"
IMAGE = Path(__file__).parents[1] / "docs" / "images" / "refinement.png"
PAGE = Path(__file__).parents[1] / "docs" / "refinement.md"
DIMENSIONS, CELLS, UNITS, EPOCHS = (2, 3, 4, 5), 10, 5, 20
MAX_BOXES, SECONDS = 400_000, 60.0


def rows(variables: int, n: int = 2000) -> torch.Tensor:
    """Ten Gaussian clusters of random shapes, standardised."""
    generator = torch.Generator().manual_seed(variables)
    centres = 2.0 * torch.randn(CELLS, variables, generator=generator)
    shapes = 0.5 * torch.randn(CELLS, variables, variables, generator=generator)
    own = torch.randint(CELLS, (n,), generator=generator)
    noise = torch.randn(n, 1, variables, generator=generator)
    found = centres[own] + (noise @ shapes[own]).squeeze(1)
    return (found - found.mean(0)) / found.std(0)


def measure() -> dict[str, Any]:
    """The history of the bounds of one trained model for each D."""
    curves = []
    for variables in DIMENSIONS:
        generator = torch.Generator().manual_seed(0)
        x = rows(variables)
        model = VT(Circuit(units=UNITS), cells=CELLS).build(x, generator)
        Adam(epochs=EPOCHS).fit(model, x, generator=generator)
        found = certify(model, "refine", tolerance=1e-3, budget=SECONDS, max_boxes=MAX_BOXES)
        curves.append({"variables": variables, "status": found.status.value, "history": found.history})
        print(variables, found)
    return {"cells": CELLS, "units": UNITS, "epochs": EPOCHS, "machine": machine(), "curves": curves}


def machine() -> dict[str, Any]:
    """Where it was measured."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return {
        "processor": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def gaps(curve: dict[str, Any]) -> np.ndarray:
    """Boxes, seconds and the gap Z⁺ − Z⁻, (steps, 3), where something is proven from below."""
    steps = [Step(*step) for step in curve["history"]]
    return np.array([
        (step.boxes, step.seconds, step.upper - step.lower) for step in steps if step.lower > -math.inf
    ])  # fmt: skip


def slope(curve: dict[str, Any]) -> float:
    """The slope of log gap against log boxes over the last factor of thirty in boxes."""
    points = gaps(curve)
    last = points[points[:, 0] >= points[-1, 0] / 30]
    return float(np.polyfit(np.log(last[:, 0]), np.log(last[:, 2]), 1)[0])


def draw(results: dict[str, Any]) -> None:
    """Gap against boxes, with the theorem's slope, and against seconds."""
    rows = [
        {"curve": f"D = {curve['variables']}", "dimension": curve["variables"]}
        | dict(zip(("boxes", "seconds", "gap"), point.tolist(), strict=True))
        for curve in results["curves"]
        for point in gaps(curve)
    ]
    gap_curves(rows, IMAGE)


def table(results: dict[str, Any]) -> str:
    """The measured curves in Markdown."""
    lines = [
        "| D | gap at 1,000 boxes | at 10,000 | at 100,000 | last | boxes | seconds | slope | −1/D |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for curve in results["curves"]:
        points, d = gaps(curve), curve["variables"]
        marks = [next((f"{p[2]:.2g}" for p in points if p[0] >= n), "") for n in (1e3, 1e4, 1e5)]
        last = f"{points[-1, 2]:.2g} | {int(points[-1, 0]):,} | {points[-1, 1]:.1f}"
        lines.append(f"| {d} | {' | '.join(marks)} | {last} | {slope(curve):.2f} | {-1 / d:.2f} |")
    return "\n".join(lines)


def write(results: dict[str, Any]) -> None:
    """Puts the table and the machine into the page, between its two marks."""
    where = results["machine"]
    about = (
        f"{results['cells']} independent cells of {results['units']} units, {results['epochs']} epochs; "
        f"{where['processor']}, {where['threads']} of {where['cores']} cores, Python {where['python']}, "
        f"torch {where['torch']}."
    )
    start, end = "<!-- measured -->\n", "<!-- end -->"
    before, rest = PAGE.read_text().split(start)
    PAGE.write_text(f"{before}{start}{table(results)}\n\n{about}\n{end}{rest.split(end)[1]}")


def main() -> None:
    """Measure unless told only to draw."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draw", action="store_true", help="from the results alone")
    if not parser.parse_args().draw:
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(measure()) + "\n")
    results = json.loads(RESULTS.read_text())
    draw(results)
    write(results)


if __name__ == "__main__":
    main()
