"""Results as a page of Markdown tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from experiments.results import Record
from experiments.scores import (
    Score,
    Summary,
    best_known,
    certified,
    groups,
    headline,
    is_vt,
    log_z,
    summary,
    true_gap,
    ungated,
)

Groups = Mapping[tuple[str, str, str], list[Record]]
CAPTIONS = {
    "synthetic.png": "Mean test log-likelihood. Bars: deviation over seeds. Hollow: our settings.",
    "tessellations.png": "Tessellations learned on pinwheel, with the conservative inner boxes.",
    "learning_curves.png": "Validation log-likelihood on the spiral. Shaded: the epoch's certified interval.",
}
PAGE = """# Synthetic sets

{setting}

{pictures}

## By the paper's protocol, and what the paper leaves out

Mean test log-likelihood ± deviation over seeds, in nats of standardised units. VT: the certified lower
bound by boxes without refinement; its ungated twin has the same parameters.

{papers}

## Our settings

VT: the refined certified lower bound.

{ours}

## Certificates

Bounds of the mean test log-likelihood, by boxes alone (the paper's) and refined; bounds of log Z, boxes and
seconds are the refined certificate's. The true gap is how far the boxes' lower bound lies below the
log-likelihood, for which the refined lower bound stands.

{certificates}

## Against circuits without gates

Nats above a model without gates; VT by its refined lower bound. Best VT: above the plain circuit of the
paper's size. The others, above a model of their own size: VT above the mixture, HFV with several units a cell
above the plain circuit.

{differences}

## Sizes and times

{sizes}
"""


def title(name: str) -> str:
    """The name of a set, for people."""
    return name.replace("_", " ")


def markdown(records: Sequence[Record], pictures: Sequence[str]) -> str:
    """The whole page."""
    found = groups(records)
    ours = {key: group for key, group in found.items() if group[0]["shown"].get("ours")}
    papers = {key: group for key, group in found.items() if key not in ours}
    return PAGE.format(
        setting=setting(records),
        pictures="\n\n".join(f"![{CAPTIONS[name]}]({name})\n\n{CAPTIONS[name]}" for name in pictures),
        papers=likelihoods(papers),
        ours=likelihoods(ours),
        certificates=certificates(found),
        differences=differences(found),
        sizes=sizes(records),
    )


def setting(records: Sequence[Record]) -> str:
    """Where the results come from, in a sentence or two."""
    machines = {
        tuple(sorted((name, str(value)) for name, value in record["machine"].items())) for record in records
    }
    lines = [", ".join(f"{name} {value}" for name, value in machine) for machine in sorted(machines)]
    seeds = len({record["seed"] for record in records})
    minutes = sum(sum(record["seconds"].values()) for record in records) / 60
    return f"{len(records)} runs, {seeds} seeds, {minutes:.0f} core minutes. Machine: {'; '.join(lines)}."


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, its first two columns to the left, the others to the right.

    >>> print(table(["set", "structure", "gap"], [["spiral", "HCLT", "0.1"]]))
    | set | structure | gap |
    |---|---|---:|
    | spiral | HCLT | 0.1 |
    """
    body = [list(row) for row in rows]
    if not body:
        return "No results."
    rule = ["---" if i < 2 else "---:" for i in range(len(head))]
    lines = [f"| {' | '.join(cells)} |" for cells in [head, *body]]
    return "\n".join([lines[0], f"|{'|'.join(rule)}|", *lines[1:]])


def shown(found: Summary | None) -> str:
    """Mean ± deviation; one seed has no deviation, and a bound that proves nothing no mean."""
    if found is None:
        return "–"
    return f"{found.mean:.3f} ± {found.deviation:.3f}" if found.seeds > 1 else f"{found.mean:.3f}"


def places(found: Groups) -> list[tuple[str, str]]:
    """Sets and structures, each pair once."""
    return list(dict.fromkeys((name, structure) for name, structure, _ in found))


def first_cells(found: Groups, place: tuple[str, str]) -> list[str]:
    """Set and structure, for people."""
    structure = next(group[0]["shown"]["structure"] for key, group in found.items() if key[:2] == place)
    return [title(place[0]), structure]


def likelihoods(found: Groups) -> str:
    """A column for each model, and one for the ungated twin beside each VT model."""
    columns: dict[tuple[str, bool], str] = {}
    for (_, _, model), group in sorted(found.items(), key=lambda entry: entry[1][0]["shown"]["place"]):
        columns[model, False] = group[0]["shown"]["title"]
        if is_vt(group[0]):
            columns[model, True] = "its ungated twin"
    rows: list[list[str]] = []
    for place in places(found):
        cells = [
            shown(summary(found.get((*place, model), []), ungated if twin else headline))
            for model, twin in columns
        ]
        rows.append(first_cells(found, place) + cells)
    return table(["set", "structure", *columns.values()], rows)


def certificates(found: Groups) -> str:
    """Every VT model's intervals, with and without refinement."""
    asked: dict[str, Score] = {
        "lower (boxes)": certified("boxes", "lower"),
        "upper (boxes)": certified("boxes", "upper"),
        "lower (refined)": certified("refined", "lower"),
        "upper (refined)": certified("refined", "upper"),
        "true gap": true_gap,
        "log Z from": log_z(0),
        "log Z to": log_z(1),
        "boxes": certified("refined", "boxes"),
        "seconds": certified("refined", "seconds"),
    }
    rows: list[list[str]] = []
    for (name, structure, _), group in found.items():
        if is_vt(group[0]):
            cells = [summary(group, score) for score in asked.values()]
            digits = [0 if head == "boxes" else 1 if head == "seconds" else 4 for head in asked]
            written = [
                "–" if cell is None else f"{cell.mean:,.{n}f}" for cell, n in zip(cells, digits, strict=True)
            ]
            first = first_cells(found, (name, structure))
            rows.append([f"{first[0]}, {first[1]}", group[0]["shown"]["title"], *written])
    return table(["set", "model", *asked], rows)


def differences(found: Groups) -> str:
    """The best VT against the plain circuit, and each model with a peer of its size against that."""
    paired = {model: group[0]["shown"]["title"] for (*_, model), group in found.items() if peer(group)}
    rows: list[list[str]] = []
    for place in places(found):
        mine = {model: group for (*where, model), group in found.items() if tuple(where) == place}
        means = {model: summary(group, best_known) for model, group in mine.items()}
        scores = {model: mean.mean for model, mean in means.items() if mean is not None}
        best = max((model for model in scores if is_vt(mine[model][0])), key=scores.__getitem__, default="")
        cells = [difference(scores, model, peer(mine.get(model))) for model in paired]
        rows.append([*first_cells(found, place), difference(scores, best, "circuit"), *cells])
    return table(["set", "structure", "best VT", *paired.values()], rows)


def peer(group: list[Record] | None) -> str:
    """The model of the same size that a model is measured against."""
    return group[0]["shown"].get("peer", "") if group else ""


def difference(scores: Mapping[str, float], model: str, other: str) -> str:
    """How much better a model is than another."""
    return "–" if not {model, other} <= scores.keys() else f"{scores[model] - scores[other]:+.3f}"


def sizes(records: Sequence[Record]) -> str:
    """Parameters and mean seconds of every model, by dimension and structure."""
    kinds: dict[tuple[int, str, str], list[Record]] = {}
    for record in records:
        shape = record["columns"], record["shown"]["structure"], record["shown"]["title"]
        kinds.setdefault(shape, []).append(record)
    rows = [
        [
            f"{dimension}-D, {structure}",
            name,
            f"{group[0]['parameters']:,}",
            f"{fmean(record['seconds']['learning'] for record in group):.1f}",
            f"{fmean(record['seconds']['scoring'] for record in group):.1f}",
        ]
        for (dimension, structure, name), group in sorted(kinds.items(), key=lambda entry: entry[0][:2])
    ]
    return table(["shape", "model", "parameters", "learning (s)", "scoring (s)"], rows)
