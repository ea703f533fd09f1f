import pytest
import torch
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import HierarchicalTessellation, scope_of

VTREE = ((0, 2), (3, 1))
SIZES = {(0,): 3, (1,): 2, (2,): 4, (3,): 2, (0, 2): 3, (1, 3): 2, (0, 1, 2, 3): 4}


def centroids(seed: int) -> dict[tuple[int, ...], Tensor]:
    g = exact.generator(seed)
    return {
        s: torch.randn(k, len(s), generator=g, dtype=torch.float64).sort(0).values for s, k in SIZES.items()
    }


def rows(seed: int) -> Tensor:
    return 2 * torch.randn(200, 4, generator=exact.generator(seed), dtype=torch.float64)


def cell_by_hand(x: Tensor, scope: tuple[int, ...], points: dict[tuple[int, ...], Tensor]) -> Tensor:
    """The cell of a row: of its value at a leaf, of its children's cell centroids above."""
    if len(scope) > 1:
        left, right = ((0, 2), (1, 3)) if len(scope) == 4 else ((scope[0],), (scope[1],))
        x = x.clone()
        for child in (left, right):
            x[list(child)] = points[child][cell_by_hand(x, child, points)]
    return (x[list(scope)] - points[scope]).square().sum(1).argmin()


def test_scopes_are_sorted() -> None:
    assert scope_of(VTREE) == (0, 1, 2, 3)
    assert scope_of(VTREE[1]) == (1, 3)


@pytest.mark.parametrize("seed", range(3))
def test_cells_are_decided_from_fine_to_coarse(seed: int) -> None:
    points, x = centroids(seed), rows(seed + 10)
    cells = HierarchicalTessellation(VTREE, points)
    expected = [cell_by_hand(row, (0, 1, 2, 3), points).item() for row in x]
    assert cells.nearest(x).tolist() == expected
    assert cells.n_cells == 4
    assert cells.route().shape == (4, 6)


def test_routes_partition_the_product_cells() -> None:
    cells = HierarchicalTessellation(VTREE, centroids(3))
    assert cells.left.route().exp().sum(0).tolist() == [1.0] * 12
    torch.testing.assert_close(cells.route(0.7).exp().sum(0), torch.ones(6, dtype=torch.float64))


def test_soft_cells_sum_to_one_and_tend_to_the_hard_ones() -> None:
    cells, x = HierarchicalTessellation(VTREE, centroids(4)), rows(14)
    torch.testing.assert_close(cells.log_soft(x, 1.0).exp().sum(1), torch.ones(200, dtype=torch.float64))
    hard = torch.nn.functional.one_hot(cells.nearest(x), 4).double()
    gaps = [
        (cells.log_soft(x, alpha).exp() - hard).abs().mean().item() for alpha in (0.1, 1.0, 10.0, 1e3, 1e6)
    ]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 1e-3


def test_every_level_learns() -> None:
    cells = HierarchicalTessellation(VTREE, centroids(5))
    cells.log_soft(rows(15), 0.5)[:, 0].sum().backward()
    gradients = {name: parameter.grad for name, parameter in cells.named_parameters()}
    assert len(gradients) == len(SIZES)
    for gradient in gradients.values():
        assert gradient is not None
        assert gradient.abs().sum() > 0


def test_empty_coarse_cells_are_reported() -> None:
    points = centroids(6)
    assert HierarchicalTessellation(VTREE, points | {(1, 3): torch.zeros(1, 2)}).left.empty_cells() == {}
    far = points | {(0, 2): torch.cat([points[0, 2][:1], torch.full((2, 2), 1e6)])}
    assert HierarchicalTessellation(VTREE, far).empty_cells()[0, 2] == [1, 2]


def test_one_variable_is_a_leaf() -> None:
    cells = HierarchicalTessellation(0, {(0,): torch.tensor([1.0, -1.0])})
    assert cells.nearest(torch.tensor([[-3.0], [3.0]])).tolist() == [0, 1]
    assert cells.empty_cells() == {}
    with pytest.raises(ValueError, match="variable 0 is a leaf"):
        cells.route()


def test_vtree_and_centroids_must_fit() -> None:
    points = centroids(7)
    with pytest.raises(ValueError, match="names a variable twice"):
        HierarchicalTessellation((0, 0), points)
    with pytest.raises(ValueError, match=r"no entry for the vtree node \(0, 3\)"):
        HierarchicalTessellation((0, 3), points)
    with pytest.raises(ValueError, match=r"centroids of \(0, 2\) must have shape \(K, 2\)"):
        HierarchicalTessellation((0, 2), points | {(0, 2): torch.zeros(3, 1)})
    with pytest.raises(ValueError, match=r"centroids of \(0, 2\) must be finite"):
        HierarchicalTessellation((0, 2), points | {(0, 2): torch.full((1, 2), float("nan"))})
