from itertools import product

import pytest
import torch

from tests.geometry import exact
from voronoi_circuits.geometry import (
    IntervalPartition,
    ProductTessellation,
    Tessellation,
    grid_points,
    routes,
)


def factors(seed: int) -> tuple[Tessellation, IntervalPartition, Tessellation]:
    g = exact.generator(seed)
    return (
        Tessellation(torch.randn(3, 2, generator=g, dtype=torch.float64)),
        IntervalPartition(torch.randn(2, 4, generator=g, dtype=torch.float64)),
        Tessellation(torch.randn(2, 1, generator=g, dtype=torch.float64)),
    )


def rows(seed: int, dimensions: int) -> torch.Tensor:
    return 2 * torch.randn(100, dimensions, generator=exact.generator(seed), dtype=torch.float64)


def test_product_cells_factor() -> None:
    """Proposition "Factorized Gate Decomposition": g_k = Π_i g^i_{k_i}, hard and soft."""
    a, b, c = factors(0)
    cells, x = ProductTessellation([((4, 0), a), ((1, 3), b), ((2,), c)]), rows(1, 5)
    assert cells.shape == (3, 4, 4, 2)
    parts = [a.nearest(x[:, [4, 0]]), *b.nearest(x[:, [1, 3]]).unbind(1), c.nearest(x[:, [2]])]
    soft_a, soft_b, soft_c = (
        a.log_soft(x[:, [4, 0]], 3.0),
        b.log_soft(x[:, [1, 3]], 3.0),
        c.log_soft(x[:, [2]], 3.0),
    )
    hard, soft = cells.nearest(x), cells.log_soft(x, 3.0)
    for index, k in enumerate(product(*(range(size) for size in cells.shape))):
        member = torch.stack([part == i for part, i in zip(parts, k, strict=True)]).all(0)
        assert torch.equal(hard == index, member)
        expected = soft_a[:, k[0]] + soft_b[:, 0, k[1]] + soft_b[:, 1, k[2]] + soft_c[:, k[3]]
        torch.testing.assert_close(soft[:, index], expected)
    torch.testing.assert_close(soft.exp().sum(1), torch.ones(100, dtype=torch.float64))


def test_the_cells_of_a_grid_of_centroids_are_the_product_of_the_factors_cells() -> None:
    """Squared distances add: hard and soft gates of the grid are those of the product."""
    a, _, c = factors(2)
    x = rows(3, 3)
    cells = ProductTessellation([((0, 1), a), ((2,), c)])
    grid = Tessellation(grid_points([a.centroids, c.centroids]))
    assert torch.equal(cells.nearest(x), grid.nearest(x))
    torch.testing.assert_close(cells.log_soft(x, 2.0), grid.log_soft(x, 2.0))


def test_a_factors_gate_and_its_gradient_depend_on_its_own_variables_alone() -> None:
    a, b, c = factors(4)
    cells, x = ProductTessellation([((0, 1), a), ((2, 3), b), ((4,), c)]), rows(5, 5)
    other = x.clone()
    other[:, 2:] = rows(6, 5)[:, 2:]
    gates, gradients = [], []
    for u in (x, other):
        joint = cells.log_soft(u, 1.5).exp().view(-1, 3, 32).sum(2)  # the others' weights sum to 1
        gates.append(joint)
        gradients.append(torch.autograd.grad(joint[:, 0].sum(), [a.centroids, b.centroids, c.centroids]))
    torch.testing.assert_close(gates[0], gates[1])
    torch.testing.assert_close(gradients[0][0], gradients[1][0])
    assert gradients[0][0].abs().max() > 1e-3
    for foreign in (*gradients[0][1:], *gradients[1][1:]):
        assert foreign.abs().max() < 1e-12


def test_factors_must_fit_together() -> None:
    a, _, c = factors(7)
    with pytest.raises(ValueError, match="disjoint scopes"):
        ProductTessellation([((0, 1), a), ((1,), c)])
    with pytest.raises(ValueError, match="disjoint scopes"):
        ProductTessellation([])
    with pytest.raises(ValueError, match=r"the factor on \(0,\) has centroids of 2 variables"):
        ProductTessellation([((0,), a)])


def test_grid_points_are_row_major() -> None:
    g = exact.generator(8)
    points = [torch.randn(2, 1, generator=g), torch.randn(3, 2, generator=g), torch.randn(2, 1, generator=g)]
    expected = [torch.cat(tuple_) for tuple_ in product(*points)]
    assert torch.equal(grid_points(points), torch.stack(expected))
    with pytest.raises(ValueError, match=r"one .* tensor for each factor"):
        grid_points([])


def test_hard_routes_send_each_grid_point_to_its_nearest_coarse_centroid() -> None:
    g = exact.generator(9)
    grid = torch.randint(-2, 3, (40, 2), generator=g).float()
    coarse = torch.randint(-2, 3, (5, 2), generator=g).float()
    log_a = routes(grid, coarse)
    assert log_a.exp().sum(0).tolist() == [1.0] * 40
    assert log_a.argmax(0).tolist() == exact.nearest(grid, coarse)


def test_soft_routes_are_the_softmax_over_coarse_cells_and_learn_both_ends() -> None:
    g = exact.generator(10)
    grid = torch.randn(12, 3, generator=g, dtype=torch.float64, requires_grad=True)
    coarse = torch.randn(4, 3, generator=g, dtype=torch.float64, requires_grad=True)
    expected = torch.softmax(-2.5 * (coarse[:, None] - grid).square().sum(-1), dim=0)
    torch.testing.assert_close(routes(grid, coarse, 2.5).exp(), expected)
    for gradient in torch.autograd.grad(routes(grid, coarse, 2.5)[0].sum(), [grid, coarse]):
        assert gradient.abs().sum() > 0
    torch.testing.assert_close(routes(grid, coarse, 1e6).exp(), routes(grid, coarse).exp(), atol=1e-6, rtol=0)
