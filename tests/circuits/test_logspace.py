"""Weighted sums of exponentials against mpmath, where the fast path works and where it loses everything."""

import itertools

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from voronoi_circuits.circuits.logspace import log_mix, log_sum, log_tucker

INF = float("inf")
IDENTITY = torch.tensor([[[[0.0, -INF], [-INF, 0.0]]]], dtype=torch.float64)


def exact(logits, *values) -> list[mpmath.mpf]:
    """log Σ softmax(logits)_i exp(v_i) of one unit over the product of its inputs, 50 digits."""
    with mpmath.workdps(50):
        weights = [mpmath.exp(mpmath.mpf(w)) for w in logits]
        inputs = [[mpmath.exp(mpmath.mpf(v)) for v in value] for value in values]
        terms = [w * mpmath.fprod(pair) for w, pair in zip(weights, itertools.product(*inputs), strict=True)]
        total = mpmath.fsum(terms)
        return mpmath.log(total / mpmath.fsum(weights)) if total else mpmath.mpf("-inf")


def close(got: torch.Tensor, want: mpmath.mpf, tolerance: float) -> bool:
    if want == mpmath.mpf("-inf"):
        return got.item() == -INF
    return abs(got.item() - want) <= tolerance * (1 + abs(want))


VALUES = st.sampled_from([0.0, -1.0, 3.5, -50.0, -104.0, -200.0, -700.0, -800.0, -5e5, -INF, 900.0])
LOGITS = st.sampled_from([0.0, 1.5, -2.0, -30.0, -120.0, -900.0, -INF])


@given(st.lists(LOGITS, min_size=6, max_size=6), st.lists(VALUES, min_size=3, max_size=3))
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_mix_is_exact_wherever_weights_and_values_lie(dtype, tolerance, logits, values):
    logits = [0.0, *logits[1:3], *logits[3:5], 0.0]
    out = log_mix(
        torch.tensor(logits, dtype=dtype).view(1, 1, 2, 3), torch.tensor(values, dtype=dtype).view(1, 1, 3, 1)
    )
    for o in range(2):
        assert close(out[0, 0, o, 0], exact(logits[3 * o : 3 * o + 3], values), tolerance)


@given(st.lists(LOGITS, min_size=3, max_size=3), st.lists(VALUES, min_size=4, max_size=4))
@pytest.mark.parametrize("dtype, tolerance", [(torch.float64, 1e-13), (torch.float32, 1e-5)])
def test_tucker_is_exact_wherever_weights_and_values_lie(dtype, tolerance, logits, values):
    logits = [*logits, 0.0]
    first, second = torch.tensor(values, dtype=dtype).view(2, 1, 1, 2, 1)
    out = log_tucker(torch.tensor(logits, dtype=dtype).view(1, 1, 1, 2, 2), first, second)
    assert close(out.squeeze(), exact(logits, values[:2], values[2:]), tolerance)


@pytest.mark.parametrize(
    "dtype, deep", [(torch.float64, -800.0), (torch.float32, -104.0), (torch.float32, -800.0)]
)
def test_identity_weights_lose_nothing(dtype, deep):
    values = torch.tensor([0.0, deep], dtype=dtype).view(1, 1, 2, 1).requires_grad_()
    logits = IDENTITY.to(dtype, copy=True).requires_grad_()
    out = log_mix(logits, values)
    assert out.flatten().tolist() == [0.0, deep]
    out[0, 0, 1, 0].backward()
    assert values.grad.flatten().tolist() == [0.0, 1.0]
    assert torch.equal(logits.grad, torch.zeros_like(logits))  # a softmax over one input has nothing to move


@pytest.mark.parametrize("dtype, deep", [(torch.float64, -800.0), (torch.float32, -104.0)])
def test_identity_weights_of_pairs_lose_nothing(dtype, deep):
    logits = torch.full((1, 1, 4, 4), -INF, dtype=dtype)
    logits.diagonal(dim1=2, dim2=3).fill_(0.0)
    logits = logits.view(1, 1, 4, 2, 2)
    values = [torch.tensor([0.0, deep], dtype=dtype).view(1, 1, 2, 1).requires_grad_() for _ in range(2)]
    out = log_tucker(logits, *values)
    assert out.flatten().tolist() == [0.0, deep, deep, 2 * deep]
    out[0, 0, 3, 0].backward()
    assert all(v.grad.flatten().tolist() == [0.0, 1.0] for v in values)


@pytest.mark.parametrize("scale", [0.0, -300.0, -750.0])
def test_gradients_agree_with_finite_differences_on_both_paths(scale):
    generator = torch.Generator().manual_seed(3)
    logits = torch.randn(2, 2, 3, 2, 2, dtype=torch.float64, generator=generator)
    logits[..., 0, 0] = scale  # the largest pair has next to no weight
    first, second = torch.randn(2, 2, 2, 2, 4, dtype=torch.float64, generator=generator)
    first = first + torch.tensor([0.0, scale]).view(1, 1, 2, 1)
    second = second + torch.tensor([0.0, scale]).view(1, 1, 2, 1)
    inputs = [t.clone().requires_grad_() for t in (logits, first, second)]
    assert torch.autograd.gradcheck(log_tucker, inputs)
    inputs = [t.clone().requires_grad_() for t in (logits[..., 0], first)]
    assert torch.autograd.gradcheck(log_mix, inputs)


def test_nothing_anywhere_is_minus_infinity_with_zero_gradients():
    logits = torch.randn(1, 1, 2, 3, requires_grad=True)
    values = torch.full((1, 1, 3, 2), -INF)
    values[0, 0, 0, 1] = 1.0
    values.requires_grad_()
    out = log_mix(logits, values)
    assert (out[..., 0] == -INF).all()
    assert out[..., 1].isfinite().all()
    out.sum().backward()
    assert values.grad.isfinite().all()
    assert (values.grad[..., 0] == 0).all()
    assert logits.grad.isfinite().all()
    rows = torch.tensor([[-INF, -INF], [0.0, 0.0]], requires_grad=True)
    total = log_sum(rows, 1)
    assert total[0] == -INF
    assert total[1].item() == pytest.approx(0.6931472)
    total.sum().backward()
    assert rows.grad.tolist() == [[0.0, 0.0], [0.5, 0.5]]


def test_a_second_derivative_is_refused_and_not_wrong():
    logits = torch.randn(1, 1, 2, 2, dtype=torch.float64, requires_grad=True)
    values = torch.randn(1, 1, 2, 1, dtype=torch.float64, requires_grad=True)
    (first,) = torch.autograd.grad(log_mix(logits, values).sum(), values, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        first.sum().backward()


def test_large_logits_are_compared_by_their_differences():
    logits = torch.tensor([1e9, 1e9 - 2.0], dtype=torch.float64).view(1, 1, 1, 2)
    values = torch.tensor([-900.0, 0.0], dtype=torch.float64).view(1, 1, 2, 1)
    hidden = torch.tensor([1e9 - 1600.0, 1e9], dtype=torch.float64).view(1, 1, 1, 2)
    assert log_mix(logits, values).item() == pytest.approx(-2.126928011042973, rel=1e-14)
    assert log_mix(hidden, values.flip(2)).item() == pytest.approx(-900.0, rel=1e-14)  # computed term by term
