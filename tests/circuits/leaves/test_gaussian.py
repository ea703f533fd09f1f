"""Gaussian leaves: far rows, gradients, and the rounding budget against 60 digits."""

import math

import mpmath
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from voronoi_circuits.circuits.leaves import Gaussian

INF = math.inf


def extremes(floor: float = 1e-4) -> Gaussian:
    """Deviations from 1e-4 to 1e4 (experts), means from 0 to 1e3 (units)."""
    leaf = Gaussian(experts=9, regions=1, units=3, floor=floor).double()
    with torch.no_grad():
        leaf.raw.copy_(
            torch.linspace(-9, 9, 9, dtype=torch.float64).view(9, 1, 1)
            + 0.1 * torch.rand(9, 1, 3, generator=torch.Generator().manual_seed(0))
        )
        leaf.location.copy_(torch.tensor([0.0, 0.1, 1e3]))
    return leaf


def parameters(leaf: Gaussian, e: int, u: int) -> tuple[mpmath.mpf, mpmath.mpf]:
    """The mean and deviation that the stored numbers mean."""
    return mpmath.mpf(leaf.location[e, 0, u].item()), leaf.floor + mpmath.exp(leaf.raw[e, 0, u].item())


def exact_mass(a: mpmath.mpf, b: mpmath.mpf) -> mpmath.mpf:
    a, b = (-b, -a) if a + b > 0 else (a, b)
    return mpmath.log(mpmath.ncdf(b) - mpmath.ncdf(a))


def test_a_thousand_deviations_out() -> None:
    leaf = Gaussian(1, 1, 1, floor=0.0)
    x = torch.tensor([[[[1000.0, -1000.0]]]], dtype=torch.float64, requires_grad=True)
    value = leaf.log_density(x)
    assert_allclose(value.detach().flatten(), -500000 - 0.5 * math.log(2 * math.pi), rtol=1e-15)
    value.sum().backward()
    assert_allclose(x.grad.flatten(), [-1000.0, 1000.0])
    assert_allclose(leaf.raw.grad.flatten(), [2 * (1e6 - 1)])


@pytest.mark.parametrize("seed", range(3))
def test_densities_stay_within_the_budget(seed: int) -> None:
    leaf, generator = extremes(), np.random.default_rng(seed)
    for e in range(9):
        scale = leaf.deviation()[e, 0, 0].item()
        z = np.concatenate([generator.normal(0, 1, 20), generator.uniform(-1000, 1000, 10), [0.0]])
        z = np.append(z, math.sqrt(2 * abs(math.log(scale) + 0.9189)))  # where z²/2 and log s cancel
        x = torch.tensor(z * scale + leaf.location[e, 0, 1].item()).view(1, 1, 1, -1)
        value = leaf.log_density(x).detach()
        slack = leaf.rounding(value)
        with mpmath.workdps(60):
            for u in range(3):
                mean, deviation = parameters(leaf, e, u)
                for point, got, allowed in zip(x.flatten(), value[e, 0, u], slack[e, 0, u], strict=True):
                    ratio = (mpmath.mpf(point.item()) - mean) / deviation
                    truth = -ratio * ratio / 2 - mpmath.log(deviation) - mpmath.log(2 * mpmath.pi) / 2
                    assert abs(got.item() - truth) <= allowed.item()


@pytest.mark.parametrize("seed", range(3))
def test_masses_stay_within_the_budget(seed: int) -> None:
    leaf, generator = extremes(), np.random.default_rng(seed)
    for e in range(9):
        scale, centre = leaf.deviation()[e, 0, 1].item(), leaf.location[e, 0, 1].item()
        low = centre + scale * generator.normal(0, 8, 25)
        high = low + scale * 10 ** generator.uniform(-12, 1.5, 25)
        value = leaf.log_mass(*(torch.tensor(side).view(1, 1, 1, -1) for side in (low, high))).detach()[
            e, 0, 1
        ]
        slack = leaf.rounding(value.expand(1, 1, 3, -1))[0, 0, 1]
        with mpmath.workdps(400):
            mean, deviation = parameters(leaf, e, 1)
            for a, b, got, allowed in zip(low, high, value, slack, strict=True):
                truth = exact_mass((mpmath.mpf(a) - mean) / deviation, (mpmath.mpf(b) - mean) / deviation)
                assert abs(got.item() - truth) <= allowed.item()


def test_the_budget_is_no_larger_than_it_has_to_be() -> None:
    leaf = extremes()
    value = torch.full((9, 1, 3, 1), -100.0, dtype=torch.float64)
    assert leaf.rounding(value).max() < 3e-12


def test_gradients_of_density_and_mass() -> None:
    leaf = Gaussian(2, 3, 2).double()
    torch.nn.init.normal_(leaf.location, generator=torch.Generator().manual_seed(0))
    x, low = (
        torch.randn(s, 3, 1, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(s))
        for s in (1, 2)
    )
    high = low.amax(0, keepdim=True) + 1.0

    def density(x: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return leaf.log_density(x)

    def mass(low: torch.Tensor, high: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return leaf.log_mass(low, high)

    for rows in (x, x.expand(2, -1, -1, -1).contiguous()):
        assert torch.autograd.gradcheck(density, (rows.clone().requires_grad_(), leaf.location, leaf.raw))
    assert torch.autograd.gradcheck(
        mass, (low.requires_grad_(), high.detach().requires_grad_(), leaf.location, leaf.raw)
    )


def test_infinite_sides_send_no_nan_to_the_parameters() -> None:
    leaf = Gaussian(1, 1, 2)
    low = torch.tensor([[[[-INF, -INF, 0.0, 40.0, 2.0]]]], requires_grad=True)
    high = torch.tensor([[[[INF, 1.0, INF, INF, 1.0]]]], requires_grad=True)
    value = leaf.log_mass(low, high)
    torch.where(value == -INF, 0.0, value).sum().backward()
    for tensor in (leaf.location, leaf.raw, low, high):
        assert torch.isfinite(tensor.grad).all()
    assert_allclose(low.grad.flatten()[[0, 1, 4]], 0.0)


def test_first_order_only() -> None:
    leaf, weight = Gaussian(1, 1, 1), torch.ones(1, requires_grad=True)
    value = leaf.log_density(torch.ones(1, 1, 1, 1)) * weight
    (gradient,) = torch.autograd.grad(value.sum(), leaf.location, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_draws_thirty_deviations_out() -> None:
    leaf, n = Gaussian(1, 1, 1, floor=0.0), 20000
    index, low = torch.zeros(n, dtype=torch.long), torch.full((n,), 30.0, dtype=torch.float64)
    for sign in (1, -1):
        sides = (low, low + INF) if sign > 0 else (-low - INF, -low)
        beyond = sign * leaf.draw(index, index, index, *sides, torch.Generator().manual_seed(0)) - 30
        assert (beyond >= 0).all()
        assert_allclose(beyond.mean(), 0.0332596, rtol=0.03)  # φ(30)/Φ(-30) - 30
        assert_allclose((beyond > 0.0230705).double().mean(), 0.5, atol=0.02)  # the median


def test_a_constant_column_starts_above_the_floor() -> None:
    leaf = Gaussian(1, 1, 3, floor=0.01)
    leaf.start(torch.full((10, 1), 2.0), torch.Generator().manual_seed(0))
    assert_allclose(leaf.mean().detach().flatten(), 2.0)
    assert_allclose(leaf.variance().detach().flatten().sqrt(), 0.02, rtol=1e-6)


@pytest.mark.parametrize("floor", [-1.0, INF, math.nan])
def test_a_bad_floor_is_refused(floor: float) -> None:
    with pytest.raises(ValueError, match="floor must be a deviation of at least 0"):
        Gaussian(1, 1, 1, floor=floor)
