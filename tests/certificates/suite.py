"""The soundness suite: lower <= truth <= upper over thousands of random models.

    python -m tests.certificates.suite --models 2000 --workers 2 --out tests/certificates/results.json

Model i depends on i alone, so any part of the run can be repeated. Models that are done are kept beside the
output and not run again; a run that is stopped goes on where it was.

# D variables, K cells
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from tests.certificates.random_models import Case, random_case
from tests.certificates.test_outer_boxes import exact_box
from tests.certificates.truth import Asked, Known, asked, by_quadrature, by_samples, log_f
from voronoi_circuits import certificates
from voronoi_circuits.certificates import boxes
from voronoi_circuits.models.vt import VTModel

OUT = Path(__file__).parent / "results.json"
DRAWS, MANY_DRAWS, MANY_MODELS = 100_000, 10_000_000, 50
BOXES, ROW_BOXES = 128, 32
SORTS = ("place", "extreme", "variables", "truth")


class Finding(NamedTuple):
    """One interval of the library beside what is known of the truth, in logs."""

    kind: str
    lower: float
    upper: float
    known: Known

    @property
    def violated(self) -> bool:
        """Whether the interval is none, or misses the truth."""
        sides = self.lower <= self.upper, self.lower <= self.known.high, self.upper >= self.known.low
        return not all(sides)


class Integral(NamedTuple):
    """What is known of a log integral, and whether its evidence lies within the domain."""

    known: Known
    within: bool = True


def findings(case: Case, draws: int = DRAWS, many: int | None = None) -> Iterator[Finding]:
    """Every kind of interval of a model; Z is sampled ``many`` times where it must be sampled."""
    model, d = case.model, case.model.n_variables
    rng = np.random.default_rng([21, case.seed])
    whole = truth(model, np.full(d, np.nan), rng, many or draws)
    yield from labels(case, rng)
    initial = certificates.certify(model, "boxes")
    yield Finding("Z initial", initial.lower, initial.upper, whole.known)
    refined = certificates.certify(model, "refine", max_boxes=BOXES)
    yield Finding("Z refined", refined.lower, refined.upper, whole.known)
    for (_, _, low, high), after in pairwise(refined.history):
        yield Finding("Z monotone", low, high, Known(after.lower, after.upper))
    row = _row(case, rng)
    yield from _densities(case, rng, row, refined, whole.known)
    order = rng.permutation(d)
    count = int(rng.integers(1, d + 1))
    joint = _only(row, order[:count])
    given = order[: int(rng.integers(0, count))]
    top = truth(model, joint, rng, draws)
    under = truth(model, _only(row, given), rng, draws)
    rows = torch.tensor(np.stack([joint, _only(row, given)]))
    ends = (side.expand_as(rows) for side in model.domain_sides(rows))
    sides = boxes.initial_bounds(model, rows, *ends)
    found = certificates.marginal_bounds(model, rows, refined, max_boxes=ROW_BOXES)
    for i, part in enumerate((top, under)):
        if part.within:
            yield Finding("integral initial", float(sides[0][i]), float(sides[1][i]), part.known)
        yield Finding("marginal", float(found[0][i]), float(found[1][i]), _ratio(part.known, whole.known))
    lower, upper = certificates.conditional_bounds(model, rows[:1], given.tolist(), max_boxes=ROW_BOXES)
    yield Finding("conditional", float(lower), float(upper), _ratio(top.known, under.known))
    box = _box(case, rng, order[len(given) :])
    for kind, evidence, below in (("probability", [], whole), ("probability given", given, under)):
        x = _only(row, evidence)
        part = truth(model, x, rng, draws, box)
        put = None if kind == "probability" else torch.tensor(x[None])
        lower, upper = certificates.probability_bounds(model, box, put, max_boxes=ROW_BOXES)
        with np.errstate(divide="ignore"):
            yield Finding(
                kind, *np.log([float(lower), float(upper)]).tolist(), _ratio(part.known, below.known)
            )


def truth(
    model: VTModel,
    x: np.ndarray,
    rng: np.random.Generator,
    draws: int,
    box: dict[int, tuple[float, float]] | None = None,
) -> Integral:
    """Quadrature where gates read at most two missing variables, samples elsewhere."""
    low, high = np.full(len(x), -np.inf), np.full(len(x), np.inf)
    for v, side in (box or {}).items():
        low[v], high[v] = side
    question = asked(model, x, low, high)
    outside = (question.x < question.low) | (question.x > question.high) | (question.low > question.high)
    if outside.any():
        return Integral(Known(-math.inf, -math.inf), within=False)
    missing = {v for v in _read(model) if np.isnan(x[v])}
    if len(missing) <= 2:
        return Integral(by_quadrature(model, question))
    return Integral(by_samples(model, question, draws, rng))


def _ratio(top: Known, below: Known) -> Known:
    """What is known of log(N / D); anything where D may vanish."""
    if below.low == -math.inf:
        return Known(-math.inf, math.inf)
    return Known(top.low - below.high, top.high - below.low)


def _only(row: np.ndarray, variables: Any) -> np.ndarray:
    out = np.full(len(row), np.nan)
    out[list(variables)] = row[list(variables)]
    return out


def _row(case: Case, rng: np.random.Generator) -> np.ndarray:
    """A row about the experts; one in five is far out; codes where columns are categorical."""
    far = 30.0 if rng.random() < 0.2 else 1.5
    row = case.centre + far * case.spread * rng.normal(size=len(case.centre))
    return _coded(case, rng, row)


def _coded(case: Case, rng: np.random.Generator, row: np.ndarray) -> np.ndarray:
    for region in case.model.experts.circuit.graph.regions:
        if region.leaf == "categorical":
            row[region.scope[0]] = rng.integers(0, 3)
    return row


def _box(case: Case, rng: np.random.Generator, free: np.ndarray) -> dict[int, tuple[float, float]]:
    """Sides on some of the free variables, one or both of them finite."""
    chosen = free[: max(1, int(rng.integers(0, len(free) + 1)))]
    codes = {r.scope[0] for r in case.model.experts.circuit.graph.regions if r.leaf == "categorical"}
    found = {}
    for v in chosen.tolist():
        side = np.sort(case.centre[v] + case.spread[v] * rng.normal(0, 1.5, 2))
        left, right = (0.0, 1.0) if v in codes else side.tolist()
        found[v] = (left if rng.random() < 0.7 else -math.inf, right)
    return found


def _densities(
    case: Case, rng: np.random.Generator, row: np.ndarray, certificate: certificates.Certificate, z: Known
) -> Iterator[Finding]:
    """log p at a random row and at a row half-way between two centroids, where the owner is exact."""
    model = case.model
    gate = model.placed[0]
    points = gate.tessellation.centroids.detach().double().numpy()
    facet = _coded(case, rng, row.copy())
    facet[list(gate.variables)] = (points[0] + points[-1]) / 2
    low, high = (side.numpy() for side in model.domain_sides(torch.zeros(1, dtype=torch.float64)))
    for x in (row, facet):
        found = model.log_prob_bounds(torch.tensor(x[None]), certificate)
        cells = [np.array([_owner(x[list(g.variables)], g.tessellation.centroids)]) for g in model.placed]
        value = float(log_f(model, Asked(*(side[None] for side in asked(model, x))), cells)[0])
        value = value if ((low <= x) & (x <= high)).all() else -math.inf
        slack = 1e-11 * (1 + abs(value)) if value > -math.inf else 0.0
        known = _ratio(Known(value - slack, value + slack), z)
        yield Finding("density", float(found[0].detach()), float(found[1].detach()), known)


def _owner(x: np.ndarray, centroids: torch.Tensor) -> int:
    """The nearest centroid in rational numbers, ties to the lower index."""
    point = [Fraction(v) for v in x.tolist()]
    far = [
        sum(((a - Fraction(b)) ** 2 for a, b in zip(point, c, strict=True)), Fraction(0))
        for c in centroids.detach().double().tolist()
    ]
    return far.index(min(far))


def labels(case: Case, rng: np.random.Generator) -> Iterator[Finding]:
    """Labels of boxes that end near facets, against the exact cell of a box's worst corner.

    A label is put as an interval: inside is log 1 from below, not touched log 0 from above.
    """
    gate = case.model.placed[0]
    points = gate.tessellation.centroids.detach().double().numpy()
    columns = list(gate.variables)
    if len(points) == 1:
        return
    spread = case.spread[columns]
    for p, q in ((0, len(points) - 1), (len(points) - 1, 0)):
        corner = (points[p] + points[q]) / 2 + 10.0 ** rng.uniform(-16, 0) * spread * rng.normal(
            size=len(columns)
        )
        away = np.sign(points[p] - points[q]) * spread * rng.uniform(0.05, 1, len(columns))
        end = corner + np.where(points[p] == points[q], spread, away)
        low, high = np.minimum(corner, end), np.maximum(corner, end)
        labels = gate.tessellation.classify(torch.tensor(low[None]), torch.tensor(high[None]))
        for k in range(len(points)):
            reach = [_reach(points, k, j, low, high) for j in range(len(points)) if j != k]
            holds = all(most < 0 or (most == 0 and tie) for most, _, tie in reach)
            missed = any(least > 0 or (least == 0 and not tie) for _, least, tie in reach)
            known = 0.0 if holds else -1.0, -math.inf if missed else 0.0
            inside, touches = (bool(label[0, k]) for label in labels)
            yield Finding("label", 0.0 if inside else -math.inf, math.inf, Known(known[0], known[0]))
            yield Finding("label", -math.inf, 0.0 if touches else -math.inf, Known(known[1], known[1]))


def _reach(
    points: np.ndarray, k: int, j: int, low: np.ndarray, high: np.ndarray
) -> tuple[Fraction, Fraction, bool]:
    """max and min over the box of |x − c_k|² − |x − c_j|², halved and exact, and whether k owns the tie."""
    most, least = Fraction(0), Fraction(0)
    for i in range(points.shape[1]):
        c, other = Fraction(points[k, i]), Fraction(points[j, i])
        ends = [(other - c) * (Fraction(x) - (c + other) / 2) for x in (low[i], high[i])]
        most, least = most + max(ends), least + min(ends)
    return most, least, True if (points[k] != points[j]).any() else k < j


def outer_sides(case: Case, outer: Callable[..., tuple[Tensor, Tensor]]) -> Iterator[Finding]:
    """Sides of boxes around cells less those of their exact vertices; in one or two variables."""
    gate = case.model.placed[0]
    columns = list(gate.variables)
    points = gate.tessellation.centroids.detach().double().numpy()
    if len(columns) > 2 or len(points) > 5 or len(np.unique(points, axis=0)) < len(points):
        return
    low, high = (case.centre[columns] + sign * 3 * case.spread[columns] for sign in (-1, 1))
    below, above = outer(*map(torch.tensor, (points, low, high)))
    for k in range(len(points)):
        exact = exact_box(points, k, low, high)
        for i in range(len(columns) if exact else 0):
            sides = Fraction(below[k, i].item()) - exact[0][i], Fraction(above[k, i].item()) - exact[1][i]
            yield Finding("outer box", float(sides[0]), float(sides[1]), Known(0.0, 0.0))


def many() -> list[int]:
    """The first models whose truth must be sampled: for these Z is, ten million times."""
    return [i for i in range(200) if len(_read(random_case(i).model)) > 2][:MANY_MODELS]


def _read(model: VTModel) -> set[int]:
    """The variables that gates read."""
    return {v for gate in model.placed for v in gate.variables}


def run_one(index: int, draws: int = DRAWS) -> dict[str, Any]:
    """One model of the suite as a record."""
    torch.set_num_threads(1)
    start = time.perf_counter()
    case = random_case(index)
    kinds, violations, widest = Counter[str](), list[Any](), dict[str, float]()
    for found in chain(findings(case, many=draws), outer_sides(case, boxes.outer_box)):
        kinds[found.kind] += 1
        gap = found.upper - found.lower
        if math.isfinite(gap) and found.kind != "outer box":
            widest[found.kind] = max(widest.get(found.kind, 0.0), gap)
        if found.violated:
            violations.append({"model": str(case), **found._asdict()})
    return {
        "index": index,
        "place": case.place,
        "extreme": case.extreme,
        "variables": str(case.model.n_variables),
        "truth": "quadrature" if len(_read(case.model)) <= 2 else f"{draws} samples",
        "kinds": dict(kinds),
        "widest": widest,
        "violations": violations,
        "seconds": time.perf_counter() - start,
    }


def run(models: int, workers: int, out: Path) -> dict[str, Any]:
    """All models, those that an earlier run has done left out; the summary is written to ``out``."""
    log = out.with_suffix(".partial.jsonl")
    done = {r["index"]: r for r in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    left = [i for i in range(models) if i not in done]
    heavy = set(many())
    left.sort(key=lambda i: i not in heavy)
    draws = [MANY_DRAWS if i in heavy else DRAWS for i in left]
    with ProcessPoolExecutor(workers) as pool, log.open("a") as file:
        for record in track(
            pool.map(run_one, left, draws), "models", len(left), console=Console(stderr=True)
        ):
            done[record["index"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    summary = summarise([done[i] for i in range(models)], workers)
    out.write_text(json.dumps(summary, indent=1) + "\n")
    log.unlink()
    return summary


def summarise(records: list[dict[str, Any]], workers: int) -> dict[str, Any]:
    """Counts by kind, violations, widest finite gaps (nats), seconds and the machine."""
    kinds, widest = Counter[str](), dict[str, float]()
    for record in records:
        kinds.update(record["kinds"])
        for kind, gap in record["widest"].items():
            widest[kind] = max(widest.get(kind, 0.0), gap)
    return {
        "models": len(records),
        "intervals": dict(sorted(kinds.items())),
        "violations": [v for record in records for v in record["violations"]],
        **{what: dict(sorted(Counter(r[what] for r in records).items())) for what in SORTS},
        "widest finite gap in nats": {kind: round(gap, 6) for kind, gap in sorted(widest.items())},
        "seconds of all workers": round(sum(r["seconds"] for r in records), 1),
        "workers": workers,
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
    }


def processor() -> str:
    """The processor's name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=2000, help="how many models (default 2000)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: cores)")
    parser.add_argument("--out", type=Path, default=OUT, help="where the summary goes")
    given = parser.parse_args()
    summary = run(given.models, given.workers, given.out)
    print(json.dumps(summary, indent=1))
    raise SystemExit(len(summary["violations"]) > 0)


if __name__ == "__main__":
    main()
