"""The suite can fail: unsound variants, planted one at a time, each caught by the suite's own check."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.certificates import suite
from tests.certificates.random_models import Case, random_case
from tests.certificates.test_outer_boxes import solver
from tests.certificates.test_soundness import exactly_violated, slab_cases
from tests.certificates.truth import asked, by_quadrature
from voronoi_circuits.certificates import boxes
from voronoi_circuits.certificates.boxes import CellBoxes, initial_bounds
from voronoi_circuits.certificates.partition import Partition
from voronoi_circuits.circuits import layers
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.leaves.gaussian import Gaussian
from voronoi_circuits.circuits.structures import random_binary_tree
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models import experts
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel

END = torch.full((1, 2), torch.inf, dtype=torch.float64)


def cases(count: int, wanted) -> list[Case]:
    """The first cases of the suite that a variant can hurt."""
    found = []
    for seed in range(2000):
        case = random_case(seed)
        if wanted(case):
            found.append(case)
        if len(found) == count:
            return found
    raise AssertionError("no such cases")


def caught(chosen: list[Case]) -> set[str]:
    """The kinds of findings that the suite calls violations."""
    return {f.kind for case in chosen for f in suite.findings(case, draws=20_000) if f.violated}


def two_cells() -> VTModel:
    """Cells x₁ < 2 and x₁ > 2; the first expert's mass lies at the facet, the second's beyond."""
    graph = random_binary_tree(2, units=1, product="cp", generator=torch.Generator().manual_seed(0))
    circuit = FoldedCircuit(graph, 2)
    gate = VoronoiGate(len(graph.regions) - 1, [0, 1], Tessellation(torch.tensor([[0.0, 0.0], [4.0, 0.0]])))
    with torch.no_grad():
        for index, region in enumerate(graph.regions[:2]):
            leaf, at = circuit.leaf(index)
            mean, deviation = (
                ([2.0, 4.0], [0.2305, 1.27]) if region.scope == (0,) else ([0.0, 0.0], [1.0, 1.0])
            )
            leaf.location[:, at, 0] = torch.tensor(mean)
            leaf.raw[:, at, 0] = torch.tensor(deviation).log()
    return VTModel(circuit, [gate])


def projected(monkeypatch):
    """Inner boxes without the sides of the variable that is given, audit row 2."""
    proposed = boxes.inner_boxes

    def without(model, site):
        low, high = proposed(model, site)
        return CellBoxes(
            low.index_fill(1, torch.tensor(0), -torch.inf), high.index_fill(1, torch.tensor(0), torch.inf)
        )

    monkeypatch.setattr(boxes, "inner_boxes", without)


def test_a_box_projected_and_not_sliced(monkeypatch):
    """The density of x₁ = 2.05, next door to the first cell: a "lower bound" of 0.84 for a truth of 0.048."""
    model, row = two_cells(), np.array([2.05, np.nan])
    x, sides = torch.tensor(row[None]), (-END, END)
    known = by_quadrature(model, asked(model, row))
    sound = [float(side) for side in initial_bounds(model, x, *sides)]
    assert not suite.Finding("integral", *sound, known).violated
    assert np.exp(known.low) == pytest.approx(0.048, abs=5e-4)
    projected(monkeypatch)
    planted = [float(side) for side in initial_bounds(model, x, *sides)]
    assert np.exp(planted[0]) == pytest.approx(0.84 + 0.048, abs=0.06)
    assert suite.Finding("integral", *planted, known).violated


def test_an_lp_s_primal_value_as_a_bound():
    """A solver's optimum lies inside the exact box as often as outside."""

    def primal(points, low, high):
        points, low, high = (part.numpy() for part in (points, low, high))
        below, above = (np.repeat(side[None], len(points), 0) for side in (low, high))
        for k in range(len(points)):
            for i in range(points.shape[1]):
                found = solver(points, k, low, high, i) if len(points) > 1 else None
                above[k, i] = found[0] if found else above[k, i]
        return torch.tensor(below), torch.tensor(above)

    chosen = cases(40, lambda c: len(c.model.placed[0].variables) == 2 and 2 < c.model.placed[0].n_cells < 6)
    for outer, expected in ((boxes.outer_box, False), (primal, True)):
        assert any(f.violated for case in chosen for f in suite.outer_sides(case, outer)) == expected


def test_the_paper_s_wrong_sign(monkeypatch):
    """lower = log f − log Z⁻, audit row 1."""
    honest = VTModel.log_prob_bounds

    def swapped(self, x, certificate=None):
        low, high = honest(self, x, certificate)
        width = certificate.upper - certificate.lower
        return low + width, high

    monkeypatch.setattr(VTModel, "log_prob_bounds", swapped)
    assert "density" in caught(cases(3, lambda c: c.model.n_variables == 2 and c.extreme == "none"))


def by_single_precision(self, low, high, cells=None):
    """Labels in float32, offsets as differences of squared norms."""
    return _labels(self.centroids.detach().float(), low.float(), high.float())


def without_slack(self, low, high, cells=None):
    """Labels in float64 without a bound on rounding."""
    return _labels(self.centroids.detach().double(), low, high)


def _labels(c, low, high):
    normals, offsets = c[None] - c[:, None], (c.square().sum(1)[None] - c.square().sum(1)[:, None]) / 2
    worst, best = low.new_zeros(len(low), len(c), len(c)), low.new_zeros(len(low), len(c), len(c))
    for i in range(c.shape[1]):
        ends = [(normals[..., i] * side[:, i, None, None]).nan_to_num(nan=0.0) for side in (low, high)]
        worst, best = worst + torch.maximum(*ends), best + torch.minimum(*ends)
    return (worst <= offsets).all(2), (best <= offsets).all(2)


def by_corners(self, low, high, cells=None):
    """A cell touches a box only if it owns a corner."""
    ends = [torch.where(torch.isinf(side), side.sign() * 1e6, side) for side in (low, high)]
    places = torch.cartesian_prod(*[torch.arange(2)] * low.shape[1]).view(-1, low.shape[1])
    corners = torch.stack([torch.where(place == 0, *ends) for place in places])
    owners = torch.stack([self.nearest(corner) for corner in corners])
    owned = nn.functional.one_hot(owners, self.n_cells).bool()
    return owned.all(0), owned.any(0)


@pytest.mark.parametrize("labels, extreme", [
    (by_single_precision, "offset"), (without_slack, "offset"), (by_corners, "none"),
])  # fmt: skip
def test_labels_that_prove_nothing(monkeypatch, labels, extreme):
    chosen = cases(25, lambda c: c.extreme == extreme and c.model.placed[0].n_cells > 2)
    found = [f for case in chosen for f in suite.labels(case, np.random.default_rng(0))]
    assert found
    assert not any(f.violated for f in found)
    monkeypatch.setattr(Tessellation, "classify", labels)
    found = [f for case in chosen for f in suite.labels(case, np.random.default_rng(0))]
    assert any(f.violated for f in found)


def test_float32_labels_at_an_offset_bring_z_down(monkeypatch):
    chosen = cases(4, lambda c: c.extreme == "offset" and c.model.n_variables == 1)
    monkeypatch.setattr(Tessellation, "classify", by_single_precision)
    assert caught(chosen) & {"Z refined", "marginal", "conditional", "probability"}


def test_a_nested_gate_s_boxes_not_intersected(monkeypatch):
    def own_sides_only(low, high, gate, chosen):
        low, high = low.clone(), high.clone()
        low[:, list(gate.variables)], high[:, list(gate.variables)] = chosen.low, chosen.high
        return low, high

    chosen = cases(4, lambda c: c.place == "nested" and c.extreme == "slabs")
    monkeypatch.setattr(boxes, "_met", own_sides_only)
    assert caught(chosen) & {"Z initial", "integral initial"}


def test_a_gate_below_another_left_out(monkeypatch):
    chosen = cases(4, lambda c: c.place == "shared parts" and c.extreme == "none")
    whole = Partition._weigh

    def without(self, *sides):
        self.site = type(self.site)(self.site.gate, ())
        return whole(self, *sides)

    monkeypatch.setattr(Partition, "_weigh", without)
    assert caught(chosen) & {"Z refined", "marginal", "conditional"}


def test_rounding_moved_inward(monkeypatch):
    """Against 40 digits: nothing else is that exact."""
    honest = layers.widen
    for room in (layers, experts):
        monkeypatch.setattr(room, "widen", lambda out, tops, n, outward: honest(out, tops, n, -outward))
    outward = Gaussian.rounding
    monkeypatch.setattr(Gaussian, "rounding", lambda self, value: -outward(self, value))
    assert any(exactly_violated(case) for case in slab_cases(12))
