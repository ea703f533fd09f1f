"""HFV by its definition: partition functions, marginals, conditionals against loops and quadrature."""

import numpy as np
import pytest
import torch

from tests.models.examples import HFVS, PAIRS, TRIPLE, build, points, rows, seeded
from tests.oracle import hfv_log_f, hfv_routes, nodes
from voronoi_circuits.circuits.region_graph import StructureError
from voronoi_circuits.models.base import Kind
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.specs import HFV, Circuit

INF = float("inf")
ALL = pytest.mark.parametrize("name", HFVS)


def edges(model: HFVModel, variable: int) -> list[float]:
    regions = model.experts.circuit.graph.regions
    own = [key for key in model.intervals if regions[int(key)].scope == (variable,)]
    return [e for key in own for e in model.intervals[key].edges()[1][0, :-1].tolist()]


@ALL
def test_f_its_integrals_and_partition_function_by_explicit_loops(name):
    model = build(name)
    rng = np.random.default_rng(0)
    x = points(name, 30).numpy()
    np.testing.assert_allclose(
        model.log_unnormalized(torch.tensor(x)).detach(), hfv_log_f(model, x), rtol=1e-10, atol=1e-10
    )
    x[rng.random(x.shape) < 0.5] = np.nan
    low = rng.normal(-1, 1, x.shape)
    high = low + 2
    asked = model.ask(*(torch.tensor(side) for side in (x, low, high))).detach()
    np.testing.assert_allclose(asked, hfv_log_f(model, x, low, high), rtol=1e-8, atol=1e-8)
    want = hfv_log_f(model, np.full((1, 3), np.nan))[0]
    assert model.log_partition().item() == pytest.approx(want, abs=1e-10)
    assert want < 0
    np.testing.assert_allclose(
        model.log_marginal(torch.tensor(x)).detach(), hfv_log_f(model, x) - want, rtol=1e-8, atol=1e-8
    )


@ALL
def test_marginals_and_conditionals_by_quadrature(name):
    model = build(name)
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key.endswith("raw"):
                parameter.clamp_(min=-1.5)
    x = points(name, 3)
    for variable in (0, 2):
        ys, w = nodes(-15, 15, edges(model, variable), 0.25)
        w = torch.tensor(w)
        for row in x:
            line = row.repeat(len(ys), 1)
            line[:, variable] = torch.tensor(ys)
            missing = row.clone().unsqueeze(0)
            missing[0, variable] = torch.nan
            with torch.no_grad():
                total = (model.log_prob(line).exp() * w).sum().item()
                assert total == pytest.approx(model.log_marginal(missing).exp().item(), abs=1e-8)
                given = [v for v in range(3) if v != variable]
                conditional = model.log_conditional(line, given).exp()
                assert (conditional * w).sum().item() == pytest.approx(1.0, abs=1e-8)
                short, v = nodes(-0.3, 0.9, edges(model, variable), 0.1)
                part = row.repeat(len(short), 1)
                part[:, variable] = torch.tensor(short)
                want = (model.log_conditional(part, given).exp() * torch.tensor(v)).sum().item()
                got = model.probability({variable: (-0.3, 0.9)}, missing).item()
                assert got == pytest.approx(want, abs=1e-8)


@ALL
def test_the_partition_function_has_gradients(name):
    model = build(name)
    z = model.log_partition()
    z.backward()
    gradients = {key: p.grad for key, p in model.named_parameters() if p.grad is not None}
    assert any(key.endswith("location") and g.abs().sum() > 0 for key, g in gradients.items())
    assert all(g.isfinite().all() for g in gradients.values())


@ALL
def test_routes_and_cells_by_the_definition(name):
    model = build(name)
    want = hfv_routes(model)
    for region, route in model.routes().items():
        np.testing.assert_array_equal(route.detach().numpy(), want[region])
    x = points(name, 300)
    cells = model.cells(x)
    assert ((cells >= 0) & (cells < model.n_cells)).all()
    assert model.exactness.kind is Kind.EXACT
    soft = model.routes(3.0)
    for route in soft.values():
        torch.testing.assert_close(
            route.exp().sum(0), torch.ones(route.shape[1])
        )  # each joint cell is shared out


def test_rows_on_an_edge_go_to_the_lower_cell():
    model = build("hfv")
    for variable in range(3):
        x = points("hfv", 5)
        edge = edges(model, variable)[0]
        x[:, variable] = edge
        beside = x.clone()
        beside[:, variable] = np.nextafter(edge, -INF)
        assert torch.equal(model.cells(x), model.cells(beside))
        torch.testing.assert_close(
            model.log_unnormalized(x), model.log_unnormalized(beside), rtol=1e-12, atol=1e-12
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_density_and_cells_agree_in_either_precision(dtype):
    model = build("hfv")
    x = points("hfv", 3, dtype=dtype)
    edge = edges(model, 0)[0]
    x[:, 0] = torch.tensor([np.nextafter(edge, -INF), edge, np.nextafter(edge, INF)]).to(dtype)
    double, own = x.double(), model.log_unnormalized(x)
    torch.testing.assert_close(own.double(), model.log_unnormalized(double), rtol=1e-4, atol=1e-4)
    assert torch.equal(model.cells(x), model.cells(double))


def test_dead_coarse_cells_have_no_mass_and_lose_none():
    model = build("hfv, cells by scope")
    region = model.joint_regions[0]
    with torch.no_grad():
        model.coarse_cells(region).centroids[1] = 500.0
    assert model.empty_cells() == {region: [1]}
    x = points("hfv", 50)
    np.testing.assert_allclose(
        model.log_unnormalized(x).detach(), hfv_log_f(model, x.numpy()), rtol=1e-10, atol=1e-10
    )
    assert model.ungated().log_partition().item() == pytest.approx(0.0, abs=1e-12)
    everything = torch.full((1, 3), torch.nan).double()
    assert model.ungated().log_integral(model.within(everything)).item() == pytest.approx(0.0, abs=1e-12)
    assert model.sample(200, seeded()).isfinite().all()
    loss = model.log_prob(x).sum()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


def test_equal_centroids_leave_an_empty_interval():
    model = build("hfv")
    with torch.no_grad():
        cells = next(iter(model.intervals.values()))
        cells.centroids[0, 1] = cells.centroids[0, 0]
    x = points("hfv", 40)
    np.testing.assert_allclose(
        model.log_unnormalized(x).detach(), hfv_log_f(model, x.numpy()), rtol=1e-10, atol=1e-10
    )
    assert model.log_partition().item() == pytest.approx(
        hfv_log_f(model, np.full((1, 3), np.nan))[0], abs=1e-10
    )
    loss = model.log_prob(x).sum()
    loss.backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())
    assert model.log_unnormalized(model.sample(200, seeded())).isfinite().all()


def test_a_categorical_column_has_no_cells():
    model = build("hfv, discrete column")
    regions = model.experts.circuit.graph.regions
    assert {regions[int(key)].scope[0] for key in model.intervals} == {0, 2}
    assert all(1 not in model.gate_variables(region) for region in model.joint_regions)
    x = points("hfv, discrete column")
    moved = x.clone()
    moved[:, 1] = (x[:, 1] + 1) % 3
    assert torch.equal(model.cells(x), model.cells(moved))
    total = sum(
        model.log_marginal(torch.tensor([[torch.nan, c, torch.nan]]).double()).exp() for c in range(3)
    )
    assert total.item() == pytest.approx(1.0, abs=1e-12)


def test_single_cells_are_measured_in_nothing():
    """A factor of one cell adds no coordinate to those above it: moving its centroids changes no route."""
    graph = HFV(Circuit(PAIRS), {0: 3, 1: 2, 2: 3, (0, 1): 1})
    model = graph.build(rows(), seeded())
    before = {r: route.detach().clone() for r, route in model.routes().items()}
    assert model.gate_variables(model.joint_regions[0]) == [0, 1]
    assert model.gate_variables(model.top) == [2]
    with torch.no_grad():
        for key in ("0", "1"):
            model.intervals[key].centroids.add_(5.0)
    after = model.routes()
    assert all(torch.equal(before[r], after[r]) for r in before)


def test_levels_and_three_factors():
    assert build("hfv, lower level").joint_regions != build("hfv, tree").joint_regions
    three = build("hfv, three factors")
    region = three.experts.circuit.graph.regions[three.top]
    assert len(region.children) == 3
    assert three.n_cells == 8
    with pytest.raises(StructureError, match="add 1 to levels"):
        HFV(Circuit(PAIRS), 2, levels=[0]).build(rows(), seeded())
    with pytest.raises(StructureError, match="levels names 5"):
        HFV(Circuit(TRIPLE), 2, levels=[5]).build(rows(), seeded())


def test_one_variable():
    model = HFV(Circuit(units=3), 4, 2).build(rows()[:, :1], seeded())
    x = rows(30, 1)[:, :1].double()
    np.testing.assert_allclose(
        model.log_unnormalized(x).detach(), hfv_log_f(model, x.numpy()), rtol=1e-11, atol=1e-11
    )
    assert model.n_cells == 4
    assert model.responsibilities(x).shape == (30, 4)


def test_the_ungated_twin_follows_the_routes_of_today():
    model = build("hfv, cells by scope")
    twin, x = model.ungated(), points("hfv")
    before = twin.log_prob(x).detach()
    assert (model.log_unnormalized(x) <= before + 1e-12).all()
    drawn = twin.sample(500, seeded())
    assert twin.log_prob(drawn).isfinite().all()
