"""Layers one by one: every expert and region is computed as if it were alone."""

import numpy as np
import pytest
import torch

from voronoi_circuits.circuits.layers import CPLayer, JointLayer, Layer, SumLayer, TuckerLayer, route_cells

INF = float("inf")
E, F, U, B = 3, 4, 5, 6


def values(*units: int, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(E, F, n, B, dtype=torch.float64, generator=generator) for n in units]


LAYERS = {
    "sum": (SumLayer, [2, 3], ()),
    "cp": (CPLayer, [2, 3, 2], ()),
    "tucker": (TuckerLayer, [2, 3], ()),
    "joint": (JointLayer, [4, 6], (5, [2, 3])),
    "joint of three": (JointLayer, [2, 6, 4], (5, [2, 3, 2])),
}


def make(name: str, experts: int = E, regions: int = F) -> Layer:
    kind, sizes, cells = LAYERS[name]
    layer = kind(experts, regions, U, sizes, *cells)
    layer.start(torch.Generator().manual_seed(1))
    return layer


def ask(layer, children, experts=None, outward=0):
    return layer(children, experts, [None] * children[0].shape[1], outward)


@pytest.fixture(params=[name for name in LAYERS if "joint" not in name] + ["joint"])
def name(request):
    return request.param


def units(name):
    return 1 if name == "joint" else U


def test_experts_are_independent_and_may_repeat(name):
    layer, children = make(name), values(*LAYERS[name][1])
    whole = ask(layer, children)
    assert whole.shape == (E, F, units(name), B)
    chosen = torch.tensor([2, 0, 0, 1])
    picked = ask(layer, [child[chosen] for child in children], chosen)
    torch.testing.assert_close(picked, whole[chosen], rtol=1e-14, atol=1e-14)


def test_a_constant_goes_through_unchanged(name):
    """Weights sum to 1: if all children are 1, so is every unit."""
    children = [torch.zeros_like(child) for child in values(*LAYERS[name][1])]
    torch.testing.assert_close(
        ask(make(name), children), torch.zeros(E, F, units(name), B).double(), rtol=0, atol=1e-14
    )


def test_no_child_has_mass(name):
    children = [torch.full_like(child, -INF).requires_grad_() for child in values(*LAYERS[name][1])]
    layer = make(name)
    out = ask(layer, children)
    assert (out == -INF).all()
    out.sum().backward()
    assert all((child.grad == 0).all() for child in children)
    assert all(p.grad.isfinite().all() for p in layer.parameters())


def test_outward_moves_a_little_in_the_direction_asked(name):
    layer, children = make(name), values(*LAYERS[name][1])
    low, value, high = (ask(layer, children, outward=o) for o in (-1, 0, 1))
    assert (low < value).all()
    assert (value < high).all()
    assert (high - low < 1e-12).all()


def test_single_precision_follows_double(name):
    layer, children = make(name), values(*LAYERS[name][1])
    torch.testing.assert_close(
        ask(layer, [c.float() for c in children]).double(), ask(layer, children), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("route", [None, [[0.0, -INF, 0.0, 0.0], [-INF, 0.0, -INF, -INF]]])
def test_a_joint_cell_of_weight_zero_counts_for_nothing(route):
    """Against the sum over what is left; cell 1 has nothing else, so that its units have no mass."""
    cells = 1 if route is None else 2
    layer = JointLayer(1, 1, 2 * cells, [4, 4], cells, [2, 2])
    layer.start(torch.Generator().manual_seed(1))
    with torch.no_grad():
        layer.weight[0, 0, 0, 1] = -INF
        layer.weight[0, 0, 0, 2, 0, 1] = -INF
    children = [v[:1, :1].requires_grad_() for v in values(4, 4)]
    out = layer(children, None, [None if route is None else torch.tensor(route)], 0)
    weights = layer.weight[0, 0].double().exp().detach().numpy()  # (u, P, a, b)
    left, right = (child[0, 0].exp().detach().numpy().reshape(2, 2, B) for child in children)
    for cell in range(cells):
        members = [p for p in range(4) if route is None or route[cell][p] == 0.0]
        for unit in range(2):
            w = {p: weights[unit, p] for p in members}
            top = sum(np.einsum("ab,an,bn->n", w[p], left[p // 2], right[p % 2]) for p in members)
            total = sum(w[p].sum() for p in members)
            expected = top / total if total > 0 else np.zeros(B)
            np.testing.assert_allclose(out[0, 0, 2 * cell + unit].exp().detach(), expected, rtol=1e-12)
    low, high = (layer(children, None, [route and torch.tensor(route)], o) for o in (-1, 1))
    assert (low <= out).all()
    assert (out <= high).all()
    out[out > -INF].sum().backward()
    assert layer.weight.grad.isfinite().all()
    assert all(child.grad.isfinite().all() for child in children)


def test_layers_are_abstract():
    with pytest.raises(TypeError, match="abstract"):
        Layer()


def test_routes_normalise_over_the_members_of_a_cell():
    rng = np.random.default_rng(0)
    joint = torch.tensor(rng.normal(size=(1, 2, 4, 3)))
    weights = torch.tensor(rng.normal(size=(1, 2, 4))).log_softmax(-1)
    route = torch.tensor([[0.0, -INF, 0.0, -INF], [-INF] * 4, [-INF, 0.0, -INF, -INF]])
    out = route_cells(joint, weights, route)
    assert out.shape == (1, 6, 3)
    w, v = weights.exp().numpy()[0], joint.exp().numpy()[0]
    for unit in range(2):
        share = w[unit, [0, 2]] / w[unit, [0, 2]].sum()
        np.testing.assert_allclose(out[0, unit].exp(), share @ v[unit, [0, 2]], rtol=1e-13)
        assert (out[0, 2 + unit] == -INF).all()  # the cell that nothing leads to
        np.testing.assert_allclose(out[0, 4 + unit].exp(), v[unit, 1], rtol=1e-13)
