"""Algorithm "Adaptive Anytime Bound Refinement": monotone, anytime, one bisection a step, its cost."""

import itertools
import time

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from tests.certificates.random_models import random_case
from tests.certificates.scenes import everything, gaussians, trained
from tests.certificates.truth import asked, by_quadrature
from voronoi_circuits.certificates import Status, certify
from voronoi_circuits.certificates.partition import _cut
from voronoi_circuits.certificates.refinement import Refinement
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.geometry import halfspaces


def bounds(refinement):
    return refinement.lower.clone(), refinement.upper.clone()


@settings(max_examples=12)
@given(st.integers(0, 400), st.lists(st.integers(1, 64), min_size=1, max_size=6))
def test_monotone_tightening_and_any_stop_is_sound(seed, batches):
    """Theorem 3.9, monotonicity: whatever is split, bounds tighten around the truth."""
    case = random_case(5 * seed + 1)
    known = by_quadrature(case.model, asked(case.model, np.full(2, np.nan)))
    refinement = Refinement(case.model, *everything(case.model))
    before = bounds(refinement)
    for batch in batches:
        with torch.no_grad():
            refinement.step(torch.ones(1, dtype=torch.bool), torch.tensor([batch]))
        after = bounds(refinement)
        assert before[0] <= after[0] <= known.high
        assert before[1] >= after[1] >= known.low
        before = after


class Plain:
    """Algorithm 1 in NumPy, one bisection a step, for one Gaussian a cell."""

    def __init__(self, model):
        leaves = [
            model.experts.circuit.leaf(i)
            for i, r in enumerate(model.experts.circuit.graph.regions)
            if not r.children
        ]
        self.mean = np.stack([leaf.mean()[:, at, 0].detach().numpy() for leaf, at in leaves], 1)
        self.deviation = np.stack(
            [leaf.variance()[:, at, 0].detach().sqrt().numpy() for leaf, at in leaves], 1
        )
        self.weight = torch.softmax(model.experts.logits.detach().double(), 0).numpy()
        self.c = model.placed[0].tessellation.centroids.detach().double().numpy()
        d = self.c.shape[1]
        self.boxes = [self.weigh(np.full(d, -np.inf), np.full(d, np.inf))]

    def label(self, low, high, k, outside):
        """Whether the box misses a half-space of cell k whole (outside), or meets all of them whole."""
        for j in range(len(self.c)):
            a, m = self.c[j] - self.c[k], (self.c[j] + self.c[k]) / 2
            rising, falling = (low, high) if outside else (high, low)
            ends = np.where(a > 0, rising, falling)
            reach = sum(a[i] * (ends[i] - m[i]) for i in range(len(a)) if a[i])
            if reach > 0:
                return outside
        return not outside

    def weigh(self, low, high):
        a, b = (low - self.mean) / self.deviation, (high - self.mean) / self.deviation
        mass = self.weight * np.prod(norm.cdf(b) - norm.cdf(a), 1)
        inside = [self.label(low, high, k, False) for k in range(len(self.c))]
        outside = [self.label(low, high, k, True) for k in range(len(self.c))]
        return low, high, np.where(inside, mass, 0), np.where(outside, 0, mass)

    def step(self):
        gaps = [(upper - lower).sum() for _, _, lower, upper in self.boxes]
        low, high, lower, upper = self.boxes.pop(int(np.argmax(gaps)))
        k = int(np.argmax(upper - lower))
        a, b = (low - self.mean[k]) / self.deviation[k], (high - self.mean[k]) / self.deviation[k]
        i = int(np.argmax(np.minimum(b, 6) - np.maximum(a, -6)))
        middle = norm.ppf((norm.cdf(a[i]) + norm.cdf(b[i])) / 2) * self.deviation[k, i] + self.mean[k, i]
        cut = (low[i] + high[i]) / 2 if a[i] >= -6 and b[i] <= 6 else middle
        for side in (0, 1):
            left, right = low.copy(), high.copy()
            (right if side == 0 else left)[i] = cut
            self.boxes.append(self.weigh(left, right))

    @property
    def bounds(self):
        with np.errstate(divide="ignore"):
            return tuple(np.log(sum(box[side].sum() for box in self.boxes)) for side in (2, 3))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_batch_of_one_is_the_paper_s_single_bisection(seed):
    model = gaussians(seed)
    plain, refinement = Plain(model), Refinement(model, *everything(model))
    for _ in range(60):
        plain.step()
        with torch.no_grad():
            refinement.step(torch.ones(1, dtype=torch.bool), torch.tensor([1]))
        assert float(refinement.lower) == pytest.approx(plain.bounds[0], abs=1e-9)
        assert float(refinement.upper) == pytest.approx(plain.bounds[1], abs=1e-9)


def test_the_same_model_gives_the_same_bounds():
    first, second = (certify(gaussians(3, cells=6), "refine", max_boxes=2000) for _ in range(2))
    assert (first.lower, first.upper, first.boxes) == (second.lower, second.upper, second.boxes)
    assert [step[2:] for step in first.history] == [step[2:] for step in second.history]


def test_a_row_s_bounds_do_not_depend_on_other_rows():
    model = gaussians(4, cells=5, variables=3)
    x = torch.tensor(
        [[0.2, torch.nan, torch.nan], [torch.nan, -1.0, torch.nan], [4.0, torch.nan, 0.0]]
    ).double()
    ends = [side.expand_as(x) for side in model.domain_sides(x)]
    together = Refinement(model, x, *ends)
    together.run(1e-3, 256)
    for i in range(len(x)):
        alone = Refinement(model, x[i : i + 1], ends[0][:1], ends[1][:1])
        alone.run(1e-3, 256)
        assert float(alone.lower) == pytest.approx(float(together.lower[i]), abs=1e-12)
        assert float(alone.upper) == pytest.approx(float(together.upper[i]), abs=1e-12)
        assert int(alone.boxes) == int(together.boxes[i])


def test_an_interrupt_returns_what_is_proven():
    model, seen = gaussians(5, cells=8), []

    def stop(step):
        seen.append(step)
        if len(seen) == 4:
            raise KeyboardInterrupt

    for method in ("refine", "auto"):
        seen.clear()
        found = certify(model, method, tolerance=1e-9, progress=stop)
        assert found.status is Status.INTERRUPTED
        assert found.lower >= seen[-1].lower
        assert found.upper <= seen[-1].upper


@pytest.mark.parametrize("method", ["refine", "auto"])
def test_why_it_stopped(method):
    model = gaussians(6, cells=8)
    assert certify(model, method, tolerance=0.05).status is Status.TOLERANCE
    assert certify(model, method, tolerance=1e-9, max_boxes=500).status is Status.BOXES
    assert certify(model, method, tolerance=1e-9, budget=0.5).status is Status.SECONDS


def test_boxes_are_counted_and_kept_to():
    found = certify(gaussians(6, cells=8), "refine", tolerance=1e-9, max_boxes=501)
    assert 490 <= found.boxes <= 502
    assert [step.boxes for step in found.history] == sorted(step.boxes for step in found.history)


@pytest.mark.parametrize("cells, variables", [(3, 2), (9, 2), (9, 4)])
def test_the_cost_of_a_step(monkeypatch, cells, variables):
    """O(K² d) for a box, audit row 9: two boxes against every pair of cells, and no corner."""
    model = gaussians(1, cells, variables)
    refinement = Refinement(model, *everything(model))
    compared, passes = [], []
    beats, run = halfspaces._beats, FoldedCircuit.run

    def counted(centroids, centre, low, high, index, widen):
        compared.append(len(low) * index.shape[1] ** 2 * low.shape[1])
        return beats(centroids, centre, low, high, index, widen)

    def passed(self, question, *rest, **options):
        passes.append(question.template.shape[:-1].numel())
        return run(self, question, *rest, **options)

    monkeypatch.setattr(halfspaces, "_beats", counted)
    monkeypatch.setattr(FoldedCircuit, "run", passed)
    for _ in range(30):
        compared.clear(), passes.clear()
        with torch.no_grad():
            assert refinement.step(torch.ones(1, dtype=torch.bool), torch.tensor([1]))
        assert sum(compared) <= 2 * cells**2 * variables
        assert len(passes) <= 4  # the two new boxes from below and above, and the two sums at the root
        assert sum(passes) <= 2 * 2 * cells + 2


@pytest.mark.parametrize("shared", [False, True])
def test_ten_cells_in_two_variables_within_a_thousandth(shared):
    """20 s on two cores are 40 s of processor time, which other work on the machine does not change."""
    model = trained(shared)
    start = time.process_time()
    found = certify(model, "refine", tolerance=1e-3, budget=None)
    assert found.status is Status.TOLERANCE
    assert found.gap <= 1e-3
    assert time.process_time() - start < 40


@pytest.mark.parametrize("low, high, mean, deviation", [
    (-torch.inf, torch.inf, 3.0, 1.0), (-torch.inf, -1e4, 0.0, 1e-4), (1e4, torch.inf, 0.0, 1e-4),
    (0.0, 1.0, 0.5, 1.0), (1e300, torch.inf, 0.0, 1.0), (-torch.inf, 0.0, 1e17, 1e-3),
])  # fmt: skip
def test_a_cut_lies_within_its_side(low, high, mean, deviation):
    sides = [torch.tensor([v], dtype=torch.float64) for v in (low, high, mean, deviation)]
    ends = [(side - sides[2]) / sides[3] for side in sides[:2]]
    assert low < float(_cut(*sides, *ends)) < high


def test_points_have_nothing_to_split():
    """A row that gives all variables, on a facet: at once, without a box spent."""
    model = gaussians(2)
    facet = model.placed[0].tessellation.centroids.detach().double()[:2].mean(0, keepdim=True)
    refinement = Refinement(model, facet, *(side.expand_as(facet) for side in model.domain_sides(facet)))
    assert refinement.run(1e-3, 4096) is Status.BOXES
    assert int(refinement.boxes) == 1


def test_plain_labels_agree_with_brute_force():
    """The reference above, against points of a fine grid."""
    plain = Plain(gaussians(0, cells=5))
    rng = np.random.default_rng(0)
    for _ in range(200):
        low, high = np.sort(rng.normal(size=(2, 2)), 0)
        grid = np.array(list(itertools.product(*np.linspace(low, high, 15).T)))
        owners = ((grid[:, None] - plain.c) ** 2).sum(-1).argmin(1)
        for k in range(5):
            if plain.label(low, high, k, False):
                assert (owners == k).all()
            if plain.label(low, high, k, True):
                assert (owners != k).all()
