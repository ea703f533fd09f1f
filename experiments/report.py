"""Figures and Markdown from a results file, and from nothing else.

python -m experiments.report DIR
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from torch import Tensor

from experiments import results, runs
from experiments.pages import markdown, title
from experiments.results import Record
from experiments.scores import groups, headline, is_vt, summary, ungated
from voronoi_circuits import datasets, plots
from voronoi_circuits.models.base import Model

Row = dict[str, Any]


def write(out: Path) -> Path:
    """Draws what the results of a folder allow, and writes report.md."""
    records = ordered(results.latest(results.read(out / "results.jsonl")))
    if not records:
        raise ValueError(f"{out / 'results.jsonl'} has no results: run the experiment first")
    pictures = [plots.synthetic_figure(synthetic_rows(records), out / "synthetic.png")]
    if panels := overlay_panels(records, out / "kept"):
        pictures.append(plots.side_by_side(panels, out / "tessellations.png"))
    if curves := curve_rows(records):
        pictures.append(plots.learning_curves(curves, out / "learning_curves.png"))
    page = out / "report.md"
    unfinished = page.with_suffix(".part")
    unfinished.write_text(markdown(records, [picture.name for picture in pictures]), encoding="utf-8")
    os.replace(unfinished, page)
    return page


def ordered(records: Iterable[Record]) -> list[Record]:
    """Records by set, structure, model and seed, in the order of the paper and of the configuration."""
    sets = datasets.available()

    def place(record: Record) -> tuple[int, str, int, int]:
        return sets.index(record["name"]), record["structure"], record["shown"]["place"], record["seed"]

    return sorted(records, key=place)


def drawn(records: Iterable[Record]) -> list[list[Record]]:
    """The seeds of each model that the figures show."""
    return [group for group in groups(records).values() if group[0]["shown"].get("figure", True)]


def look(record: Record) -> Row:
    """How a model is drawn."""
    shown = record["shown"]
    name = shown["title"] + (" (lower bound)" if is_vt(record) else "")
    return {"model": name, "look": shown["look"], "ours": shown.get("ours", False)}


def synthetic_rows(records: Sequence[Record]) -> list[Row]:
    """The table of Figure "synthetic"; a bound that proves nothing has no mark."""
    rows: list[Row] = []
    for group in drawn(records):
        marks = [(look(group[0]), summary(group, headline))]
        if not group[0]["shown"].get("ours"):
            twin = {"model": "VT ungated", "look": "ungated", "ours": False}
            marks.append((twin, summary(group, ungated)))
        place = {"set": title(group[0]["name"]), "structure": group[0]["shown"]["structure"]}
        rows += [place | mark | found._asdict() for mark, found in marks if found is not None]
    return sorted(rows, key=lambda row: row["ours"])


def curve_rows(records: Sequence[Record]) -> list[Row]:
    """The table of Figure "learning curves": means over seeds, epoch by epoch; ours apart."""
    rows: list[Row] = []
    for group in drawn(record for record in records if "curve" in record):
        curves = [record["curve"] for record in group]
        structure = group[0]["shown"]["structure"]
        ours = f"{structure}, our settings"
        panels = [ours] if look(group[0])["ours"] else [structure]
        panels += [ours] if group[0]["model"] == "circuit" else []
        for i, epoch in enumerate(min((curve["epoch"] for curve in curves), key=len)):
            lower, upper = (mean([curve[side][i] for curve in curves]) for side in ("lower", "upper"))
            if lower is not None:
                row = {"epoch": epoch, "lower": lower, "upper": math.inf if upper is None else upper}
                rows += [{"panel": panel, **look(group[0]), **row} for panel in panels]
    return sorted(rows, key=lambda row: row["panel"].endswith("our settings"))


def mean(values: Sequence[float | None]) -> float | None:
    """The mean; None where a bound proves nothing."""
    numbers = [value for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None


def overlay_panels(records: Sequence[Record], folder: Path) -> list[tuple[str, Model, Tensor]]:
    """The panels of Figure "tessellation overlays": kept VT and HFV models of seed 0, the paper's first."""
    firsts = [group[0] for group in drawn(records) if "kept" in group[0] and group[0]["seed"] == 0]
    gated = [record for record in firsts if record["settings"]["spec"]["kind"] in ("vt", "hfv")]
    shown = [record for record in gated if record["structure"] == gated[0]["structure"]]
    panels: list[tuple[str, Model, Tensor]] = []
    for record in sorted(shown, key=lambda record: (look(record)["ours"], look(record)["look"] != "vt")):
        model, rows = runs.kept(results.run_of(record), folder / record["kept"])
        score = headline(record)
        reached = "nothing proven" if score is None else f"{'≥ ' * is_vt(record)}{score:.3f} nats"
        panels.append((f"{record['shown']['title']}\n{reached}".replace("-", "−"), model, rows))
    return panels


if __name__ == "__main__":
    write(Path(sys.argv[1]))
