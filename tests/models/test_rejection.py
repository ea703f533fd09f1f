"""Draws by rejection end: with the rows, or with an error that gives the rate."""

import pytest
import torch

from tests.models.examples import PLAIN, rows, seeded
from voronoi_circuits.models import rejection as module
from voronoi_circuits.models.rejection import BATCH, RareCellError, rejection
from voronoi_circuits.specs import VT


def source(rate: float, seed: int = 0):
    generator = seeded(seed)
    sizes: list[int] = []

    def attempt(m: int):
        sizes.append(m)
        return torch.rand(m, 2, generator=generator), torch.rand(m, generator=generator) < rate

    return attempt, sizes


@pytest.mark.parametrize("rate", [1.0, 0.3, 0.01])
def test_rows_and_rate(rate):
    attempt, sizes = source(rate)
    found = rejection(attempt, 500, "a test")
    assert found.rows.shape == (500, 2)
    assert found.acceptance == pytest.approx(rate, rel=0.2)
    assert max(sizes) <= BATCH


def test_no_rows_are_no_rows():
    assert rejection(source(0.5)[0], 0, "a test").rows.shape == (0, 2)


def test_it_gives_up_at_a_stated_cap_with_the_rate(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 10_000)
    attempt, sizes = source(0.0)
    with pytest.raises(
        RareCellError, match=r"sampling cell 7: 0 of 1\d\d\d\d draws fell into their own cells"
    ):
        rejection(attempt, 5, "cell 7")
    assert sum(sizes) <= 10_000 + BATCH


def test_the_cap_is_for_each_row(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 1000)
    assert len(rejection(source(1 / 200)[0], 50, "a test").rows) == 50


def test_a_cell_that_no_draw_reaches(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE", 5000)
    model = VT(PLAIN, 3).build(rows(), seeded())
    with torch.no_grad():
        model.placed[0].tessellation.centroids[1] = 1e6
    with pytest.raises(RareCellError, match="sampling cell 1: 0 of"):
        model.draw(3, cell=1, generator=seeded())
    assert isinstance(RareCellError("x"), ValueError)
