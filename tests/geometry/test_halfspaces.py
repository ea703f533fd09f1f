from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.geometry import exact
from voronoi_circuits.geometry import Tessellation

INF = float("inf")


def random_boxes(seed: int, count: int, dimensions: int) -> tuple[Tensor, Tensor]:
    """Boxes of many sizes, some sides infinite, some of length 0."""
    g = exact.generator(seed)
    shape = (count, dimensions)
    low = 2 * torch.randn(shape, generator=g, dtype=torch.float64)
    width = torch.randn(shape, generator=g, dtype=torch.float64).exp() / 2
    kind = torch.randint(8, shape, generator=g)
    high = torch.where(kind == 0, INF, torch.where(kind == 1, low, low + width))
    return torch.where(kind == 2, -INF, low), high


def assert_sound(cells: Tessellation, low: Tensor, high: Tensor, clear: float) -> None:
    """Labels imply the exact ones, and equal them where every exact maximum is clear of 0.

    Equal centroids: the higher index has no cell, the lower does not notice.
    """
    centroids = cells.centroids.detach()
    first = [centroids.tolist().index(c) for c in centroids.tolist()]
    inside, touches = cells.classify(low, high)
    for n in range(len(low)):
        beats = {
            (k, j): exact.reach(low[n], high[n], centroids[k], centroids[j])
            for k in first
            for j in first
            if k != j
        }
        for k in range(len(centroids)):
            if first[k] != k:
                assert not inside[n, k]
                assert not touches[n, k]
                continue
            against = [beats[k, j] for j in first if j != k]
            by_others = [beats[j, k] for j in first if j != k]
            assert not inside[n, k] or all(most <= 0 for most in against)
            assert touches[n, k] or any(most < 0 for most in by_others)
            if all(abs(most) > clear for most in against + by_others):
                assert inside[n, k] == all(most < 0 for most in against)
                assert touches[n, k] == (not any(most < 0 for most in by_others))


@pytest.mark.parametrize(
    ("cells", "dimensions", "offset"), [(5, 1, 0.0), (6, 2, 0.0), (4, 4, 0.0), (6, 3, 1e6)]
)
def test_labels_against_rational_arithmetic(cells: int, dimensions: int, offset: float) -> None:
    centroids = torch.randn(cells, dimensions, generator=exact.generator(cells), dtype=torch.float64) + offset
    low, high = random_boxes(dimensions, 60, dimensions)
    assert_sound(Tessellation(centroids), low + offset, high + offset, clear=1e-9)


@st.composite
def lattice_boxes(draw: st.DrawFn) -> tuple[Tensor, Tensor, Tensor]:
    """Centroids and sides on a coarse lattice: sides on facets, points on facets, equal centroids."""
    dimensions = draw(st.integers(1, 3))
    side = st.integers(-3, 3)
    point = st.lists(side, min_size=dimensions, max_size=dimensions)
    centroids = torch.tensor(draw(st.lists(point, min_size=1, max_size=5)), dtype=torch.float64)
    low = torch.tensor(draw(st.lists(point, min_size=1, max_size=6)), dtype=torch.float64)
    width = st.sampled_from([0.0, 0.5, 1.0, 2.0, INF])
    widths = [[draw(width) for _ in range(dimensions)] for _ in range(len(low))]
    high = low + torch.tensor(widths, dtype=torch.float64)
    open_below = torch.tensor([[draw(st.integers(0, 5)) == 0 for _ in range(dimensions)] for _ in low])
    return centroids, torch.where(open_below, -INF, low), high


@given(lattice_boxes())
@settings(max_examples=150)
def test_labels_of_boxes_on_facets_against_rational_arithmetic(case: tuple[Tensor, Tensor, Tensor]) -> None:
    centroids, low, high = case
    assert_sound(Tessellation(centroids), low, high, clear=0.0)


def test_sides_a_rounding_from_a_facet_are_labelled_soundly() -> None:
    """Oblique facets through corners that are as near to them as float64 allows, on either side."""
    g = exact.generator(3)
    centroids = torch.randn(2, 2, generator=g, dtype=torch.float64) + 1e4
    normal, middle = centroids[1] - centroids[0], (centroids[0] + centroids[1]) / 2
    first = middle[0] + torch.randn(300, generator=g, dtype=torch.float64)
    second = middle[1] - (first - middle[0]) * normal[0] / normal[1]
    corner = torch.stack([first, second], 1)
    step = torch.where(normal > 0, -1.0, 1.0)  # the box lies on the side of cell 0, but for its corner
    low, high = torch.minimum(corner, corner + step), torch.maximum(corner, corner + step)
    reach = [exact.reach(a, b, centroids[0], centroids[1]) for a, b in zip(low, high, strict=True)]
    assert any(r > 0 for r in reach)  # many of them do cross
    inside, touches = Tessellation(centroids).classify(low, high)
    for n, most in enumerate(reach):
        assert not inside[n, 0] or most <= 0
        assert touches[n, 1] or most < 0
    back = 1e-9 * torch.sign(normal)
    inside, _ = Tessellation(centroids).classify(low - back, high - back)
    assert inside[:, 0].all()  # and the slack is no larger than rounding asks for


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_labels_against_dense_sampling(dimensions: int) -> None:
    g = exact.generator(4)
    cells = Tessellation(torch.randn(7, dimensions, generator=g))
    low, high = random_boxes(5, 80, dimensions)
    inside, touches = cells.classify(low, high)
    share = torch.rand(80, 3000, dimensions, generator=g, dtype=torch.float64)
    a, b = low.clamp_min(-30)[:, None], high.clamp_max(30)[:, None]
    own = cells.nearest((a + share * (b - a)).flatten(0, 1)).view(80, 3000)
    seen = torch.stack([(own == k).any(1) for k in range(7)], 1)
    assert (touches | ~seen).all()
    assert (~inside | (seen & (seen.sum(1, keepdim=True) == 1))).all()
    assert inside.any()
    assert (touches.sum(1) > 1).any()


def test_known_cells_only_shrink_labels_and_stay_sound() -> None:
    """Children labelled within what their parents touch: as sharp as from scratch, monotone, and sound."""
    cells = Tessellation(torch.randn(12, 3, generator=exact.generator(6)))
    low, high = random_boxes(7, 300, 3)
    inside, touches = cells.classify(low, high)
    middle = ((low.clamp_min(-9) + high.clamp_max(9)) / 2)[:, :1].clamp(low[:, :1], high[:, :1])
    half = torch.cat([middle, high[:, 1:]], 1)
    fresh_inside, fresh_touches = cells.classify(low, half)
    child_inside, child_touches = cells.classify(low, half, touches)
    assert (child_touches <= touches).all()
    assert (child_inside >= inside).all()
    assert (child_inside >= fresh_inside).all()
    assert (child_touches >= fresh_touches).all()
    assert (child_touches != fresh_touches).double().mean() < 0.01
    sample = torch.rand(300, 500, 3, generator=exact.generator(8), dtype=torch.float64)
    a, b = low.clamp_min(-30)[:, None], half.clamp_max(30)[:, None]
    own = cells.nearest((a + sample * (b - a)).flatten(0, 1)).view(300, 500)
    assert child_touches.gather(1, own).all()
    assert (child_inside.gather(1, own) | ~child_inside.any(1, keepdim=True)).all()


def test_a_box_known_to_touch_nothing_or_one_cell() -> None:
    cells = Tessellation(torch.tensor([[-1.0], [1.0]]))
    known = torch.tensor([[False, False], [True, False]])
    box = torch.tensor([[-9.0], [-9.0]]), torch.tensor([[-8.0], [-8.0]])
    inside, touches = cells.classify(*box, known)
    assert inside.tolist() == touches.tolist() == [[False, False], [True, False]]


def test_infinite_sides_along_a_facet_cost_nothing() -> None:
    """Slabs: where the normal has no component an infinite side contributes 0, not NaN."""
    cells = Tessellation(torch.tensor([[-1.0, 0.0], [1.0, 0.0], [3.0, 0.0]]))
    low, high = (
        torch.tensor([[-INF, -INF], [0.5, -INF], [-INF, 0.0]]),
        torch.tensor([[-0.5, INF], [1.5, INF], [INF, 0.0]]),
    )
    inside, touches = cells.classify(low, high)
    assert inside.tolist() == [[True, False, False], [False, True, False], [False, False, False]]
    assert touches.tolist() == [[True, False, False], [False, True, False], [True, True, True]]


def test_a_point_on_a_facet_touches_both_cells_and_is_inside_neither() -> None:
    cells = Tessellation(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    point = torch.tensor([[0.0, 5.0]])
    inside, touches = cells.classify(point, point)
    assert inside.tolist() == [[False, False]]
    assert touches.tolist() == [[True, True]]


def test_one_cell_holds_every_box() -> None:
    inside, touches = Tessellation(torch.zeros(1, 2)).classify(
        torch.full((1, 2), -INF), torch.full((1, 2), INF)
    )
    assert inside.all()
    assert touches.all()


def test_equal_centroids_are_the_lower_index() -> None:
    cells = Tessellation(torch.tensor([[1.0], [0.0], [1.0]]))
    inside, touches = cells.classify(torch.tensor([[0.6], [0.0]]), torch.tensor([[INF], [1.0]]))
    assert inside.tolist() == [[True, False, False], [False, False, False]]
    assert touches.tolist() == [[True, False, False], [True, True, False]]


def test_bad_boxes_are_refused_by_place() -> None:
    cells = Tessellation(torch.zeros(1, 2))
    good = torch.zeros(2, 2)
    for low, high in ((1.0, 0.0), (float("nan"), 0.0), (INF, INF), (-INF, -INF)):
        a, b = good.clone(), good.clone()
        a[1, 0], b[1, 0] = low, high
        with pytest.raises(ValueError, match=r"box 1 has the empty interval .* in column 0"):
            cells.classify(a, b)
    with pytest.raises(ValueError, match=r"shape \(N, 2\)"):
        cells.classify(torch.zeros(2, 3), torch.zeros(2, 3))
    with pytest.raises(ValueError, match="cells must be bool"):
        cells.classify(good, good, torch.ones(2, 5, dtype=torch.bool))


def test_the_oracle_itself() -> None:
    low, high = torch.tensor([0.0, 1.0]), torch.tensor([2.0, INF])
    origin, right, up = torch.zeros(2), torch.tensor([2.0, 0.0]), torch.tensor([0.0, 2.0])
    assert exact.reach(low, high, origin, right) == Fraction(2)
    assert exact.reach(low, high, origin, up) == INF
    assert exact.reach(low, high, up, origin) == Fraction(0)
