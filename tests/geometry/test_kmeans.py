import pytest
import torch
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import Tessellation, kmeans, kmeans_intervals
from voronoi_circuits.geometry.kmeans import reseed


def assert_distinct(centroids: Tensor, k: int) -> None:
    assert len(torch.unique(centroids, dim=0)) == len(centroids) == k
    assert centroids.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_clusters_are_found(dtype: torch.dtype, offset: float) -> None:
    g = exact.generator(0)
    truth = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]], dtype=dtype) + offset
    points = (truth[:, None] + 0.1 * torch.randn(3, 100, 2, generator=g, dtype=dtype)).flatten(0, 1)
    centroids = kmeans(points, 3, generator=g)
    assert centroids.dtype == dtype
    order = Tessellation(centroids).nearest(truth)
    means = points.double().view(3, 100, 2).mean(1)
    torch.testing.assert_close(
        centroids[order].double(), means, rtol=0, atol=1e-9 if dtype == torch.float64 else 2e-3
    )


def test_every_centroid_owns_a_row_and_is_the_mean_of_its_rows() -> None:
    g = exact.generator(1)
    points = torch.randn(500, 3, generator=g, dtype=torch.float64)
    centroids = kmeans(points, 40, generator=g)
    assert_distinct(centroids, 40)
    cell = Tessellation(centroids).nearest(points)
    means = torch.stack([points[cell == k].mean(0) for k in range(40)])
    torch.testing.assert_close(centroids, means)


def test_one_seed_gives_one_answer() -> None:
    points = torch.randn(200, 2, generator=exact.generator(2))
    first, again, other = (kmeans(points, 12, generator=exact.generator(seed)) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize("distinct", [1, 2, 5, 8])
def test_more_centroids_than_distinct_rows(distinct: int) -> None:
    """The distinct rows are centroids, the rest lie close to them, and no two agree."""
    g = exact.generator(5)
    values = torch.randn(distinct, 2, generator=g)
    points = values[torch.randint(distinct, (50,), generator=g).clamp_max(distinct - 1)]
    points = torch.cat([points, values])
    centroids = kmeans(points, 8, generator=g)
    assert_distinct(centroids, 8)
    distance = torch.cdist(values, centroids)
    assert (distance.amin(1) == 0).all()
    assert distance.amin(0).max() < 0.5


@pytest.mark.parametrize("value", [0.0, 1.0, 1e6, -1e30, 1e-30])
def test_constant_columns_still_give_distinct_centroids(value: float) -> None:
    assert_distinct(kmeans(torch.full((10, 1), value), 1000, generator=exact.generator(6)), 1000)


def test_rows_a_rounding_apart_still_give_distinct_centroids() -> None:
    points = torch.tensor([[1e8], [1e8 + 8.0]])
    assert_distinct(kmeans(points, 2000, generator=exact.generator(7)), 2000)
    points = 1e6 + torch.arange(20.0)[:, None].repeat(30, 1) / 16
    assert_distinct(kmeans(points, 19, generator=exact.generator(8)), 19)


def test_an_outlier_that_hides_the_differences_of_the_others() -> None:
    """Centred on their mean all rows but one are equal to scikit-learn."""
    points = torch.tensor([[0.0], [1.0], [2.0], [3.0], [4.0], [1e20]])
    centroids = kmeans(points, 5, generator=exact.generator(12))
    assert_distinct(centroids, 5)
    assert Tessellation(centroids).unreached(points) == []


def test_more_cells_than_rows_to_own_them_ends() -> None:
    points = torch.tensor([[1.0], [2.0]])
    assert set(reseed(points, torch.full((4, 1), 9.0)).flatten().tolist()) >= {1.0, 2.0}


def test_empty_cells_are_reseeded() -> None:
    points = torch.randn(100, 2, generator=exact.generator(9))
    planted = torch.cat([points[:3], points[:1], torch.full((4, 2), 1e3)])
    centroids = reseed(points, planted)
    assert torch.equal(centroids[:3], points[:3])
    assert_distinct(centroids, 8)
    assert Tessellation(centroids).unreached(points) == []


def test_intervals_start_column_by_column_sorted() -> None:
    g = exact.generator(10)
    columns = [torch.tensor([0.0, 5.0, 9.0]), torch.tensor([-3.0, 2.0, 100.0])]
    points = torch.stack([(c.repeat(50) + 0.01 * torch.randn(150, generator=g)) for c in columns], 1)
    centroids = kmeans_intervals(points[torch.randperm(150, generator=g)], 3, generator=g)
    torch.testing.assert_close(centroids, torch.stack(columns), rtol=0, atol=0.02)


def test_bad_input_is_refused() -> None:
    g = exact.generator(11)
    with pytest.raises(ValueError, match="points must be a floating"):
        kmeans(torch.zeros(5), 2, generator=g)
    with pytest.raises(ValueError, match="points must be a floating"):
        kmeans(torch.zeros(0, 2), 2, generator=g)
    with pytest.raises(ValueError, match=r"points must be finite: the entry at \(0, 0\) is nan"):
        kmeans(torch.full((2, 2), float("nan")), 2, generator=g)
    with pytest.raises(ValueError, match="k and iterations must be at least 1, got 0"):
        kmeans(torch.zeros(3, 2), 0, generator=g)
