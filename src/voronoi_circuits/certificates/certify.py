"""``certify``: bounds of log Z for any model."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

import torch

from voronoi_circuits.certificates.boxes import initial_bounds
from voronoi_circuits.certificates.certificate import Certificate, Status, Step
from voronoi_circuits.certificates.refinement import BATCH, Refinement
from voronoi_circuits.circuits.region_graph import valid_name
from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.soft import SoftModel
from voronoi_circuits.models.vt import VTModel

METHODS = ("auto", "boxes", "refine")


def certify(
    model: Model,
    method: str = "auto",
    tolerance: float = 1e-3,
    budget: float | None = 60.0,
    *,
    max_boxes: int = 1_000_000,
    batch: int = BATCH,
    progress: Callable[[Step], None] | None = None,
) -> Certificate:
    """Proven bounds of log Z.

    Args:
        model: any model; one that integrates exactly gets its exact value.
        method: "boxes" (one inner and one outer box a cell, the paper's), "refine" (anytime refinement), or
            "auto" (what both prove together).
        tolerance: the gap in nats at which refinement stops.
        budget: seconds after which refinement stops; None for no limit.
        max_boxes: boxes after which refinement stops, so that one model gives one result.
        batch: boxes split a step; 1 is the paper's single bisection.
        progress: called with every step of the history.

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    >>> certificate = certify(VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0)))
    >>> certificate.gap <= 1e-3
    True
    """
    method = valid_name("method", method, METHODS)
    for name, value in (("tolerance", tolerance), ("max_boxes", max_boxes), ("batch", batch)):
        if not value > 0:
            raise ValueError(f"{name} must be positive, not {value}")
    if budget is not None and not budget > 0:
        raise ValueError(f"budget must be a positive number of seconds or None, not {budget}")
    if isinstance(model, ExactModel):
        exact = float(model.log_partition().detach())
        return Certificate(exact, exact, "exact", Status.EXACT)
    known = Certificate(-float("inf"), 0.0, "ungated", Status.VACUOUS)
    if isinstance(model, SoftModel):
        return known
    if not isinstance(model, VTModel):
        raise ValueError(f"certify takes a model, not {type(model).__name__}: pass an estimator's .model_")
    start = time.perf_counter()
    try:
        with torch.inference_mode(False):
            if method != "refine":
                known = _initial(model)
                if method == "boxes":
                    return _judged(known)
                if known.gap <= tolerance:
                    return _judged(replace(known, status=Status.TOLERANCE))
            left = None if budget is None else max(budget - (time.perf_counter() - start), 1e-3)
            refined = _refined(model, tolerance, left, max_boxes, batch, progress)
    except KeyboardInterrupt:
        return replace(known, status=Status.INTERRUPTED)
    if method == "refine":
        return _judged(refined)
    both = known.intersect(refined)
    return _judged(replace(both, status=Status.TOLERANCE if both.gap <= tolerance else refined.status))


def _judged(certificate: Certificate) -> Certificate:
    """The certificate, called vacuous where all its boxes prove nothing."""
    proven = certificate.lower > -float("inf") or certificate.upper < 0.0
    stopped = certificate.status in (Status.SECONDS, Status.INTERRUPTED)
    return certificate if proven or stopped else replace(certificate, status=Status.VACUOUS)


def _initial(model: VTModel) -> Certificate:
    """The paper's boxes, without refinement."""
    start = time.perf_counter()
    lower, upper = (float(side[0]) for side in initial_bounds(model, *model.whole()))
    upper = min(upper, 0.0)
    seconds = time.perf_counter() - start
    cells = 2 * sum(gate.n_cells for gate in model.placed)
    step = Step(cells, seconds, lower, upper)
    return Certificate(lower, upper, "boxes", Status.INITIAL, boxes=cells, seconds=seconds, history=(step,))


def _refined(
    model: VTModel,
    tolerance: float,
    budget: float | None,
    max_boxes: int,
    batch: int,
    progress: Callable[[Step], None] | None,
) -> Certificate:
    start = time.perf_counter()
    history: list[Step] = []

    def note(step: Step) -> None:
        history.append(step._replace(upper=min(step.upper, 0.0)))
        if progress is not None:
            progress(history[-1])

    refinement = Refinement(model, *model.whole())
    status = refinement.run(tolerance, max_boxes, budget, batch, note)
    lower, upper = float(refinement.lower[0]), min(float(refinement.upper[0]), 0.0)
    boxes = int(refinement.boxes[0])
    seconds = time.perf_counter() - start
    return Certificate(lower, upper, "refine", status, boxes=boxes, seconds=seconds, history=tuple(history))
