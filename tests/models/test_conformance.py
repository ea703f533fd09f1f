"""What every model must satisfy: one list of models, one list of checks."""

import copy

import pytest
import torch

from tests.models.examples import EXACT, HARD, HFVS, SOFT, SPECS, VTS, build, is_discrete, points, seeded
from voronoi_circuits.models.base import Kind, Model
from voronoi_circuits.models.exact import ExactModel

INF = float("inf")
ALL = pytest.mark.parametrize("name", HARD + SOFT)
BOX = {0: (-0.7, 1.2), 2: (-INF, 0.9)}


@pytest.fixture(scope="module")
def models():
    return {name: build(name) for name in HARD + SOFT}


def inside(x: torch.Tensor) -> torch.Tensor:
    return (x[:, 0] >= -0.7) & (x[:, 0] <= 1.2) & (x[:, 2] <= 0.9)


@ALL
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_dtypes(models, name, dtype):
    model: Model = models[name]
    x = points(name, dtype=dtype)
    for values in (model.log_unnormalized(x), model.soft_log(x, 1.5)):
        assert values.shape == (len(x),)
        assert values.dtype == dtype
        assert values.isfinite().all()
    assert model.log_unnormalized(x[:0]).shape == (0,)
    assert model.n_variables == 3
    single = model.log_unnormalized(points(name, dtype=torch.float32)).double()
    torch.testing.assert_close(single, model.log_unnormalized(points(name)), rtol=1e-3, atol=1e-3)


@ALL
def test_bounds_are_in_order_and_hold_the_value(models, name):
    model, x = models[name], points(name)
    low, high = model.log_prob_bounds(x.float())
    assert low.dtype == high.dtype == torch.float64
    assert low.shape == high.shape == (len(x),)
    assert (low <= high).all()
    assert not low.isnan().any()
    if isinstance(model, ExactModel):
        assert torch.equal(low, model.log_prob(x))
        assert torch.equal(low, high)
    else:
        assert (low <= model.log_unnormalized(x)).all()
        assert (low - model.log_unnormalized(x)).abs().max() < 1e-9


@ALL
def test_what_is_known_of_z(models, name):
    model = models[name]
    kind = Kind.SAMPLED if name in SOFT else Kind.EXACT if name in EXACT else Kind.CERTIFIED
    assert model.exactness.kind is kind
    assert len(model.exactness.reasons) >= 1
    assert str(model.exactness).startswith(kind.value + ": ")


@ALL
def test_samples(models, name):
    model = models[name]
    drawn = model.sample(30, seeded(1))
    assert drawn.shape == (30, 3)
    assert drawn.dtype == torch.float64
    assert model.log_unnormalized(drawn).isfinite().all()
    assert torch.equal(drawn, model.sample(30, seeded(1)))
    assert not torch.equal(drawn, model.sample(30, seeded(2)))
    assert model.sample(0, seeded(1)).shape == (0, 3)
    if is_discrete(name):
        assert set(drawn[:, 1].tolist()) <= {0.0, 1.0, 2.0}


@ALL
def test_the_ungated_twin_shares_parameters_and_dominates(models, name):
    model, x = models[name], points(name, 200)
    twin = model.ungated()
    assert twin.exactness.kind is Kind.EXACT
    own = {id(p) for p in model.parameters()}
    assert {id(p) for p in twin.parameters()} <= own
    assert twin.log_partition().item() == pytest.approx(0.0, abs=1e-12)
    if name not in SOFT or name.removesuffix(", soft") not in HFVS:  # a soft HFV routes softly, its twin hard
        assert (model.log_unnormalized(x) <= twin.log_unnormalized(x) + 1e-9).all()
    assert twin.ungated() is twin


@ALL
def test_copies_and_states(models, name):
    model, x = models[name], points(name)
    value = model.log_unnormalized(x)
    twin = copy.deepcopy(model)
    assert torch.equal(twin.log_unnormalized(x), value)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(0.1)
    assert torch.equal(model.log_unnormalized(x), value)
    assert not torch.equal(twin.log_unnormalized(x), value)
    twin.load_state_dict(model.state_dict())
    assert torch.equal(twin.log_unnormalized(x), value)


@ALL
def test_counted_parameters(models, name):
    assert models[name].n_parameters == sum(p.numel() for p in models[name].parameters()) > 0


@ALL
def test_responsibilities(models, name):
    model, x = models[name], points(name)
    share = model.responsibilities(x)
    assert share.shape == (len(x), model.n_cells)
    torch.testing.assert_close(share.sum(1), torch.ones(len(x)).double())
    assert (share >= 0).all()
    if name in VTS + HFVS:
        assert ((share == 0) | (share == 1)).all()


@ALL
def test_softening(models, name):
    model, x = models[name], points(name)
    if name in SOFT + VTS + HFVS:
        assert model.soften(3.0).exactness.kind is Kind.SAMPLED
        torch.testing.assert_close(model.soften(3.0).log_unnormalized(x), model.soft_log(x, 3.0))
        with pytest.raises(ValueError, match="alpha must be a positive number, not 0"):
            model.soften(0)
        with pytest.raises(ValueError, match="alpha must be a positive number, not inf"):
            model.soften(INF)
    else:
        assert model.soften(3.0) is model
        torch.testing.assert_close(model.soft_log(x, 3.0), model.log_unnormalized(x))


@ALL
def test_truncation(models, name):
    model, x = models[name], points(name, 200)
    short = model.truncate(BOX)
    values = short.log_unnormalized(x)
    assert torch.equal(values[inside(x)], model.log_unnormalized(x)[inside(x)])
    assert (values[~inside(x)] == -INF).all()
    assert inside(x).any()
    assert not inside(x).all()
    low, high = short.log_prob_bounds(x)
    assert (low <= high).all()
    assert not low.isnan().any()
    assert not high.isnan().any()
    assert inside(short.sample(100, seeded())).all()
    assert model.domain is None
    assert {id(p) for p in short.parameters()} == {id(p) for p in model.parameters()}
    again = short.truncate({0: (0.0, 5.0)})
    assert again.domain.low.tolist() == [0.0, -INF, -INF]
    assert again.domain.high.tolist() == [1.2, INF, 0.9]
    assert short.ungated().domain is not None
    with pytest.raises(ValueError, match="does not meet"):
        again.truncate({0: (2.0, 5.0)})
    with pytest.raises(ValueError, match="the box names variable 3; the model has 0 to 2"):
        model.truncate({3: (0.0, 1.0)})
    with pytest.raises(ValueError, match="empty interval"):
        model.truncate({1: (1.0, 0.0)})


@ALL
def test_refused_rows(models, name):
    model, x = models[name], points(name)
    x[3, 2] = torch.nan
    with pytest.raises(ValueError, match=r"column 2 has missing values \(NaN\)"):
        model.log_unnormalized(x)
    with pytest.raises(ValueError, match=r"rows must be \(n, 3\), not \(40, 2\)"):
        model.log_unnormalized(x[:, :2])
    with pytest.raises(ValueError, match=r"rows must be \(n, 3\), not \(3,\)"):
        model.log_unnormalized(x[0])
    with pytest.raises(ValueError, match=r"floating point, not torch.int64"):
        model.log_unnormalized(torch.zeros(2, 3, dtype=torch.long))


@ALL
def test_far_rows_put_no_nan_in_a_value_or_gradient(models, name):
    model = copy.deepcopy(models[name])
    x = points(name, 6)
    continuous = [0, 2] if is_discrete(name) else [0, 1, 2]
    if "families" not in name:
        x[1, continuous] = 1000.0
        x[2, continuous] = -1e4
        x[3, continuous[-1]] = 1e6
    for values in (model.log_unnormalized(x), model.soft_log(x, 50.0), model.soft_log(x.float(), 0.01)):
        assert not values.isnan().any()
        assert not (values == INF).any()
        model.zero_grad()
        torch.where(values == -INF, 0.0, values).sum().backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        assert gradients
        assert all(g.isfinite().all() for g in gradients)


@pytest.mark.parametrize("name", SPECS)
def test_one_seed_one_model(name):
    first, second = build(name), build(name)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    different = build(name, seed=3)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), different.parameters(), strict=True))


@pytest.mark.parametrize("name", HARD)
def test_hard_gates_are_the_limit_of_soft_ones(models, name):
    model, x = models[name], points(name, 20)
    hard, soft = model.log_unnormalized(x), model.soft_log(x, 1e7)
    agree = (hard - soft).abs() < 1e-6
    assert agree.double().mean() >= 0.95  # a row may lie within 1e-6 of a facet
    assert soft.isfinite().all()
