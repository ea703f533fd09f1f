"""Categorical and histogram leaves: edges, weights far below 1, and the rounding budget against 60 digits."""

import math

import mpmath
import pytest
import torch
from numpy.testing import assert_allclose

from voronoi_circuits.circuits.leaves import Categorical, Histogram

INF = math.inf


def rows(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64).view(1, 1, 1, -1)


def steep(leaf: Categorical | Histogram) -> Categorical | Histogram:
    """Weights from 1 down to e^-900."""
    with torch.no_grad():
        leaf.logits.copy_(
            torch.linspace(0, -900, leaf.parts)
            + torch.rand(leaf.logits.shape, generator=torch.Generator().manual_seed(0))
        )
    return leaf


def exact_weights(leaf: Categorical | Histogram) -> list[mpmath.mpf]:
    raw = [mpmath.exp(logit) for logit in leaf.logits.flatten().tolist()]
    return [weight / mpmath.fsum(raw) for weight in raw]


def test_what_is_no_code_has_no_density_and_no_gradient() -> None:
    leaf = Categorical(1, 1, 2, categories=3)
    x = rows(1.5, -1.0, 7.0, 3.0, INF, -INF)
    value = leaf.log_density(x)
    assert (value == -INF).all()
    value.sum().backward()
    assert not leaf.logits.grad.any()


def test_small_weights_are_not_lost() -> None:
    with mpmath.workdps(60):
        leaf = steep(Categorical(1, 1, 1, categories=10))
        truth = [float(mpmath.log(weight)) for weight in exact_weights(leaf)]
        assert_allclose(leaf.log_density(rows(*range(10))).detach().flatten(), truth, rtol=1e-14, atol=1e-15)
        tail = float(mpmath.log(mpmath.fsum(exact_weights(leaf)[6:])))
        assert_allclose(leaf.log_mass(rows(5.5), rows(INF)).item(), tail, rtol=1e-14)


def test_codes_stay_within_the_budget() -> None:
    with mpmath.workdps(60):
        for parts in (1, 2, 40):
            leaf = steep(Categorical(1, 1, 1, categories=parts))
            weights = exact_weights(leaf)
            density = leaf.log_density(rows(*range(parts))).detach()
            mass = leaf.log_mass(rows(*range(parts)), rows(INF).expand(1, 1, 1, parts)).detach()
            for c in range(parts):
                for got, truth in (
                    (density[..., c : c + 1], weights[c]),
                    (mass[..., c : c + 1], mpmath.fsum(weights[c:])),
                ):
                    assert abs(got.item() - mpmath.log(truth)) <= leaf.rounding(got).item()


def test_bins_stay_within_the_budget() -> None:
    leaf = steep(Histogram(1, 1, 1, bins=20))
    leaf.edges.copy_(torch.cumsum(10 ** torch.linspace(-6, 3, 21), 0))
    edges = [mpmath.mpf(edge) for edge in leaf.edges.flatten().tolist()]
    with mpmath.workdps(60):
        weights = exact_weights(leaf)
        for c in range(20):
            middle, width = (edges[c] + edges[c + 1]) / 2, edges[c + 1] - edges[c]
            got = leaf.log_density(rows(float(middle))).detach()
            assert abs(got.item() - mpmath.log(weights[c] / width)) <= leaf.rounding(got).item()
            low = float(edges[c] + width / 3)
            got = leaf.log_mass(rows(low), rows(INF)).detach()
            truth = weights[c] * (edges[c + 1] - low) / width + mpmath.fsum(weights[c + 1 :])
            assert abs(got.item() - mpmath.log(truth)) <= leaf.rounding(got).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_histogram_holds_its_support_and_nothing_else(dtype: torch.dtype) -> None:
    leaf = Histogram(2, 1, 3, bins=9)
    leaf.start(
        torch.randn(50, 1, generator=torch.Generator().manual_seed(0)), torch.Generator().manual_seed(0)
    )
    low, high = leaf.edges[:, :1].to(dtype).view(1, 1, 1, 1), leaf.edges[:, -1:].to(dtype).view(1, 1, 1, 1)
    assert (leaf.log_mass(low, high) == 0.0).all()
    assert (leaf.log_mass(low - 1, high + 1) == 0.0).all()
    assert (leaf.log_mass(high, high + 1) == -INF).all()
    assert torch.isfinite(leaf.log_density(torch.cat([low, high], -1))).all()
    beside = torch.cat([torch.nextafter(low, low - 1), torch.nextafter(high, high + 1)], -1)
    assert (leaf.log_density(beside) == -INF).all()


def test_an_inner_edge_belongs_to_the_bin_on_its_right() -> None:
    leaf = Histogram(1, 1, 1, bins=2)
    with torch.no_grad():
        leaf.logits.copy_(torch.tensor([0.25, 0.75]).log())
    assert_allclose(
        leaf.log_density(rows(0.0, 0.49, 0.5, 1.0)).exp().detach().flatten(), [0.5, 0.5, 1.5, 1.5], rtol=1e-6
    )


def test_the_mass_grows_linearly_in_the_overlap() -> None:
    leaf = Histogram(1, 1, 1, bins=2)
    with torch.no_grad():
        leaf.logits.copy_(torch.tensor([0.25, 0.75]).log())
    low = rows(0.25, 0.4, 0.6).requires_grad_()
    mass = leaf.log_mass(low, rows(0.75, 0.45, 3.0)).exp()
    assert_allclose(mass.detach().flatten(), [0.125 + 0.375, 0.025, 0.6], rtol=1e-6)
    mass.sum().backward()
    assert_allclose(low.grad.flatten(), [-0.5, -0.5, -1.5], rtol=1e-6)


def test_draws_of_parts_with_next_to_no_weight() -> None:
    leaf, index = steep(Categorical(1, 1, 1, categories=10)), torch.zeros(1000, dtype=torch.long)
    low = torch.full((1000,), 7.5, dtype=torch.float64)
    assert (leaf.draw(index, index, index, low, low + 9, torch.Generator().manual_seed(0)) == 8).all()


def test_edges_cover_the_range_with_its_margin() -> None:
    leaf = Histogram(1, 2, 1, bins=4, margin=0.25)
    leaf.start(torch.tensor([[0.0, 5.0], [4.0, 5.0]]), torch.Generator().manual_seed(0))
    assert_allclose(leaf.edges, [[-1.0, 0.5, 2.0, 3.5, 5.0], [4.75, 5.125, 5.5, 5.875, 6.25]])


def test_bad_columns_and_options_are_refused() -> None:
    with pytest.raises(
        ValueError, match=r"the column of region 1 holds 3.0, which a categorical leaf of 3 parts"
    ):
        Categorical(1, 2, 1, categories=3).start(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    with pytest.raises(
        ValueError, match=r"region\(s\) \[0\] vary too little about too large a value for 32 bins"
    ):
        Histogram(1, 1, 1).start(torch.tensor([[1e8], [1e8 + 8]]))
    with pytest.raises(ValueError, match="categories must be at least 1, not 0"):
        Categorical(1, 1, 1, categories=0)
    with pytest.raises(ValueError, match="bins must be at least 1, not 0"):
        Histogram(1, 1, 1, bins=0)
    with pytest.raises(ValueError, match="margin must be a positive share"):
        Histogram(1, 1, 1, margin=0.0)
