"""Plain circuits and mixtures: one pass answers everything, checked by quadrature, loops and draws."""

import numpy as np
import pytest
import torch
from scipy import stats

from tests.models.examples import EXACT, build, is_discrete, points, rows, seeded
from tests.oracle import evaluate, grid_2d, nodes
from voronoi_circuits.models.base import as_box, evidence_of
from voronoi_circuits.models.exact import CircuitModel, ExactModel, MixtureModel
from voronoi_circuits.specs import HFV, Circuit, Mixture

INF = float("inf")
PLANE = {
    "circuit": Circuit(units=4),
    "circuit, tucker": Circuit("einet", "tucker", 3, repetitions=2),
    "mixture": Mixture(Circuit(units=3), 4),
    "hfv": HFV(Circuit(units=3), 4, 2),
}


def plane(name: str) -> ExactModel:
    model = PLANE[name].build(rows()[:, :2], seeded())
    assert isinstance(model, ExactModel)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key == "experts.logits":
                parameter.normal_(generator=seeded(1))
            if key.endswith("raw"):
                parameter.clamp_(min=-1.5)
    return model


def breaks(model: ExactModel) -> list[tuple[np.ndarray, float]]:
    """The axis-parallel facets of an HFV model."""
    planes = []
    for key, cells in getattr(model, "intervals", {}).items():
        variable = model.experts.circuit.graph.regions[int(key)].scope[0]
        planes += [(np.eye(2)[variable], edge) for edge in cells.edges()[1][0, :-1].tolist()]
    return planes


@pytest.mark.parametrize("name", PLANE)
def test_density_integrates_to_one_and_to_its_marginals(name):
    model = plane(name)
    x, w = grid_2d(-9, 9, breaks(model), order=8)
    with torch.no_grad():
        density = model.log_prob(x).exp()
        assert (density * w).sum().item() == pytest.approx(1.0, abs=1e-8)
        ys, v = nodes(-9, 9, [b for a, b in breaks(model) if a[1]], order=10)
        for first in (-1.3, 0.2, 2.0):
            line = torch.tensor(np.stack([np.full_like(ys, first), ys], 1))
            missing = torch.tensor([[first, np.nan]], dtype=torch.float64)
            total = (model.log_prob(line).exp() * torch.tensor(v)).sum()
            assert total.item() == pytest.approx(model.log_marginal(missing).exp().item(), abs=1e-9)


@pytest.mark.parametrize("name", PLANE)
def test_probabilities_of_boxes_by_quadrature(name):
    model = plane(name)
    box = {0: (-0.8, 0.5), 1: (-0.1, 1.9)}
    edges = [*breaks(model), *((np.eye(2)[v], side) for v in (0, 1) for side in box[v])]
    x, w = grid_2d(-9, 9, edges, order=8)
    kept = torch.tensor([[-0.8, -0.1]]).double(), torch.tensor([[0.5, 1.9]]).double()
    inside = ((x > kept[0]) & (x < kept[1])).all(1)
    with torch.no_grad():
        want = (model.log_prob(x).exp() * w)[inside].sum().item()
        assert model.probability(box).item() == pytest.approx(want, abs=1e-8)
        short = model.truncate(box)
        assert short.log_partition().exp().item() == pytest.approx(
            (model.log_partition().exp() * want).item(), abs=1e-8
        )
        assert (short.log_prob(x).exp() * w).sum().item() == pytest.approx(1.0, abs=1e-7)
        given = torch.tensor([[0.2, np.nan], [-0.7, np.nan]], dtype=torch.float64)
        ys, v = nodes(-0.1, 1.9, [b for a, b in breaks(model) if a[1]])
        for row, value in zip(given, model.probability({1: box[1]}, given), strict=True):
            line = torch.tensor(np.stack([np.full_like(ys, row[0]), ys], 1))
            conditional = model.log_conditional(line, [0]).exp()
            assert value.item() == pytest.approx((conditional * torch.tensor(v)).sum().item(), abs=1e-9)


@pytest.mark.parametrize("name", [name for name in EXACT if "hfv" not in name])
def test_mixtures_by_explicit_loops(name):
    model = build(name)
    x = points(name, 10)
    x[2, 0] = x[5, 1] = x[6, 2] = torch.nan
    weights = (
        torch.ones(1).numpy()
        if model.experts.logits is None
        else model.experts.logits.double().softmax(0).detach().numpy()
    )
    experts = range(model.experts.circuit.n_experts)
    parts = np.concatenate(
        [np.exp(evaluate(model.experts.circuit, x.numpy(), expert=e)[-1]) for e in experts]
    )
    np.testing.assert_allclose(model.log_marginal(x).exp().detach(), weights @ parts, rtol=1e-10)
    complete = ~x.isnan().any(1)
    share = model.responsibilities(x[complete]).detach()
    np.testing.assert_allclose(
        share, ((weights[:, None] * parts) / (weights @ parts)).T[complete.numpy()], rtol=1e-8
    )


@pytest.mark.parametrize("name", EXACT)
def test_conditionals_are_ratios(name):
    model = build(name)
    x = points(name, 12)
    with torch.no_grad():
        joint, given = model.log_prob(x), model.log_marginal(evidence_of(x, [0, 2]))
        torch.testing.assert_close(model.log_conditional(x, [0, 2]), joint - given, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.log_conditional(x, []), joint, rtol=1e-12, atol=1e-12)
        part = evidence_of(x, [0, 1])
        want = model.log_marginal(part) - model.log_marginal(evidence_of(x, [1]))
        torch.testing.assert_close(model.log_conditional(part, [1]), want, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(model.probability({}), torch.ones(1).double())
    with pytest.raises(ValueError, match="given names variable 3; the model has 0 to 2"):
        model.log_conditional(x, [3])


@pytest.mark.parametrize("name", EXACT)
def test_evidence_that_overlaps_the_box_is_refused(name):
    model = build(name)
    given = torch.full((2, 3), torch.nan).double()
    given[1, 2] = 0.3
    assert model.probability({0: (-1.0, 1.0)}, given).shape == (2,)
    with pytest.raises(ValueError, match="variable 2 is given as evidence and restricted by the box"):
        model.probability({2: (-1.0, 1.0)}, given)


@pytest.mark.parametrize("name", EXACT)
def test_draws_follow_the_masses_of_boxes(name):
    model = build(name)
    drawn = model.sample(6000, seeded(1))
    cuts = [[-INF, *np.quantile(drawn[:2000, v], [0.35, 0.7]) + 1e-9, INF] for v in range(3)]
    boxes = [(a, b, c) for a in range(3) for b in range(3) for c in range(3)]
    masses, counts = [], []
    for place in boxes:
        box = {v: (cuts[v][i], cuts[v][i + 1]) for v, i in enumerate(place) if cuts[v][i] < cuts[v][i + 1]}
        if len(box) < 3:
            continue
        sides = as_box(box, 3)
        masses.append(model.probability(box).item())
        counts.append(int(((drawn[2000:] > sides.low) & (drawn[2000:] <= sides.high)).all(1).sum()))
    masses, counts = np.array(masses), np.array(counts)
    assert masses.sum() == pytest.approx(1.0, abs=1e-9)
    assert counts[masses < 1e-12].sum() == 0
    alive = masses >= 1e-12
    assert stats.chisquare(counts[alive], counts.sum() * masses[alive] / masses[alive].sum()).pvalue > 1e-4


@pytest.mark.parametrize("name", EXACT)
def test_conditional_draws(name):
    """Against the conditional distribution function, and where a code is given against rejection."""
    model = build(name)
    x = torch.full((2, 3), torch.nan).double()
    x[:, 0] = torch.tensor([-0.4, 1.1])
    drawn = model.sample_given(x, 1200, seeded(2))
    assert drawn.shape == (2, 1200, 3)
    assert torch.equal(drawn[..., 0], x[:, :1].expand(2, 1200))
    for row in range(2):
        for v in (1, 2):
            if v == 1 and is_discrete(name):
                continue
            cuts = np.quantile(drawn[row, :, v], np.linspace(0.05, 0.95, 13))
            below = [model.probability({v: (-INF, c)}, x[row : row + 1]).item() for c in cuts]
            found = [(drawn[row, :, v] <= c).double().mean().item() for c in cuts]
            assert np.abs(np.array(below) - found).max() < 2.0 / np.sqrt(1200)
    if is_discrete(name):
        given = torch.tensor([[np.nan, 2.0, np.nan]]).double()
        conditional = model.sample_given(given, 2000, seeded(3))[0]
        free = model.sample(12_000, seeded(4))
        kept = free[free[:, 1] == 2.0]
        for v in (0, 2):
            assert stats.ks_2samp(conditional[:, v], kept[:, v]).pvalue > 1e-4


def test_impossible_evidence_is_refused_by_draws():
    model = build("circuit, families")
    x = torch.tensor([[0.0, np.nan, 0.2], [0.0, 7.0, 0.2]]).double()
    with pytest.raises(ValueError, match="row 1 of the evidence has no probability"):
        model.sample_given(x, 2, seeded())


def test_a_truncated_model_is_normalised_on_its_box():
    for name in EXACT:
        model = build(name)
        short = model.truncate({0: (-0.5, 2.0), 2: (-1.0, INF)})
        want = model.log_prob(points(name)) - model.probability({0: (-0.5, 2.0), 2: (-1.0, INF)}).log()
        got = short.log_prob(points(name))
        finite = got > -INF
        assert finite.any()
        torch.testing.assert_close(got[finite], want[finite], rtol=1e-10, atol=1e-10)
        x = points(name)
        x[:, 2] = torch.nan
        inside = (x[:, 0] >= -0.5) & (x[:, 0] <= 2.0)
        assert ((short.log_marginal(x) > -INF) == inside).all()


def test_a_plain_circuit_is_a_mixture_of_one():
    model = build("circuit")
    assert isinstance(model, CircuitModel)
    assert isinstance(model, MixtureModel)
    assert model.n_cells == 1
    assert model.ungated() is model
    assert model.log_partition().item() == 0.0
    assert (model.responsibilities(points("circuit")) == 1).all()
