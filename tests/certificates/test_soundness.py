"""A slice of the soundness suite, and the same order against 40 digits with no tolerance at all."""

from itertools import chain

import numpy as np
import pytest
import torch

from tests.certificates import suite
from tests.certificates.exact import log_integral
from tests.certificates.random_models import Case, random_case
from tests.certificates.truth import Known, asked, by_quadrature, by_samples
from voronoi_circuits.certificates import boxes, certify, integral_bounds
from voronoi_circuits.certificates.boxes import initial_bounds

SLICE, STEP = range(3000, 3060), 6


@pytest.mark.parametrize("first", SLICE[::STEP])
def test_bounds_hold_the_truth(first):
    for case in map(random_case, range(first, first + STEP)):
        every = chain(suite.findings(case, draws=50_000), suite.outer_sides(case, boxes.outer_box))
        violated = [found for found in every if found.violated]
        assert not violated, str(case)


def slab_cases(count: int) -> list[Case]:
    """Cases with one gate whose cells are slabs along its first variable, and Gaussian leaves."""
    found, seed = [], 0
    while len(found) < count:
        case = random_case(seed)
        model, seed = case.model, seed + 1
        families = {region.leaf for region in model.experts.circuit.graph.regions} - {""}
        points = model.placed[0].tessellation.centroids
        one_way = bool((points[:, 1:] == points[:1, 1:]).all()) and len(points[:, 0].unique()) == len(points)
        if len(model.placed) == 1 and one_way and families == {"gaussian"}:
            found.append(case)
    return found


def exactly_violated(case: Case) -> list[str]:
    """Bounds on the wrong side of a truth of 40 digits: Z, a marginal and a density."""
    model, d = case.model, case.model.n_variables
    rng = np.random.default_rng(case.seed)
    row = case.centre + case.spread * rng.normal(size=d)
    low, high = (side.numpy() for side in model.domain_sides(torch.zeros(1, dtype=torch.float64)))
    row = np.clip(row, low + 1e-3 * case.spread, high - 1e-3 * case.spread)
    some = np.where(rng.random(d) < 0.5, np.nan, row)
    wrong = []
    for name, x in (("Z", np.full(d, np.nan)), ("marginal", some), ("density", row)):
        exact = log_integral(model, asked(model, x))
        rows = torch.tensor(x[None])
        sides = tuple(side.expand_as(rows) for side in model.domain_sides(rows))
        found = [initial_bounds(model, rows, *sides), integral_bounds(model, rows, max_boxes=64)]
        if name == "density":
            found.append(tuple(side.detach() for side in model.log_unnormalized_bounds(rows)))
        for below, above in found:
            if not float(below) <= exact <= float(above):
                wrong.append(f"{name}: {float(below)!r} {exact} {float(above)!r}")
    return wrong


@pytest.mark.parametrize("case", slab_cases(24), ids=str)
def test_bounds_hold_the_exact_truth(case):
    assert not exactly_violated(case)


@pytest.mark.parametrize("case", slab_cases(6), ids=str)
def test_the_suite_s_quadrature_is_right(case):
    question = asked(case.model, np.full(case.model.n_variables, np.nan))
    known, exact = by_quadrature(case.model, question), log_integral(case.model, question)
    assert known.low <= exact <= known.high
    assert known.high - known.low < 1e-9


@pytest.mark.parametrize("seed", [1, 6, 11, 16, 22, 36, 41, 51, 26])
def test_the_suite_s_two_truths_agree(seed):
    case = random_case(seed)
    question = asked(case.model, np.full(case.model.n_variables, np.nan))
    known = by_quadrature(case.model, question)
    drawn = by_samples(case.model, question, 100_000, np.random.default_rng(0))
    assert known.high - known.low < 1e-8
    assert drawn.low <= known.low <= known.high <= drawn.high
    assert drawn.high - drawn.low < 0.4


def test_a_violation_is_seen():
    known = Known(-1.0, -0.9)
    assert not suite.Finding("Z", -1.2, -0.8, known).violated
    assert suite.Finding("Z", -0.8, -0.7, known).violated
    assert suite.Finding("Z", -1.2, -1.1, known).violated
    assert suite.Finding("Z", float("nan"), 0.0, known).violated


def test_one_cell_is_certified_at_once():
    case = next(c for c in map(random_case, range(200)) if c.model.placed[0].n_cells == 1)
    assert certify(case.model).gap < 1e-9
