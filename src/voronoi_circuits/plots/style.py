"""The house style: one colour and shape for each kind of model, and files that appear whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

INK, PAPER, FAINT, GRID = "#1f2a44", "#ffffff", "#9aa3b5", "#e6e9f0"
DENSITY = LinearSegmentedColormap.from_list("density", [PAPER, "#dfe8f4", "#9fbbe0", "#4a78b8", INK])
# Okabe and Ito's colours, which colour-blind readers tell apart; shapes say the same once more.
LOOKS: Mapping[str, tuple[str, str]] = {
    "circuit": ("#0072b2", "o"),
    "hfv": ("#009e73", "s"),
    "vt": ("#d55e00", "^"),
    "mixture": ("#cc79a7", "D"),
    "ungated": ("#e69f00", "v"),
}
COLOURS = ("#0072b2", "#009e73", "#d55e00", "#cc79a7", "#e69f00", "#56b4e9")
STYLE: dict[Any, Any] = {
    "font.size": 10,
    "text.color": INK,
    "axes.titlesize": 11,
    "axes.titlecolor": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "savefig.dpi": 160,
}


def picture(draw: Callable[[], Figure], path: str | Path) -> Path:
    """Draws in the house style and writes the file whole: it appears complete, or stays as it was.

    >>> with TemporaryDirectory() as folder:
    ...     picture(lambda: Figure(figsize=(1, 1)), Path(folder) / "empty.png").name
    'empty.png'
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE), TemporaryDirectory(dir=target.parent, prefix=".drawing-") as folder:
        unfinished = Path(folder) / target.name
        draw().savefig(unfinished)
        os.replace(unfinished, target)
    return target


def spaced() -> ConstrainedLayoutEngine:
    """A layout with room between panels."""
    return ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08, wspace=0.03, hspace=0.04)
