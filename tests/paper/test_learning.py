"""Section 3.3: soft gates, their derivatives, their limit, and training."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests import oracle
from tests.paper.scenes import FOUR, build, rows
from voronoi_circuits.estimator import VoronoiDensity
from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.specs import HFV, VT, Circuit
from voronoi_circuits.training import Adam

SPECS = {
    "vt, independent experts": (VT(Circuit(units=2), cells=3), 2),
    "vt, shared experts": (VT(Circuit(units=2, product="tucker"), cells=3, shared=True), 2),
    "vt, nested gates": (VT(Circuit(FOUR), cells=2, gate_at=["root", (0, 1)]), 4),
    "hfv": (HFV(Circuit(units=2), cells=3, units_per_cell=2), 3),
}


def test_definition_soft_voronoi_gate() -> None:
    """w_k(u; α) = exp(−α‖u − c_k‖²) / Σ_j exp(−α‖u − c_j‖²): positive, summing to 1."""
    cells, u, alpha = Tessellation(rows(0, 4, 3)), rows(1, 50, 3), 1.7
    weight = torch.exp(-alpha * torch.cdist(u, cells.centroids.detach()) ** 2)
    found = cells.log_soft(u, alpha).exp()
    torch.testing.assert_close(found, weight / weight.sum(1, keepdim=True), rtol=1e-10, atol=0)
    assert (found > 0).all()
    torch.testing.assert_close(found.sum(1), torch.ones(50, dtype=torch.float64))


def test_definition_soft_voronoi_gated_sum() -> None:
    """f(x; α) = Σ_k w_k(x; α) π_k p_k(x), which the hard gate meets as α grows."""
    model = build(*SPECS["vt, independent experts"], 2)
    x = rows(3, 100, 2)
    experts = [
        torch.from_numpy(oracle.evaluate(model.experts.circuit, x.numpy(), expert=e)[-1][0]).exp()
        for e in range(3)
    ]
    weight = model.experts.log_weights(x.dtype).exp()
    for alpha in (0.3, 5.0):
        gate = torch.softmax(-alpha * torch.cdist(x, model.root_gate.tessellation.centroids) ** 2, 1)
        truth = (gate * weight * torch.stack(experts, 1)).sum(1)
        torch.testing.assert_close(model.soft_log(x, alpha).exp(), truth, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", list(SPECS))
def test_proposition_differentiability(name: str) -> None:
    """At a finite α log f(x; α) has the derivatives of finite differences in all parameters, x and α."""
    model = build(*SPECS[name], 4)
    x, alpha = rows(5, 6, model.n_variables), torch.tensor(1.1, dtype=torch.float64)

    def value() -> Tensor:
        return model.soft_log(x, alpha).sum()

    check_derivatives(value, dict(model.named_parameters()) | {"x": x, "alpha": alpha})


def test_proposition_differentiability_of_exact_likelihoods() -> None:
    """HFV's hard, normalised log-likelihood has derivatives too, in all but the centroids."""
    model = build(*SPECS["hfv"], 6)
    x = rows(7, 6, 3)
    learned = {n: p for n, p in model.named_parameters() if "centroids" not in n}
    check_derivatives(lambda: model.log_prob(x).sum(), learned)


def check_derivatives(value: Callable[[], Tensor], parameters: dict[str, Tensor]) -> None:
    """Central differences along one random direction of every parameter."""
    for parameter in parameters.values():
        parameter.requires_grad_()
    gradients = torch.autograd.grad(value(), list(parameters.values()))
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        direction = torch.randn(
            parameter.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64
        )
        sides = []
        for step in (1e-5, -2e-5):
            with torch.no_grad():
                parameter += step * direction
                sides.append(value().item())
        with torch.no_grad():
            parameter += 1e-5 * direction
        slope = (gradient * direction).sum().item()
        assert slope == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=1e-6, abs=1e-7), name
        assert slope != 0, name


def test_proposition_centroid_gradient() -> None:
    """∇_{c_k} w_k = 2α w_k (1 − w_k)(u − c_k), and, left out there, ∇_{c_j} w_k = −2α w_k w_j (u − c_j)."""
    cells, u, alpha = Tessellation(rows(8, 4, 2)), rows(9, 1, 2), 0.8
    w = cells.log_soft(u, alpha).exp()[0]
    for k in range(4):
        (found,) = torch.autograd.grad(w[k], cells.centroids, retain_graph=True)
        arms = u - cells.centroids.detach()
        expected = -2 * alpha * (w[k] * w).detach()[:, None] * arms
        expected[k] = (2 * alpha * w[k] * (1 - w[k])).detach() * arms[k]
        torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-15)


def test_the_gate_of_a_factor_and_its_gradient_depend_on_its_own_variables_alone() -> None:
    """w^i and its derivatives see x_i only; the likelihood's gradient weighs them by the rest of the row."""
    model = build(HFV(Circuit(units=1), cells=3), 3, 10)
    key = next(k for k in model.intervals if model.experts.circuit.graph.regions[int(k)].scope == (1,))
    centroids = model.interval_cells(int(key)).centroids
    x = rows(11, 4, 3)
    other = rows(12, 4, 3)
    other[:, 1] = x[:, 1]
    gates, gradients, scores = [], [], []
    for u in (x, other):
        gate = model.leaf_weights(int(key), u, 1.3)
        gates.append(gate)
        gradients.append(torch.autograd.grad(gate[:, 0].sum(), list(model.parameters()), allow_unused=True))
        scores.append(torch.autograd.grad(model.soft_log(u, 1.3).sum(), centroids)[0])
    torch.testing.assert_close(gates[0], gates[1], rtol=0, atol=0)
    for (name, _), a, b in zip(model.named_parameters(), *gradients, strict=True):
        assert (a is None) == (name != f"intervals.{key}.centroids")
        if a is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=0)
            assert a.abs().max() > 1e-3
    assert not torch.allclose(scores[0], scores[1], rtol=1e-2)


@pytest.mark.parametrize("name", list(SPECS))
def test_theorem_soft_to_hard_convergence_of_models(name: str) -> None:
    """log f(x; α) tends to log f(x): off the facets of all gates, as fast as exp(−αγ)."""
    model = build(*SPECS[name], 13)
    x = rows(14, 200, model.n_variables)
    with torch.no_grad():
        hard = model.log_unnormalized(x)
        errors = [
            (model.soft_log(x, alpha) - hard).abs().median().item() for alpha in (1.0, 10.0, 100.0, 1e4)
        ]
        assert errors == sorted(errors, reverse=True)
        assert errors[-1] < 1e-9
        assert (model.soft_log(x, 1e9) - hard).abs().max() < 1e-9


def test_theorem_soft_to_hard_convergence_of_partition_functions() -> None:
    """∫ f(x; α) tends to ∫ f(x): quadrature of the soft model against the sum of the hard cells."""
    model = build(*SPECS["vt, independent experts"], 15)
    planes = oracle.bisectors(model.root_gate.tessellation.centroids.detach().numpy())
    x, w = oracle.grid_2d(-9, 9, planes, width=1.0)
    with torch.no_grad():
        hard = float(model.log_unnormalized(x).exp() @ w)
        errors = [abs(float(model.soft_log(x, alpha).exp() @ w) - hard) for alpha in (1.0, 4.0, 16.0, 64.0)]
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.05 * errors[0]


@pytest.mark.parametrize("spec", [VT(Circuit(units=2), cells=3), HFV(Circuit(units=2), cells=3)])
def test_algorithm_soft_gating_training_with_annealing(spec: VT | HFV) -> None:
    """k-means centroids, uniform weights, α linear from the first to the last, hard gates in the end."""
    generator = torch.Generator().manual_seed(0)
    x = torch.cat([torch.randn(150, 2, generator=generator) * 0.3 + c for c in (-2.0, 0.0, 2.0)])
    model = spec.build(x, generator)
    found = start_of(model)
    assert found == pytest.approx([-2.0, 0.0, 2.0], abs=0.2)
    if model.experts.logits is not None:
        assert torch.softmax(model.experts.logits, 0).detach().tolist() == pytest.approx([1 / 3] * 3)
    before = model.soft_log(x, 1.0).mean().item()
    fitted = Adam(epochs=5, batch_size=50, anneal=(1.0, 50.0)).fit(model, x, generator=generator)
    assert fitted.history["alpha"] == pytest.approx([1.0, 13.25, 25.5, 37.75, 50.0])
    assert model.soft_log(x, 1.0).mean().item() > before or model.log_unnormalized(x).mean().item() > before
    torch.testing.assert_close(model.log_unnormalized(x), model.soft_log(x, 1e8), rtol=1e-3, atol=1e-3)
    assert start_of(model) != found  # centroids have learned


def start_of(model: nn.Module) -> list[float]:
    """The first coordinate of the centroids of the first gate, in order."""
    name, centroids = next((n, p) for n, p in model.named_parameters() if n.endswith("centroids"))
    values = centroids[0] if name.startswith("intervals") else centroids[:, 0]
    return sorted(values.tolist())


def test_the_papers_protocol() -> None:
    """Tucker layers, as many cells as units, one circuit, Adam at 0.01, 500 rows, 100 epochs, α 1 to 50."""
    density = VoronoiDensity.paper("vt", "einet", units=5)
    model, learner = density.get_params(deep=False)["model"], density.get_params(deep=False)["learner"]
    assert (model.cells, model.shared, model.gate_at) == (5, True, "root")
    assert (model.expert.structure, model.expert.product, model.expert.units) == ("einet", "tucker", 5)
    assert (learner.learning_rate, learner.batch_size, learner.epochs) == (0.01, 500, 100)
    assert tuple(learner.anneal) == (1.0, 50.0)
