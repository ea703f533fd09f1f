"""One expert a row: tiles give what a dense pass gives, and touch nobody else."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.examples import PLAIN, points, rows, seeded
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.models.gates import hard_gates
from voronoi_circuits.models.tiles import tile
from voronoi_circuits.specs import VT


@given(st.lists(st.integers(0, 6), min_size=1, max_size=200), st.integers(1, 9))
def test_tiles_lay_out_every_row_once_with_its_owner(owner, largest):
    owner = torch.tensor(owner)
    tiles = tile(owner, 7, largest)
    flat = tiles.rows.flatten()
    assert tiles.rows.shape[1] <= largest
    assert torch.equal(flat[tiles.places], torch.arange(len(owner)))
    assert torch.equal(owner[tiles.rows], tiles.owners.unsqueeze(1).expand_as(tiles.rows))
    assert len(tiles.places.unique()) == len(owner)
    used = torch.bincount(owner, minlength=7)
    assert len(tiles.owners) <= int((used > 0).sum()) + len(owner) // tiles.rows.shape[1]


@pytest.mark.parametrize("cells", [1, 3, 40])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_tiles_equal_the_dense_pass(cells, dtype):
    model = VT(PLAIN, cells).build(rows(), seeded())
    x = points("vt", 300, dtype=dtype)
    dense = model.experts.total(Question(x, complete=True), hard_gates(model.placed, x))
    tolerance = 1e-12 if dtype == torch.float64 else 2e-5
    torch.testing.assert_close(model.log_unnormalized(x), dense, rtol=tolerance, atol=tolerance)


def test_hard_evaluation_touches_only_the_owner():
    model = VT(PLAIN, 6).build(rows(), seeded())
    x = points("vt", 400)
    cells = model.placed[0].cells(x)
    for owner in range(6):
        mine = x[cells == owner]
        assert len(mine)
        model.zero_grad()
        model.log_unnormalized(mine).sum().backward()
        for parameter in model.experts.circuit.parameters():
            used = parameter.grad.flatten(1).abs().sum(1) > 0
            assert used.nonzero().flatten().tolist() in ([owner], [])
        assert any(p.grad[owner].abs().sum() > 0 for p in model.experts.circuit.parameters())


def test_parameters_of_other_experts_are_never_read():
    """NaN in them would spread wherever they enter a computation."""
    model = VT(PLAIN, 6).build(rows(), seeded())
    x = points("vt", 400)
    cells = model.placed[0].cells(x)
    before = model.log_unnormalized(x).detach()
    with torch.no_grad():
        for parameter in model.experts.circuit.parameters():
            parameter[2] = torch.nan
    after = model.log_unnormalized(x)
    assert torch.equal(after.isnan(), cells == 2)
    assert torch.equal(after[cells != 2], before[cells != 2])


def test_gradients_equal_those_of_the_dense_pass():
    model = VT(PLAIN, 5).build(rows(), seeded())
    x = points("vt", 100)
    found = []
    for values in (
        model.log_unnormalized(x),
        model.experts.total(Question(x, complete=True), hard_gates(model.placed, x)),
    ):
        model.zero_grad()
        values.sum().backward()
        found.append([p.grad.clone() for p in model.experts.parameters()])
    for sparse, dense in zip(*found, strict=True):
        torch.testing.assert_close(sparse, dense, rtol=1e-5, atol=1e-5)
