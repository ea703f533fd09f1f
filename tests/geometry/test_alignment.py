import re
from itertools import combinations, product

import pytest
import torch
from scipy.stats import norm
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import (
    Box,
    IntervalPartition,
    ProductTessellation,
    Tessellation,
    alignment,
    grid_points,
)

AXES = [[0], [1]]


def grid(seed: int) -> Tensor:
    g = exact.generator(seed)
    return grid_points([torch.randn(3, 1, generator=g), torch.randn(2, 1, generator=g)])


def labels(centroids: Tensor, axis: Tensor) -> Tensor:
    """The cell of each point of a fine lattice in the plane."""
    return Tessellation(centroids).nearest(torch.cartesian_prod(axis, axis)).view(len(axis), len(axis))


def test_alignment_against_the_shape_of_sampled_cells() -> None:
    """Aligned exactly where every cell is a rectangle of a lattice; if not, the named cells meet."""
    lattice = torch.tensor(list(product((0.0, 1.0, 2.0), repeat=2)))
    axis = torch.linspace(-12.03, 13.97, 261, dtype=torch.float64)
    subsets = [list(s) for size in (1, 2, 3, 4, 6, 9) for s in combinations(range(9), size)]
    aligned = 0
    for subset in subsets[::3] + subsets[-1:]:
        centroids = lattice[subset]
        cell = labels(centroids, axis)
        rectangles = all(
            torch.equal(own, own.any(1)[:, None] & own.any(0))
            for own in (cell == k for k in range(len(subset)))
        )
        answer = alignment(Tessellation(centroids), AXES)
        assert answer.aligned == rectangles, centroids
        aligned += answer.aligned
        if not answer.aligned:
            k, j = map(int, re.findall(r"\d+", answer.reason)[:2])
            assert (centroids[k] != centroids[j]).all()
            pairs = torch.stack([cell[:-1].flatten(), cell[1:].flatten()], 1).sort(1).values
            assert (pairs == torch.tensor([k, j])).all(1).any()
    assert aligned > 10


def test_a_grid_is_aligned_although_its_diagonal_pairs_are_oblique() -> None:
    assert alignment(Tessellation(grid(0)), AXES).aligned
    assert alignment(Tessellation(grid(0)[torch.tensor([3, 0, 5, 1, 4, 2, 2])]), AXES).aligned


def test_a_misaligned_gate_is_caught() -> None:
    moved = grid(1)
    moved[4] += 1e-6
    turned = grid(1) @ torch.tensor([[0.8, 0.6], [-0.6, 0.8]])
    for centroids in (moved, turned, grid(1)[:-1]):
        answer = alignment(Tessellation(centroids), AXES)
        assert not answer
        assert re.search(r"cells \d and \d share a facet .* blocks \(0,\) and \(1,\)", answer.reason)


def test_proposition_1_two_centroids_are_misaligned() -> None:
    answer = alignment(Tessellation(torch.tensor([[0.0, 1.0], [1.0, 0.0]])), AXES)
    assert not answer.aligned
    assert answer.reason == "cells 0 and 1 share a facet whose normal couples the blocks (0,) and (1,)"


def test_alignment_suffices() -> None:
    """Theorem "Alignment Enables Factorization": mass of a cell is a product of masses, else not."""
    axis = torch.linspace(-7, 7, 1401, dtype=torch.float64) + 1e-4
    mass = torch.from_numpy(norm.pdf(axis.numpy())) * (axis[1] - axis[0])

    def worst_error(centroids: Tensor) -> float:
        cell = labels(centroids, axis)
        errors: list[float] = []
        for k in range(len(centroids)):
            own = (cell == k).double()
            truth = mass @ own @ mass
            shadows = (own.any(1).double() @ mass) * (own.any(0).double() @ mass)
            errors.append((shadows - truth).abs().item())
        return max(errors)

    aligned, oblique = grid(2), torch.tensor([[0.0, 1.0], [1.0, 0.0]])
    assert alignment(Tessellation(aligned), AXES).aligned
    assert worst_error(aligned) < 1e-12
    assert not alignment(Tessellation(oblique), AXES).aligned
    assert worst_error(oblique) == pytest.approx(0.5, abs=0.01)


def test_blocks_of_several_variables() -> None:
    g = exact.generator(3)
    centroids = grid_points([torch.randn(4, 2, generator=g), torch.randn(3, 1, generator=g)])
    assert alignment(Tessellation(centroids), [[1, 0], [2]]).aligned
    assert alignment(Tessellation(centroids), [[0, 1, 2]]).aligned
    for partition in ([[0], [1, 2]], [[0], [1], [2]], [[0, 2], [1]]):
        assert not alignment(Tessellation(centroids), partition).aligned


def test_three_blocks() -> None:
    g = exact.generator(4)
    centroids = grid_points([torch.randn(2, 1, generator=g) for _ in range(3)])
    assert alignment(Tessellation(centroids), [[0], [1], [2]]).aligned
    answer = alignment(Tessellation(centroids[:7]), [[0], [1], [2]])
    assert "couples the blocks" in answer.reason


def test_products_are_aligned_with_their_own_scopes_and_coarser_blocks() -> None:
    g = exact.generator(5)
    oblique = Tessellation(torch.randn(3, 2, generator=g))
    cells = ProductTessellation(
        [((4, 1), oblique), ((0, 2), IntervalPartition(torch.randn(2, 3, generator=g)))]
    )
    assert alignment(cells, [[1, 4], [0], [2]]).aligned
    assert alignment(cells, [[0, 1, 4], [2]]).aligned
    answer = alignment(cells, [[0, 4], [1, 2]])
    assert not answer.aligned
    assert answer.reason.endswith("couples the blocks (4,) and (1,)")


def test_boxes_and_intervals_are_always_aligned() -> None:
    boxes = [Box.of({0: (0.0, 1.0)}, 2), Box.of({0: (1.0, 2.0)}, 2)]
    assert alignment(boxes, AXES).aligned
    assert alignment(IntervalPartition(torch.zeros(2, 3)), AXES).aligned


def test_one_cell_is_aligned_with_everything() -> None:
    assert alignment(Tessellation(torch.zeros(1, 3)), [[0], [1], [2]]).aligned


@pytest.mark.parametrize("partition", [[[0]], [[0], [0, 1]], [[0], [1], [2]], []])
def test_a_partition_that_does_not_split_the_variables_is_refused(partition: list[list[int]]) -> None:
    with pytest.raises(ValueError, match=r"partition must split the variables \[0, 1\] into blocks"):
        alignment(Tessellation(torch.zeros(1, 2)), partition)
