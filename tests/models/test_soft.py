"""Soft gates: f by its definition, Z <= 1 sampled with an error and by quadrature, draws, truncation."""

import itertools

import numpy as np
import pytest
import torch
from scipy import special, stats

from tests.models.examples import PLAIN, SOFT, build, points, rows, seeded
from tests.oracle import evaluate, grid_2d
from voronoi_circuits.models.base import NotExactError
from voronoi_circuits.models.soft import SoftModel
from voronoi_circuits.specs import HFV, VT, Circuit

INF = float("inf")
PLANE = {
    "vt": VT(Circuit(units=2), 4),
    "vt, shared": VT(Circuit(units=2), 3, shared=True),
    "hfv": HFV(Circuit(units=3), 3, 2),
}


def plane(name: str, alpha: float = 1.5) -> SoftModel:
    model = PLANE[name].build(rows()[:, :2], seeded())
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("raw"):
                parameter.clamp_(min=-1.2)
    return model.soften(alpha)


@pytest.mark.parametrize("name", PLANE)
@pytest.mark.parametrize("box", [{}, {0: (-0.5, 1.0), 1: (-INF, 0.7)}])
def test_z_by_sampling_agrees_with_quadrature(name, box):
    model = plane(name).truncate(box)
    x, w = grid_2d(
        -9, 9, [(np.eye(2)[v], side) for v in box for side in box[v] if np.isfinite(side)], order=8
    )
    with torch.no_grad():
        z = (model.log_unnormalized(x).exp() * w).sum().item()
    found = model.partition(40_000, seeded(1))
    assert 0 < found.error < 0.01
    assert found.value == pytest.approx(z, abs=5 * found.error)
    assert z < 1
    assert found.value <= 1


@pytest.mark.parametrize("name", PLANE)
def test_draws_follow_soft_f(name):
    model = plane(name)
    inner = torch.tensor([-0.8, 0.4]).double()
    x, w = grid_2d(-9, 9, [(np.eye(2)[v], e) for v in (0, 1) for e in inner.tolist()], order=8)
    with torch.no_grad():
        f = model.log_unnormalized(x).exp() * w
    mass = torch.bincount(torch.bucketize(x.contiguous(), inner) @ torch.tensor([3, 1]), f, minlength=9)
    drawn = model.sample(4000, seeded(2))
    counts = torch.bincount(torch.bucketize(drawn, inner) @ torch.tensor([3, 1]), minlength=9)
    assert stats.chisquare(counts, 4000 * mass / mass.sum()).pvalue > 1e-4


def test_soft_vt_by_its_definition():
    model = build("vt, soft")
    x, alpha = points("vt", 20).numpy(), 2.0
    experts = model.hard.experts
    c = model.hard.placed[0].tessellation.centroids.detach().double().numpy()
    gate = special.softmax(-alpha * ((x[:, None] - c) ** 2).sum(-1), axis=1)
    weights = special.softmax(experts.logits.detach().double().numpy())
    parts = np.concatenate([np.exp(evaluate(experts.circuit, x, expert=k)[-1]) for k in range(4)])
    np.testing.assert_allclose(
        model.log_unnormalized(torch.tensor(x)).exp().detach(), ((gate * weights).T * parts).sum(0), rtol=1e-7
    )


def test_soft_hfv_by_its_definition():
    """A one-level HFV: Σ over joint cells of the weights and of the softly gated leaves."""
    model = HFV(Circuit(units=2), 3, 2).build(rows()[:, :2], seeded()).soften(2.0)
    x, circuit = points("hfv", 20).numpy()[:, :2], model.hard.experts.circuit
    gates = {}
    for key, cells in model.hard.intervals.items():
        region = circuit.graph.regions[int(key)]
        c = np.sort(cells.centroids.detach().double().numpy()[0])
        soft = special.log_softmax(-2.0 * (x[:, list(region.scope)] - c) ** 2, axis=1)
        gates[int(key)] = soft.T.repeat(region.units // region.cells, 0)
    want = evaluate(circuit, x, gates=gates)[-1][0]
    np.testing.assert_allclose(model.log_unnormalized(torch.tensor(x)).detach(), want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", SOFT)
def test_what_a_soft_model_knows(name):
    model, x = build(name), points(name)
    low, high = model.log_prob_bounds(x)
    assert torch.equal(low, model.log_unnormalized(x).detach())
    assert (high == INF).all()
    assert 0 < model.partition(2000, seeded()).value <= 1
    with pytest.raises(NotExactError, match="unnormalised"):
        model.log_prob(x)
    assert model.n_cells == model.hard.n_cells
    assert model.soften(5.0).alpha == 5.0
    assert model.soften(5.0).hard is model.hard


def test_temperature_between_the_mixture_and_the_hard_gate():
    model, x = build("vt"), points("vt")
    open_ = model.ungated().log_prob(x)
    torch.testing.assert_close(model.soft_log(x, 1e-9), open_ - np.log(4), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(model.soft_log(x, 1e9), model.log_unnormalized(x), rtol=1e-6, atol=1e-6)
    zs = [model.soften(alpha).partition(5000, seeded()).value for alpha in (1e-6, 1e6)]
    assert zs[0] == pytest.approx(0.25, abs=1e-3)
    assert zs[1] == pytest.approx(model.draw(4000, generator=seeded()).acceptance, abs=0.04)


@pytest.mark.parametrize("kind", ["vt", "hfv"])
def test_gradients_reach_every_parameter(kind):
    model = VT(PLAIN, 3).build(rows(), seeded()) if kind == "vt" else build("hfv, cells by scope")
    model.soft_log(rows(), torch.tensor(1.0)).sum().backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0, key


def test_alpha_as_a_tensor_is_a_number():
    for name, alpha in itertools.product(("vt", "hfv"), (0.3, 20.0)):
        model, x = build(name), points(name)
        torch.testing.assert_close(
            model.soft_log(x, torch.tensor(alpha)), model.soft_log(x, alpha), rtol=1e-6, atol=1e-6
        )
