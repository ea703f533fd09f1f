import pytest
import torch

from voronoi_circuits.geometry import Box

INF = float("inf")


def test_sides_not_named_are_infinite() -> None:
    box = Box.of({1: (0.0, 2.0)}, dimensions=3)
    assert box.low.tolist() == [-INF, 0.0, -INF]
    assert box.high.tolist() == [INF, 2.0, INF]
    assert box.dimensions == 3
    assert box.volume() == INF


def test_closed_boxes_contain_their_faces() -> None:
    box = Box(torch.tensor([0.0, -INF]), torch.tensor([1.0, 5.0]))
    rows = torch.tensor([[0.0, 5.0], [1.0, -1e30], [1.1, 0.0], [0.5, 5.1]])
    assert box.contains(rows).tolist() == [True, True, False, False]


def test_intersection() -> None:
    a, b = Box.of({0: (0.0, 2.0)}, 2), Box.of({0: (1.0, 3.0), 1: (-1.0, INF)}, 2)
    both = a.intersect(b)
    assert both is not None
    assert both.low.tolist() == [1.0, -1.0]
    assert both.high.tolist() == [2.0, INF]
    assert a.intersect(Box.of({0: (2.5, 3.0)}, 2)) is None
    face = a.intersect(Box.of({0: (2.0, 3.0)}, 2))
    assert face is not None
    assert face.volume() == 0.0


def test_slices_keep_the_other_columns_and_vanish_outside() -> None:
    box = Box.of({0: (0.0, 1.0), 2: (2.0, 3.0)}, 3)
    rest = box.slice({0: 1.0})
    assert rest is not None
    assert rest.low.tolist() == [-INF, 2.0]
    assert rest.high.tolist() == [INF, 3.0]
    assert box.slice({0: 1.1, 2: 2.5}) is None


@pytest.mark.parametrize("side", [(1.0, 0.0), (float("nan"), 1.0), (INF, INF), (-INF, -INF)])
def test_an_empty_interval_is_refused_by_column(side: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"the box has the empty interval .* in column 1"):
        Box.of({1: side}, 2)


def test_bad_shapes_and_columns_are_refused() -> None:
    with pytest.raises(ValueError, match="the box names column 2; columns go from 0 to 1"):
        Box.of({2: (0.0, 1.0)}, 2)
    with pytest.raises(ValueError, match="shape"):
        Box(torch.zeros(1, 2), torch.ones(1, 2))
    with pytest.raises(ValueError, match="shape"):
        Box(torch.zeros(2), torch.ones(3))
