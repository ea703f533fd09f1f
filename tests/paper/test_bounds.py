"""Section 3.1: boxes, bounds, propagation, refinement, marginals and conditionals."""

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from tests import oracle
from tests.paper.counting import written
from tests.paper.scenes import FOUR, build, gated, rows, true_partition
from voronoi_circuits.certificates import certify, conditional_bounds, marginal_bounds
from voronoi_circuits.certificates.boxes import inner_boxes, outer_boxes
from voronoi_circuits.certificates.refinement import Refinement
from voronoi_circuits.certificates.rows import integral_bounds
from voronoi_circuits.certificates.sites import sites
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.models import VTModel
from voronoi_circuits.specs import VT, Circuit

PLACES = {"root": "root", "internal": (0, 1), "nested": ["root", (0, 1)], "apart": [(0, 1), (2, 3)]}


def integrals(model: VTModel) -> tuple[np.ndarray, float]:
    """∫ over V_k of p_k for every cell of a root gate on two variables, and Z, by quadrature."""
    gate = model.root_gate
    assert gate is not None
    x, w = oracle.grid_2d(-9, 9, oracle.bisectors(gate.tessellation.centroids.detach().numpy()), width=1.0)
    densities = model.experts.values(Question.density(x)).exp() * gate.hard(x).exp().T
    cells = (densities @ w).detach().numpy()
    return cells, float(model.experts.log_weights(x.dtype).exp().detach().numpy() @ cells)


def everything(model: VTModel) -> Refinement:
    """The refinement of Z, with nothing left to learn."""
    model.requires_grad_(False)
    nothing = torch.full((1, model.n_variables), torch.nan, dtype=torch.float64)
    end = torch.full_like(nothing, torch.inf)
    return Refinement(model, nothing, -end, end)


@pytest.mark.parametrize("seed", range(4))
def test_lemma_cell_integral_bounds(seed: int) -> None:
    """∫ over B_k^- of p_k <= ∫ over V_k of p_k <= ∫ over B_k^+ of p_k, for every cell."""
    model = build(VT(Circuit(units=2), cells=4), 2, seed)
    truth, _ = integrals(model)
    boxes = [inner_boxes(model, sites(model)[0]), outer_boxes(model, model.placed[0])]
    below, above = (
        model.experts.values(Question.mass(box.low, box.high)).exp().diagonal().detach().numpy()
        for box in boxes
    )
    assert (below <= truth + 1e-9).all()
    assert (truth <= above + 1e-9).all()
    assert (below > 0).all()


@pytest.mark.parametrize("place", list(PLACES))
def test_theorem_bound_propagation(place: str) -> None:
    """Z^- <= Z <= Z^+ with gates at the root, at an internal region, one below the other, side by side."""
    for seed in range(3):
        model = build(VT(Circuit(FOUR), cells=2, gate_at=PLACES[place]), 4, seed)
        truth = np.log(true_partition(model))
        for certificate in (certify(model, "boxes"), certify(model, "refine", max_boxes=2000)):
            assert certificate.lower <= truth <= certificate.upper
        assert certificate.upper - certificate.lower < np.inf


def test_algorithm_certified_bound_computation() -> None:
    """At a gated root I^± = Σ_k π_k ∫ over B_k^± of p_k, capped by 1; above a gate sums and products."""
    model = build(VT(Circuit(units=2), cells=4), 2, 5)
    weights = model.experts.log_weights(torch.float64).exp()
    sides = []
    for box in (inner_boxes(model, sites(model)[0]), outer_boxes(model, model.placed[0])):
        masses = model.experts.values(Question.mass(box.low, box.high)).exp().diagonal()
        sides.append(float((weights @ masses).log().detach()))
    certificate = certify(model, "boxes")
    assert certificate.lower == pytest.approx(sides[0], abs=1e-12)
    assert certificate.upper == pytest.approx(min(sides[1], 0.0), abs=1e-12)
    inner = build(VT(Circuit(FOUR), cells=2, gate_at=(0, 1)), 4, 6)
    site = sites(inner)[0]
    box = inner_boxes(inner, site)
    low, high = (side.new_full((2, 4), sign * torch.inf) for side, sign in zip(box, (-1, 1), strict=True))
    low[:, :2], high[:, :2] = box
    units = inner.experts.circuit.run(Question.mass(low, high))[4][0].exp().diagonal()
    mixed = (
        inner.experts.circuit.weights(6)[0][0, 0] @ units
    ).detach()  # the other factor of the root's product is 1
    assert certify(inner, "boxes").lower == pytest.approx(float(mixed.log()), abs=1e-12)


def test_theorem_monotone_tightening() -> None:
    """(i) every interval holds Z, (ii) none is wider than the one before, (iii) the gap goes to 0."""
    model = build(VT(Circuit(units=2), cells=5), 2, 7)
    truth = integrals(model)[1]
    refinement = everything(model)
    part = refinement.partitions[0]
    found, widths = [], []
    for _ in range(40):
        found.append(
            [ratio[0] for ratio in part.ratios()]
        )  # each unit's share, before anything is intersected
        widths.append(float(refinement.gap[0]))
        assert refinement.lower[0] <= np.log(truth) <= refinement.upper[0]
        refinement.step(torch.tensor([True]), torch.tensor([64]))
    lower, upper = (torch.stack(side) for side in zip(*found, strict=True))
    assert (lower.diff(dim=0) >= -1e-13).all()
    assert (upper.diff(dim=0) <= 1e-13).all()
    assert widths == sorted(widths, reverse=True)
    assert widths[-1] < 0.02 < widths[0]
    assert certify(model, tolerance=2e-3).gap <= 2e-3


@pytest.mark.parametrize("d", [2, 3])
def test_theorem_monotone_tightening_rate(d: int) -> None:
    """Uniform refinement: t bisections of every box, one side after the other, shrink the gap like 2^(−t/d).

    That is N^(−1/d) for N = 2^t boxes in all. Bisecting boundary boxes alone does better: N^(−1/(d−1)) or so.
    """
    centroids, means = rows(d, 3, d).numpy(), rows(d + 1, 3, d).numpy()
    deviations = np.full((3, d), 0.8)
    cells, gaps = Tessellation(torch.tensor(centroids)), []
    for side in (16, 32, 64):
        edges = torch.linspace(-4, 4, side + 1, dtype=torch.float64)
        low, high = (torch.cartesian_prod(*[part] * d) for part in (edges[:-1], edges[1:]))
        inside, touches = cells.classify(low, high)
        gap = 0.0
        for k in range(3):
            undecided = (touches & ~inside)[:, k].numpy()
            sides = stats.norm(means[k], deviations[k])
            gap += (sides.cdf(high[undecided]) - sides.cdf(low[undecided])).prod(1).sum() / 3
        gaps.append(gap)
    assert np.array(gaps[:-1]) / gaps[1:] == pytest.approx([2.0, 2.0], abs=0.25)
    history = certify(gated(centroids, means, deviations), "refine", tolerance=0.02, max_boxes=60_000).history
    late = [step for step in history if 0.02 <= step.upper - step.lower <= 0.3]
    slope = np.polyfit(np.log([s.boxes for s in late]), np.log([s.upper - s.lower for s in late]), 1)[0]
    assert slope < -1 / d
    assert slope == pytest.approx(-1 / (d - 1), abs=0.2)


def test_algorithm_adaptive_refinement() -> None:
    """One bisection a step: the box that adds most to the gap gives way to its two halves; it stops at ε."""
    model = build(VT(Circuit(units=2), cells=3), 2, 8)
    refinement = everything(model)
    part, weight = refinement.partitions[0], refinement.weights[0]
    for _ in range(30):
        chosen = int(part.gaps(weight).argmax())
        before = {tuple(side) for side in torch.cat([part.open.low, part.open.high], 1).tolist()}
        target = tuple(torch.cat([part.open.low[chosen], part.open.high[chosen]]).tolist())
        count = int(refinement.boxes[0])
        refinement.step(torch.tensor([True]), torch.tensor([1]))
        after = {tuple(side) for side in torch.cat([part.open.low, part.open.high], 1).tolist()}
        assert before - after == {target}
        assert len(after - before) <= 2
        assert int(refinement.boxes[0]) == count + 2
        for child in after - before:
            changed = [a != b for a, b in zip(child, target, strict=True)]
            assert sum(changed) == 1
    assert certify(model, "refine", tolerance=0.3, batch=1).gap <= 0.3


def test_proposition_per_iteration_complexity(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bisection labels two boxes and integrates those two, however many boxes there are already."""
    model = build(VT(Circuit(units=2), cells=4), 2, 9)
    refinement = everything(model)
    seen: Counter[str] = Counter()
    classify, run = Tessellation.classify, FoldedCircuit.run

    def counted_classify(self: Any, low: Any, *rest: Any) -> Any:
        seen["labelled"] += len(low)
        return classify(self, low, *rest)

    def counted_run(self: Any, question: Any, *rest: Any, **named: Any) -> Any:
        seen["integrated"] += question.template.numel() // self.graph.n_variables
        return run(self, question, *rest, **named)

    monkeypatch.setattr(Tessellation, "classify", counted_classify)
    monkeypatch.setattr(FoldedCircuit, "run", counted_run)
    costs = []
    for _ in range(60):
        seen.clear()
        refinement.step(torch.tensor([True]), torch.tensor([1]))
        costs.append((seen["labelled"], seen["integrated"]))
    assert {labelled for labelled, _ in costs} == {2}
    assert (
        max(integrated for _, integrated in costs) <= 2 * 2 * 4 + 2
    )  # boxes, sides, cells; and the root's two


def test_proposition_per_iteration_complexity_of_labels() -> None:
    """Half-spaces cost O(K² d) a box, no corners: what is written grows like d, never like 2^d."""

    def cost(cells: int, d: int, boxes: int = 64) -> int:
        tessellation, low = Tessellation(rows(0, cells, d)), rows(1, boxes, d)
        return written(lambda: tessellation.classify(low, low + 0.1))

    by_dimension = [cost(8, d) for d in (8, 16, 32, 64)]
    assert all(b < 2.05 * a for a, b in pairwise(by_dimension))
    by_cells = [cost(k, 16) for k in (8, 16, 32)]
    assert all(b < 4.1 * a for a, b in pairwise(by_cells))


def test_corollary_marginal_bounds() -> None:
    """Each interval holds log p(x_A) by quadrature over the rest, for either variable."""
    model = build(VT(Circuit(units=2), cells=4), 2, 10)
    _, z = integrals(model)
    certificate = certify(model)
    lines = oracle.bisectors(model.placed[0].tessellation.centroids.detach().numpy())
    for seen in (0, 1):
        x = rows(11, 6, 2)
        x[:, 1 - seen] = torch.nan
        low, high = marginal_bounds(model, x, certificate)
        for i, value in enumerate(x[:, seen].tolist()):
            breaks = [(b - a[seen] * value) / a[1 - seen] for a, b in lines if abs(a[1 - seen]) > 1e-12]
            t, w = oracle.nodes(-9, 9, breaks)
            points = torch.empty(len(t), 2, dtype=torch.float64)
            points[:, seen], points[:, 1 - seen] = value, torch.tensor(t)
            truth = np.log(w @ model.log_unnormalized(points).exp().detach().numpy() / z)
            assert low[i] <= truth <= high[i]
            assert high[i] - low[i] < 0.01


def test_marginal_boxes_are_sliced_and_never_projected() -> None:
    """At x_1 = 0 the marginal is 0.048; V_1's inner box, projected onto x_2, would "prove" 0.84."""
    slope, centre, radius = 1.61, 0.75, 2.4  # V_1 = {x_2 >= x_1 + 1.61}; the paper's box touches its facet
    first = np.array([centre - slope - 2 * radius, centre])
    second = np.array([centre - slope, first[0] + slope])  # its mirror image in the facet
    model = gated(
        np.array([first, second]),
        np.array([[0.0, 0.0], [40.0, 0.0]]),
        np.array([[0.45, 1.0]] * 2),
        [20.0, -20.0],
    )
    x_density = stats.norm(0, 0.45).pdf(0)
    truth = x_density * stats.norm.sf(slope)
    assert truth == pytest.approx(0.048, abs=5e-4)
    projected = x_density * np.diff(stats.norm.cdf([centre - radius, centre + radius]))[0]
    assert projected == pytest.approx(0.84, abs=5e-3)
    row = torch.tensor([[0.0, torch.nan]], dtype=torch.float64)
    for boxes in (1, 100, 4096):
        low, high = integral_bounds(model, row, max_boxes=boxes)
        assert low.exp().item() <= truth <= high.exp().item()
        assert low.exp().item() < projected
    assert high.exp().item() < projected


def test_a_lower_bound_of_the_likelihood_needs_an_upper_bound_of_the_partition_function() -> None:
    """log f − log Z^+ <= log p <= log f − log Z^-: dividing by the inner boxes' Z^- is above the truth."""
    model = build(VT(Circuit(units=2), cells=4), 2, 12)
    x = rows(13, 200, 2)
    truth = torch.from_numpy(oracle.vt_log_f(model, x.numpy())) - np.log(integrals(model)[1])
    certificate = certify(model, "boxes")
    low, high = model.log_prob_bounds(x, certificate)
    assert (low <= truth + 1e-9).all()
    assert (truth <= high + 1e-9).all()
    as_printed = model.log_unnormalized(x) - certificate.lower
    assert (as_printed > truth + 0.05).all()


def test_corollary_conditional_bounds() -> None:
    """p^-(a, b)/p^+(b) <= p(a | b) <= p^+(a, b)/p^-(b), against quadrature."""
    model = build(VT(Circuit(units=2), cells=4), 2, 14)
    lines = oracle.bisectors(model.placed[0].tessellation.centroids.detach().numpy())
    x = rows(15, 6, 2)
    low, high = conditional_bounds(model, x, [1])
    log_f = model.log_unnormalized(x)
    for i, given in enumerate(x[:, 1].tolist()):
        t, w = oracle.nodes(-9, 9, [(b - a[1] * given) / a[0] for a, b in lines if abs(a[0]) > 1e-12])
        line = torch.stack([torch.tensor(t), torch.full((len(t),), given, dtype=torch.float64)], 1)
        truth = log_f[i].item() - np.log(w @ model.log_unnormalized(line).exp().detach().numpy())
        assert low[i] <= truth <= high[i]
        assert high[i] - low[i] < 0.01


def test_corollary_conditional_bounds_without_a_proven_denominator() -> None:
    """p^-(b) = 0 gives +inf above, not an error and not NaN."""
    model = build(VT(Circuit(units=2), cells=4), 2, 14)
    low, high = conditional_bounds(model, rows(15, 6, 2), [1], max_boxes=1)
    assert high.isposinf().any()
    assert not (low.isnan() | high.isnan()).any()


def test_a_box_around_the_data_bounds_another_integral() -> None:
    """Over Ω the bounds hold ∫ over Ω of f, of a truncated model; over R^d they hold Z. The two differ."""
    model = build(VT(Circuit(units=2), cells=4), 2, 16)
    _, z = integrals(model)
    box = {0: (-1.0, 1.5), 1: (-1.2, 1.0)}
    planes = oracle.bisectors(model.placed[0].tessellation.centroids.detach().numpy())
    across, up = np.eye(2)
    x, w = oracle.grid_2d(-1.5, 1.5, [*planes, (across, -1.0), (up, -1.2), (up, 1.0)])
    inside = ((x[:, 0] > -1) & (x[:, 1] > -1.2) & (x[:, 1] < 1.0)).double()
    omega = float((model.log_unnormalized(x).exp() * inside).detach() @ w)
    whole, cut = certify(model, tolerance=0.01), certify(model.truncate(box), tolerance=0.01)
    assert whole.lower <= np.log(z) <= whole.upper
    assert cut.lower <= np.log(omega) <= cut.upper
    assert cut.upper < whole.lower
