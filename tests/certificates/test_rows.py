"""Intervals for rows: any pattern of missing and given variables, far rows, facets, impossible evidence."""

import itertools
import math

import numpy as np
import pytest
import torch

from tests.certificates.random_models import random_case
from tests.certificates.scenes import gaussians, trained
from tests.certificates.truth import asked, by_quadrature, log_f
from voronoi_circuits.certificates import (
    certify,
    conditional_bounds,
    integral_bounds,
    marginal_bounds,
    probability_bounds,
)
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.structures import random_binary_tree
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture

NAN = math.nan


def known(model, x, low=-np.inf, high=np.inf):
    """Two-sided knowledge of log ∫ f by quadrature."""
    return by_quadrature(model, asked(model, np.array(x, float), low, high))


@pytest.mark.parametrize("missing", list(itertools.product([False, True], repeat=3)), ids=str)
def test_marginals_of_every_pattern(missing):
    """Three variables of which at most two are missing: Z cancels against a certificate of the same model."""
    model = gaussians(1, cells=4, variables=3)
    certificate = certify(model, tolerance=0.05)
    row = np.where(missing, NAN, [0.3, -0.7, 0.5])
    lower, upper = marginal_bounds(model, torch.tensor(row[None]), certificate)
    assert 0 <= float(upper - lower) < 0.3
    if sum(missing) <= 2:
        truth = known(model, row)
        low, high = integral_bounds(model, torch.tensor(row[None]))
        assert float(low) <= truth.high
        assert truth.low <= float(high)
        assert float(high - low) < 0.05
        assert float(lower) <= truth.high - certificate.lower
        assert float(upper) >= truth.low - certificate.upper


def test_marginals_integrate_to_one():
    """∫ p(x₁) dx₁ by the trapezium rule lies between the integrals of its bounds."""
    model = gaussians(2, cells=4)
    x = torch.linspace(-8, 8, 321, dtype=torch.float64)
    rows = torch.stack([x, torch.full_like(x, NAN)], 1)
    lower, upper = marginal_bounds(model, rows, certify(model, tolerance=1e-3), max_boxes=1024)
    assert torch.trapezoid(lower.exp(), x) <= 1 + 1e-3
    assert torch.trapezoid(upper.exp(), x) >= 1 - 1e-3
    assert torch.trapezoid(upper.exp() - lower.exp(), x) < 0.02


@pytest.mark.parametrize("given", [[0], [1], []])
def test_conditionals_are_ratios(given):
    model = gaussians(3, cells=4, variables=3)
    row = np.array([0.3, -0.2, NAN])
    lower, upper = conditional_bounds(model, torch.tensor(row[None]), given)
    evidence = np.where(np.isin(range(3), given), row, NAN)
    if np.isnan(evidence).sum() <= 2:
        top, below = known(model, row), known(model, evidence)
        assert float(lower) <= top.high - below.low
        assert float(upper) >= top.low - below.high
    assert float(upper - lower) < 0.3


def test_conditionals_need_no_certificate():
    """p(x₁ | x₀) = p(x₀, x₁) / p(x₀): Z cancels, so the interval is closer than that of two marginals."""
    model = trained(shared=False, epochs=1)
    x = torch.tensor([[0.3, -0.2]])
    lower, upper = conditional_bounds(model, x, [0])
    assert float(upper - lower) < 5e-3


@pytest.mark.parametrize("box", [{0: (-0.5, 0.5)}, {0: (-math.inf, 0.0), 1: (0.0, 2.0)}, {1: (30.0, 31.0)}])
def test_probabilities_of_boxes(box):
    model = gaussians(4, cells=5)
    low, high = np.full(2, -np.inf), np.full(2, np.inf)
    for v, side in box.items():
        low[v], high[v] = side
    top, below = known(model, [NAN, NAN], low, high), known(model, [NAN, NAN])
    lower, upper = probability_bounds(model, box, max_boxes=512)
    assert 0 <= float(lower) <= math.exp(top.high - below.low)
    assert math.exp(top.low - below.high) <= float(upper) <= 1
    assert float(upper - lower) < 0.25


def test_probabilities_given_evidence():
    model = gaussians(5, cells=4)
    given = torch.tensor([[NAN, 0.2], [NAN, -1.0], [NAN, 9.0]])
    lower, upper = probability_bounds(model, {0: (-0.5, 0.5)}, given)
    for i, row in enumerate(given.tolist()):
        top = known(model, row, np.array([-0.5, -np.inf]), np.array([0.5, np.inf]))
        below = known(model, row)
        assert float(lower[i]) <= math.exp(top.high - below.low)
        assert float(upper[i]) >= math.exp(top.low - below.high)


def test_a_box_of_everything_and_one_of_nothing():
    model = gaussians(6, cells=4)
    lower, upper = probability_bounds(model, {})
    assert float(upper) == 1.0
    assert float(lower) > 0.99
    twin = model.truncate({0: (0.0, 1.0)})
    assert [float(side) for side in probability_bounds(twin, {0: (2.0, 3.0)})] == [0.0, 0.0]


@pytest.mark.parametrize("far", [1e3, 1e6, -1e6])
def test_far_rows(far):
    """A row a million out: finite bounds on both sides of the truth."""
    model = gaussians(7, cells=4)
    x = torch.tensor([[far, NAN]], dtype=torch.float64)
    low, high = integral_bounds(model, x, max_boxes=256)
    truth = known(model, [far, NAN])
    assert float(low) <= truth.high
    assert truth.low <= float(high)
    assert math.isfinite(float(high))
    lower, upper = model.log_prob_bounds(torch.tensor([[far, far]]), certify(model, tolerance=0.1))
    assert math.isfinite(float(lower))
    assert math.isfinite(float(upper))


def test_rows_on_a_facet():
    """Bounds hold both neighbours' values; the owner is the lower index."""
    model = gaussians(8, cells=3)
    centroids = model.placed[0].tessellation.centroids.detach().double()
    facet = ((centroids[0] + centroids[1]) / 2)[None]
    low, high = (side.detach() for side in model.log_unnormalized_bounds(facet))
    rows = asked(model, facet[0].numpy())
    sides = [float(log_f(model, type(rows)(*(s[None] for s in rows)), [np.array([k])])[0]) for k in (0, 1)]
    assert float(low) <= min(sides)
    assert max(sides) <= float(high)
    lower, upper = integral_bounds(model, facet)
    assert float(lower) <= min(sides)
    assert max(sides) <= float(upper)


def test_a_denominator_that_may_vanish():
    """Too few boxes to prove any mass: +inf above, −inf below, never NaN."""
    model = gaussians(9, cells=8)
    x = torch.tensor([[0.1, 0.2]])
    lower, upper = conditional_bounds(model, x, [0], max_boxes=1)
    assert float(upper) == math.inf
    assert not math.isnan(float(lower))
    lower, upper = marginal_bounds(model, x, certify(model, "refine", max_boxes=1))
    assert float(upper) == math.inf
    lower, upper = probability_bounds(model, {0: (-1.0, 1.0)}, max_boxes=1)
    assert (float(lower), float(upper)) == (0.0, 1.0)


def histograms() -> VTModel:
    """Histogram leaves on [0, 1], in two cells."""
    graph = random_binary_tree(
        2, units=2, leaf="histogram", generator=torch.Generator().manual_seed(0), roots=2
    )
    cells = Tessellation(torch.tensor([[0.2, 0.2], [0.8, 0.7]]))
    return VTModel(FoldedCircuit(graph, 1), [VoronoiGate(graph.root, [0, 1], cells)])


def test_evidence_that_cannot_be():
    """Histogram leaves give 2 no density: nothing to condition on, and nothing is NaN."""
    model = histograms()
    x = torch.tensor([[2.0, 0.5]])
    for lower, upper in (
        conditional_bounds(model, x, [0]),
        tuple(side.log() for side in probability_bounds(model, {1: (0.0, 0.5)}, torch.tensor([[2.0, NAN]]))),
    ):
        assert float(lower) == -math.inf
        assert float(upper) >= 0.0
    lower, upper = marginal_bounds(model, x, certify(model))
    assert (float(lower), float(upper)) == (-math.inf, -math.inf)


def test_rows_outside_the_domain_have_no_density():
    model = gaussians(1).truncate({0: (0.0, 1.0)})
    lower, upper = marginal_bounds(
        model, torch.tensor([[2.0, NAN], [0.5, NAN]]), certify(model, tolerance=0.1)
    )
    assert [float(lower[0]), float(upper[0])] == [-math.inf, -math.inf]
    assert float(lower[1]) > -math.inf


@pytest.mark.parametrize(
    "spec", [Circuit(units=3), Mixture(Circuit(units=2), components=2), HFV(Circuit(units=2), cells=2)]
)
def test_exact_models_return_their_exact_number_twice(spec):
    generator = torch.Generator().manual_seed(0)
    rows = torch.randn(100, 2, generator=generator)
    model = spec.build(rows, generator)
    x = rows[:5].double()
    x[0, 0] = NAN
    pairs = [
        (marginal_bounds(model, x), model.log_marginal(x)),
        (conditional_bounds(model, x[1:], [1]), model.log_conditional(x[1:], [1])),
        (probability_bounds(model, {0: (-1.0, 0.5)}), model.probability({0: (-1.0, 0.5)})),
    ]
    for (lower, upper), exact in pairs:
        assert torch.equal(lower, upper)
        assert torch.equal(lower, exact)
    certificate = certify(model)
    assert certificate.lower == certificate.upper == model.log_partition().item()


def test_categorical_columns_are_summed_over():
    case = next(
        c for c in map(random_case, range(1, 900, 5)) if c.extreme == "categorical" and _codes(c.model) == [1]
    )
    rows = torch.tensor([[NAN, code] for code in (0.0, 1.0, 2.0)], dtype=torch.float64)
    lower, upper = integral_bounds(case.model, rows)
    truth = known(case.model, [NAN, NAN])
    assert float(lower.logsumexp(0)) <= truth.high
    assert truth.low <= float(upper.logsumexp(0))
    assert float(upper.logsumexp(0) - lower.logsumexp(0)) < 2e-3


def _codes(model):
    return [r.scope[0] for r in model.experts.circuit.graph.regions if r.leaf == "categorical"][:1]


def test_bad_input_is_named():
    model = gaussians(0, cells=2)
    x = torch.zeros(1, 2)
    with pytest.raises(ValueError, match="given names variable 5"):
        conditional_bounds(model, x, [5])
    with pytest.raises(ValueError, match="given names variable -1"):
        conditional_bounds(model, x, [-1])
    with pytest.raises(ValueError, match="variable 0 is given as evidence and restricted by the box"):
        probability_bounds(model, {0: (0.0, 1.0)}, x)
    with pytest.raises(ValueError, match=r"empty interval \[1.0, 0.0\] in column 0"):
        probability_bounds(model, {0: (1.0, 0.0)})
    with pytest.raises(ValueError, match="the box names variable 7"):
        probability_bounds(model, {7: (0.0, 1.0)})
    with pytest.raises(ValueError, match=r"rows must be \(n, 2\)"):
        marginal_bounds(model, torch.zeros(1, 3))
    with pytest.raises(ValueError, match="use the hard model"):
        marginal_bounds(model.soften(3.0), x)


def test_a_certificate_of_z_tightens_what_gives_nothing():
    rows = torch.randn(300, 3, generator=torch.Generator().manual_seed(0))
    model = VT(Circuit(units=3), cells=4).build(rows, torch.Generator().manual_seed(0))
    known = certify(model, max_boxes=20_000)
    loose = probability_bounds(model, {0: (0.0, 1.0)}, max_boxes=512)
    tight = probability_bounds(model, {0: (0.0, 1.0)}, certificate=known, max_boxes=512)
    assert loose[0] <= tight[0] <= tight[1] <= loose[1]
    assert tight[1] - tight[0] < loose[1] - loose[0]


def test_what_is_asked_above_and_below_alike_is_certain():
    rows = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    model = VT(Circuit(units=3), cells=3).build(rows, torch.Generator().manual_seed(0))
    nothing = torch.full((1, 2), torch.nan)
    assert [float(side) for side in marginal_bounds(model, nothing)] == [0.0, 0.0]
    assert [float(side) for side in conditional_bounds(model, rows[:1], [0, 1])] == [0.0, 0.0]


def test_numbers_that_would_overflow_are_refused():
    rows = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    model = VT(Circuit(units=3), cells=3).build(rows, torch.Generator().manual_seed(0))
    with pytest.raises(ValueError, match="column 0 has values beyond"):
        model.log_prob_bounds(torch.tensor([[1e200, 0.0]], dtype=torch.float64))


def test_a_complete_row_on_a_facet_takes_the_tied_cells():
    rows = torch.randn(300, 2, generator=torch.Generator().manual_seed(0))
    model = VT(Circuit(units=3), cells=2).build(rows, torch.Generator().manual_seed(0))
    with torch.no_grad():
        model.placed[0].tessellation.centroids.copy_(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    row = torch.tensor([[0.0, 0.5]], dtype=torch.float64)
    lower, upper = integral_bounds(model, row)
    assert (lower, upper) == model.log_unnormalized_bounds(row)
    assert lower > -np.inf
