import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import IntervalPartition, Tessellation

INF = float("inf")


def test_univariate_voronoi_cells() -> None:
    """Proposition "Univariate Voronoi Cells": ends at the midpoints, the outer ones infinite."""
    low, high = IntervalPartition(torch.tensor([[5.0, -1.0, 2.0], [0.0, 0.5, 8.0]])).edges()
    assert low.tolist() == [[-INF, 0.5, 3.5], [-INF, 0.25, 4.25]]
    assert high.tolist() == [[0.5, 3.5, INF], [0.25, 4.25, INF]]


@st.composite
def lattice(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """Distinct centroids and values on a coarse lattice: values on edges."""
    centroids = draw(st.lists(st.integers(-8, 8), min_size=1, max_size=6, unique=True))
    values = draw(st.lists(st.integers(-20, 20), min_size=1, max_size=9))
    offset = draw(st.sampled_from([0.0, 1e4, 2.0**40]))
    return torch.tensor(centroids) + offset, torch.tensor(values) / 2 + offset


@given(lattice())
@settings(max_examples=100)
def test_cells_are_the_voronoi_cells_of_one_variable(case: tuple[Tensor, Tensor]) -> None:
    centroids, values = (x.double() for x in case)
    cells = IntervalPartition(centroids[None])
    nearest = cells.nearest(values[:, None])[:, 0]
    assert nearest.tolist() == exact.nearest(values[:, None], centroids.sort().values[:, None])
    low, high = (edge[0, nearest] for edge in cells.edges())
    assert ((low < values) & (values <= high)).all()


def test_cells_are_decided_in_float64() -> None:
    cells = IntervalPartition(torch.tensor([[0.0, 2.0]]))
    values = torch.tensor([[1.0], [1.0 + 1e-12], [1.0 - 1e-12]], dtype=torch.float64)
    assert cells.nearest(values).tolist() == [[0], [1], [0]]


def test_each_variable_has_its_own_cells() -> None:
    g = exact.generator(0)
    cells, x = IntervalPartition(torch.randn(3, 5, generator=g)), torch.randn(200, 3, generator=g)
    for f in range(3):
        alone = Tessellation(cells.sorted_centroids()[f, :, None])
        assert torch.equal(cells.nearest(x)[:, f], alone.nearest(x[:, f : f + 1]))
        torch.testing.assert_close(cells.log_soft(x, 4.0)[:, f], alone.log_soft(x[:, f : f + 1], 4.0))


def test_soft_gate_is_differentiable_and_stable_at_an_offset() -> None:
    g = exact.generator(1)
    centroids, x = torch.randn(2, 4, generator=g), torch.randn(50, 2, generator=g)
    near = IntervalPartition(centroids.double()).log_soft(x.double(), 30.0)
    far = IntervalPartition(centroids.double() + 2.0**30).log_soft(x.double() + 2.0**30, 30.0)
    torch.testing.assert_close(far, near, rtol=1e-4, atol=1e-4)
    cells = IntervalPartition(centroids)
    far_rows = torch.full((1, 2), 1e25, requires_grad=True)
    cells.log_soft(far_rows, 50.0).exp().sum().backward()
    for gradient in (far_rows.grad, cells.centroids.grad):
        assert gradient is not None
        assert gradient.isfinite().all()


def test_gradients_reach_unsorted_centroids() -> None:
    cells = IntervalPartition(torch.tensor([[3.0, 1.0, 2.0]]))
    low, _ = cells.edges()
    low[0, 1].backward()  # the edge between 1 and 2
    assert cells.centroids.grad is not None
    assert cells.centroids.grad.tolist() == [[0.0, 0.5, 0.5]]


def test_equal_centroids_and_empty_cells_are_reported() -> None:
    cells = IntervalPartition(torch.tensor([[1.0, 0.0, 1.0], [0.0, 1.0, 2.0]]))
    assert cells.duplicates() == [(0, 2)]
    assert cells.unreached(torch.tensor([[0.0, 0.4], [1.0, 1.6], [3.0, 1.7], [-4.0, 0.0]])) == [(1, 1)]


def test_one_cell_is_the_line() -> None:
    cells = IntervalPartition(torch.zeros(2, 1))
    assert cells.edges()[0].tolist() == [[-INF]] * 2
    assert cells.edges()[1].tolist() == [[INF]] * 2
    assert cells.nearest(torch.randn(4, 2, generator=exact.generator(2))).tolist() == [[0, 0]] * 4


def test_bad_input_is_refused() -> None:
    cells = IntervalPartition(torch.zeros(2, 1))
    with pytest.raises(ValueError, match="centroids must be a floating"):
        IntervalPartition(torch.zeros(3))
    with pytest.raises(ValueError, match=r"centroids must be finite: the entry at \(0, 1\)"):
        IntervalPartition(torch.tensor([[0.0, INF]]))
    with pytest.raises(ValueError, match=r"rows must have shape \(B, 2\)"):
        cells.nearest(torch.zeros(4, 3))
    with pytest.raises(ValueError, match=r"rows must be finite: the entry at \(0, 0\) is nan"):
        cells.nearest(torch.full((1, 2), float("nan")))
    with pytest.raises(ValueError, match="alpha must be"):
        cells.log_soft(torch.zeros(1, 2), 0.0)
