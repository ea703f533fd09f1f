"""Weighted sums of exponentials, exact wherever the result is a number: the arithmetic of sum units.

# E experts, F folded regions, N = E * F, O units out, I and J units in, B rows
# logits (E, F, O, I) or (E, F, O, I, J); values (E, F, I, B); results (E, F, O, B)

The fast path subtracts the largest value, multiplies matrices and takes the log. It loses a term that
underflows, and that matters only where everything else vanishes (values 0 and -800 through identity weights);
such results fall below ``_threshold`` and are computed again term by term. Weights are the softmax of logits
over all inputs; a logit of -inf is a weight of zero.
"""

from __future__ import annotations

from itertools import product
from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable

Positions = tuple[Tensor, ...]
_CHUNK = 1 << 22
_BLOCK = 1 << 19  # numbers between the products of one block: two megabytes of float32
_ROWS = 64  # rows of a block at least: fewer make poor matrix products


def _threshold(dtype: torch.dtype) -> float:
    """Results above it lose less than a rounding error to terms that underflowed."""
    return 1e-290 if dtype == torch.float64 else 1e-30


def _scaled(values: Tensor) -> tuple[Tensor, Tensor]:
    """exp(v - m) and m, with m the largest of the units; all zero where that is -inf."""
    largest = values.amax(-2, keepdim=True)
    return (values - torch.where(largest == -torch.inf, 0.0, largest)).exp_(), largest


def _lost(result: Tensor, largest: Tensor) -> tuple[Tensor | None, Positions]:
    """Which fast results are too small to divide by, and those (e, f, o, b) that may have lost terms."""
    low = result < _threshold(result.dtype)
    if not bool(low.any()):
        return None, ()
    return low, torch.nonzero(low & (largest > -torch.inf), as_tuple=True)


def _log_terms(log_weights: Tensor, values: tuple[Tensor, ...], at: Positions) -> Tensor:
    """log(w_oi exp v_i) of the named results, one row each: (n, I) or (n, I * J)."""
    e, f, o, b = at
    terms = log_weights[e, f, o]
    if len(values) == 1:
        return terms + values[0][e, f, :, b]
    first, second = values
    outer = first[e, f, :, b].unsqueeze(-1) + second[e, f, :, b].unsqueeze(-2)
    return (terms + outer).flatten(1)


def _split(at: Positions, width: int) -> list[tuple[Tensor, ...]]:
    """The positions in chunks whose terms fit in memory."""
    size = max(1, _CHUNK // max(width, 1))
    return list(zip(*(index.split(size) for index in at), strict=True))


def _repair(out: Tensor, logits: Tensor, values: tuple[Tensor, ...], at: Positions) -> None:
    """Computes the named results term by term, in place."""
    log_weights = _log_softmax(logits)
    for chunk in _split(at, logits[0, 0, 0].numel()):
        out[chunk] = torch.logsumexp(_log_terms(log_weights, values, chunk), -1)


def _repair_gradients(
    grad_logits: Tensor,
    grad_values: tuple[Tensor, ...],
    grad: Tensor,
    out: Tensor,
    logits: Tensor,
    values: tuple[Tensor, ...],
    at: Positions,
) -> None:
    """Adds what the results computed term by term send to d/d log-weights and d/d values."""
    keep = torch.isfinite(out[at])
    at = tuple(index[keep] for index in at)
    log_weights = _log_softmax(logits)
    for chunk in _split(at, logits[0, 0, 0].numel()):
        e, f, o, b = chunk
        share = (_log_terms(log_weights, values, chunk) - out[chunk].unsqueeze(-1)).exp()
        share = (share * grad[chunk].unsqueeze(-1)).unflatten(-1, logits.shape[3:])
        grad_logits.index_put_((e, f, o), share, accumulate=True)
        for axis, into in enumerate(grad_values):
            other = [d for d in range(1, share.dim()) if d != axis + 1]
            into.movedim(2, 3).index_put_((e, f, b), share.sum(other) if other else share, accumulate=True)


def _log_softmax(logits: Tensor) -> Tensor:
    """The log weights: log of the softmax over all inputs of each unit."""
    return torch.log_softmax(logits.flatten(3), -1).view_as(logits)


def _softmax(logits: Tensor) -> Tensor:
    """The weights (E, F, O, I * J): softmax over all inputs of each unit."""
    return torch.softmax(logits.flatten(3), -1)


def _ratio(grad: Tensor, result: Tensor, out: Tensor, low: Tensor | None) -> tuple[Tensor, Tensor]:
    """The gradient, 0 at -inf, and its ratio to the result, 0 where that was computed term by term."""
    if low is None:
        return grad, grad / result
    grad = torch.where(out == -torch.inf, 0.0, grad)
    return grad, torch.where(low, 0.0, grad / result)


class _Mix(Function):
    """out_o = log Σ_i w_oi exp(v_i), w = softmax(logits)."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, values: Tensor) -> Tensor:
        weights = _softmax(logits)
        scaled, largest = _scaled(values)
        result = weights @ scaled
        out = result.log().add_(largest)
        ctx.low, ctx.at = _lost(result, largest)
        if ctx.at:
            _repair(out, logits, (values,), ctx.at)
        ctx.save_for_backward(logits, values, weights, scaled, result, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        return _mix_gradient(ctx, grads[0])


@once_differentiable
def _mix_gradient(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor]:
    """To the logits, through the softmax, and to the values."""
    logits, values, weights, scaled, result, out = ctx.saved_tensors
    grad, ratio = _ratio(grad_out, result, out, ctx.low)
    grad_values = (weights.mT @ ratio).mul_(scaled)
    grad_logits = (ratio @ scaled.mT).mul_(weights)
    if ctx.at:
        _repair_gradients(grad_logits, (grad_values,), grad, out, logits, (values,), ctx.at)
    grad_logits.addcmul_(weights, grad.sum(-1, keepdim=True), value=-1.0)
    return grad_logits, grad_values


class _Tucker(Function):
    """out_o = log Σ_ij w_oij exp(a_i + b_j), w = softmax(logits); backward forms the outer product again."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
        weights = _softmax(logits)
        (p, top_p), (q, top_q) = _scaled(first), _scaled(second)
        result = weights.new_empty(*logits.shape[:3], first.shape[-1])
        w, left, right, into = (tensor.flatten(0, 1) for tensor in (weights.view_as(logits), p, q, result))
        for n, b in _blocks(w, left):
            _pairs(w[n], left[n, :, b], right[n, :, b], into[n, :, b])
        out = result.log().add_(top_p).add_(top_q)
        ctx.low, ctx.at = _lost(result, top_p + top_q)
        if ctx.at:
            _repair(out, logits, (first, second), ctx.at)
        ctx.save_for_backward(logits, first, second, weights, p, q, result, out)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return _tucker_gradient(ctx, grads[0])


@once_differentiable
def _tucker_gradient(ctx: Any, grad_out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """To the logits, through the softmax, and to the values of both children."""
    logits, first, second, weights, p, q, result, out = ctx.saved_tensors
    grad, ratio = _ratio(grad_out, result, out, ctx.low)
    grad_weights = weights.new_zeros(weights.shape)
    grad_first, grad_second = p.new_empty(p.shape), q.new_empty(q.shape)
    w, left, right, up = (tensor.flatten(0, 1) for tensor in (weights.view_as(logits), p, q, ratio))
    to_w, to_first, to_second = (tensor.flatten(0, 1) for tensor in (grad_weights, grad_first, grad_second))
    for n, b in _blocks(w, left):
        into = to_w[n], to_first[n, :, b], to_second[n, :, b]
        _pairs_gradient(w[n], left[n, :, b], right[n, :, b], up[n, :, b], *into)
    grad_logits = grad_weights.mul_(weights).view_as(logits)
    if ctx.at:
        into = (grad_first, grad_second)
        _repair_gradients(grad_logits, into, grad, out, logits, (first, second), ctx.at)
    total = grad.sum(-1, keepdim=True).unsqueeze(-1)
    grad_logits.addcmul_(weights.view_as(logits), total, value=-1.0)
    return grad_logits, grad_first, grad_second


def _pairs(w: Tensor, p: Tensor, q: Tensor, out: Tensor) -> None:
    """Σ_ij w_oij p_i q_j into ``out`` (N, O, B), for w (N, O, I, J), p (N, I, B) and q (N, J, B).

    Whatever is smaller lies between: Σ_j w_oij q_j for every (o, i), or p_i q_j for every (i, j).
    """
    if _narrow(w):
        mixed = torch.bmm(w.flatten(1, 2), q).view(*w.shape[:3], -1)
        torch.sum(mixed.mul_(p.unsqueeze(1)), 2, out=out)
    else:
        torch.bmm(w.flatten(2), _outer(p, q), out=out)


def _pairs_gradient(
    w: Tensor, p: Tensor, q: Tensor, up: Tensor, to_w: Tensor, to_p: Tensor, to_q: Tensor
) -> None:
    """Σ_b up_o p_i q_j added to ``to_w``; p_i Σ_oj up_o w_oij q_j into ``to_p`` and likewise ``to_q``."""
    if _narrow(w):
        share, mixed = _outer(up, p), torch.bmm(w.flatten(1, 2), q)
        to_w.view_as(w.flatten(1, 2)).baddbmm_(share, q.mT)
        torch.sum(mixed.mul_(share).view(*w.shape[:3], -1), 1, out=to_p)
        torch.mul(torch.bmm(w.flatten(1, 2).mT, share), q, out=to_q)
    else:
        outer = _outer(p, q)
        to_w.baddbmm_(up, outer.mT)
        down = torch.bmm(w.flatten(2).mT, up).mul_(outer).view(len(w), *w.shape[2:], -1)
        torch.sum(down, 2, out=to_p)
        torch.sum(down, 1, out=to_q)


def _narrow(w: Tensor) -> bool:
    """Whether there are fewer units than units of the second child, as at a root."""
    return w.shape[1] < w.shape[3]


def _outer(p: Tensor, q: Tensor) -> Tensor:
    """(N, I, B) and (N, J, B) -> (N, I * J, B)."""
    return (p.unsqueeze(2) * q.unsqueeze(1)).flatten(1, 2)


def _blocks(w: Tensor, p: Tensor) -> list[tuple[slice, slice]]:
    """Cuts N regions, and the rows of a large one, so that what lies between stays in the cache."""
    regions, _, rows = p.shape
    width = max(w.shape[2] * min(w.shape[1], w.shape[3]), 1)
    high = max(min(rows, max(_ROWS, _BLOCK // width)), 1)
    wide = max(_BLOCK // (width * high), 1)
    corners = product(range(0, regions, wide), range(0, rows, high))
    return [(slice(n, n + wide), slice(b, b + high)) for n, b in corners]


def log_mix(logits: Tensor, values: Tensor) -> Tensor:
    """Sum units: log Σ_i softmax(logits)_oi exp(v_i).

    >>> identity = torch.tensor([[[[0.0, -torch.inf], [-torch.inf, 0.0]]]])
    >>> log_mix(identity, torch.tensor([[[[0.0], [-800.0]]]])).flatten().tolist()
    [0.0, -800.0]
    """
    return cast(Tensor, _Mix.apply(logits, values))


def log_tucker(logits: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Sum units over pairs: log Σ_ij softmax(logits)_oij exp(a_i + b_j).

    >>> one = torch.zeros(1, 1, 1, 1, 1)
    >>> log_tucker(one, torch.full((1, 1, 1, 1), -2.0), torch.full((1, 1, 1, 1), -1.0)).item()
    -3.0
    """
    return cast(Tensor, _Tucker.apply(logits, first, second))


def log_sum(values: Tensor, dim: int) -> Tensor:
    """log Σ exp(v) along one axis, with gradient zero, not NaN, where every term is -inf.

    >>> log_sum(torch.tensor([-torch.inf, -torch.inf]), 0).item()
    -inf
    """
    largest = values.detach().amax(dim, keepdim=True)
    dead = largest == -torch.inf
    largest = torch.where(dead, 0.0, largest)
    total = (values - largest).exp().sum(dim, keepdim=True)
    out = torch.where(dead, -torch.inf, torch.where(dead, 1.0, total).log() + largest)
    return out.squeeze(dim)
