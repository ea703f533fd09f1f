"""The Gaussian mass of an interval against 60 to 400 digits."""

import math

import mpmath
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from voronoi_circuits.circuits.leaves.interval_mass import (
    LOG_MASS_ERROR,
    gaussian_interval_quantile,
    log_gaussian_interval,
)

INF = math.inf
UNIT = 2.0**-53


def exact(a: float, b: float) -> mpmath.mpf:
    """log(Φ(b) - Φ(a)); below 0 by symmetry, with the digits that the difference needs."""
    a, b = (-b, -a) if a + b > 0 else (a, b)
    lost = 0 if math.isinf(a) or b > 0 else a * a / 4
    with mpmath.workdps(60 + int(lost if b > -40 else 0)):
        if b < -40:  # the integral of e^{bt - t²/2}, over φ(b), is what is left
            span = min(mpmath.mpf(b) - a, mpmath.mpf(140) / -b)
            points = mpmath.linspace(0, span, 8)
            rest = mpmath.quad(lambda t: mpmath.exp(b * t - t * t / 2), points)
            return mpmath.log(rest) - mpmath.mpf(b) ** 2 / 2 - mpmath.log(2 * mpmath.pi) / 2
        return mpmath.log(mpmath.ncdf(b) - mpmath.ncdf(a))


def mass(a: float, b: float) -> float:
    sides = torch.tensor([[a], [b]], dtype=torch.float64)
    return log_gaussian_interval(*sides).item()


def within_budget(a: float, b: float) -> None:
    truth = exact(a, b)
    for got in (mass(a, b), mass(-b, -a)):
        assert abs(got - truth) <= UNIT * (LOG_MASS_ERROR[0] + LOG_MASS_ERROR[1] * abs(truth))


def test_the_issues_interval() -> None:
    assert abs(mass(20.0, 21.0) / exact(20.0, 21.0) - 1) < 1e-15
    assert round(mass(20.0, 21.0), 3) == -203.917


@settings(max_examples=200)
@given(
    near=st.floats(-40, 40),
    width=st.floats(-13, 2).map(lambda e: 10.0**e),
    snug=st.booleans(),
    low_end=st.booleans(),
)
@example(near=-0.45, width=0.9, snug=False, low_end=False)
@example(near=0.0, width=1e-12, snug=False, low_end=False)
def test_within_its_budget(near: float, width: float, snug: bool, low_end: bool) -> None:
    """Anywhere, and about the border h(1+|m|) = 1 between two of the formulas."""
    width = width if not snug else (0.9 + 0.2 * (width % 1)) / (1 + abs(near))
    a, b = (-INF, near) if low_end else (near, near + width)
    if b > a:
        within_budget(a, b)


@pytest.mark.parametrize("far", [50.0, 1e3, 1e5])
@pytest.mark.parametrize("width", [1e-12, 1e-4, 1e-3, 1e-2, 1.0, 1e3, INF])
def test_far_out(far: float, width: float) -> None:
    if far + width > far:
        within_budget(far, far + width)


def test_infinite_sides() -> None:
    assert mass(-INF, INF) == 0.0
    assert mass(INF, INF) == mass(-INF, -INF) == mass(1.0, 1.0) == mass(1.0, -1.0) == -INF
    assert_allclose(mass(0.0, INF), -math.log(2), rtol=1e-15)
    assert mass(-INF, 1e200) == 0.0
    assert mass(1e200, INF) == -INF


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_nan_anywhere(dtype: torch.dtype) -> None:
    grid = torch.tensor(
        [-INF, -1e200, -1e19, -1e3, -20.0, -1.0, -1e-12, 0.0, 1e-30, 0.5, 40.0, 1e5, 1e200, INF], dtype=dtype
    )
    a, b = (side.contiguous().requires_grad_() for side in torch.meshgrid(grid, grid, indexing="ij"))
    value = log_gaussian_interval(a, b)
    assert not value.isnan().any()
    assert (value <= 0).all()
    assert (value[b <= a] == -INF).all()
    value.sum().backward()
    assert not a.grad.isnan().any()
    assert not b.grad.isnan().any()
    dead = b <= a
    assert not a.grad[dead | a.isinf()].any()
    assert not b.grad[dead | b.isinf()].any()


@pytest.mark.parametrize(
    ("a", "b"),
    [(20, 21), (-21, -20), (-0.4, 0.5), (-3, 5), (0.3, 0.3001), (-6, -5.99), (1000, 1001), (2, INF)],
)
def test_gradients(a: float, b: float) -> None:
    sides = torch.tensor([[a], [b]], dtype=torch.float64, requires_grad=True)
    log_gaussian_interval(*sides).sum().backward()
    truth = exact(a, b)
    for side, sign, gradient in zip((a, b), (-1, 1), sides.grad.flatten().tolist(), strict=True):
        density = (
            0
            if math.isinf(side)
            else mpmath.exp(-(mpmath.mpf(side) ** 2) / 2 - truth) / mpmath.sqrt(2 * mpmath.pi)
        )
        assert_allclose(gradient, float(sign * density), rtol=1e-11)


def test_gradients_far_out_in_float32() -> None:
    sides = torch.tensor([[1e4], [INF]], requires_grad=True)
    log_gaussian_interval(*sides).sum().backward()
    assert_allclose(sides.grad.flatten(), [-1e4, 0.0], rtol=1e-6)


def test_a_width_that_the_sides_have_lost() -> None:
    a, width = torch.tensor([1e6], dtype=torch.float64), torch.tensor([1e-12], dtype=torch.float64)
    value = log_gaussian_interval(a, a + width, width)
    assert_allclose(value, -5e11 - 0.5 * math.log(2 * math.pi) + math.log(1e-12), rtol=1e-15)


def test_first_order_only() -> None:
    a, b, weight = torch.tensor([[0.0], [1.0], [1.0]], dtype=torch.float64, requires_grad=True)
    value = log_gaussian_interval(a, b) * weight
    (gradient,) = torch.autograd.grad(value.sum(), a, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (-INF, INF),
        (30, INF),
        (-INF, -30),
        (30, 30.001),
        (-1000, -999),
        (-3, 40),
        (0.5, 0.5 + 1e-9),
        (-2, 1),
        (1, INF),
    ],
)
def test_quantiles_invert_the_mass(a: float, b: float) -> None:
    for q in (1e-3, 0.02, 0.5, 0.9):
        z = gaussian_interval_quantile(*torch.tensor([[q], [a], [b]], dtype=torch.float64)).item()
        assert a <= z <= b
        step = 1e-12 * abs(z) if abs(z) > 64 else 32 * UNIT * max(abs(z), 1.0)
        low, high = (
            float(mpmath.exp(exact(a, side) - exact(a, b))) if side > a else 0.0
            for side in (z - step, z + step)
        )
        assert low * (1 - 1e-9) <= q <= high * (1 + 1e-9)
