"""Section 3.2: hierarchical factorized Voronoi circuits, exact and at the cost that is stated."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from tests import oracle
from tests.paper.counting import written
from tests.paper.scenes import build, rows
from voronoi_circuits.circuits import layers
from voronoi_circuits.circuits.region_graph import Region, RegionGraph, StructureError
from voronoi_circuits.models import HFVModel, Kind
from voronoi_circuits.specs import HFV, Circuit

TRIPLE = RegionGraph((
    *(Region((v,), 1, "leaf", leaf="gaussian") for v in range(3)),
    Region((0, 1, 2), 1, "cp", (0, 1, 2)),
))  # fmt: skip


def grid(model: HFVModel, reach: float, width: float, order: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Nodes (N, D) and weights that break at every cell's edge."""
    axes, weights = [], []
    for variable in range(model.n_variables):
        leaf = next(
            k for k in model.intervals if model.experts.circuit.graph.regions[int(k)].scope == (variable,)
        )
        edges = model.interval_cells(int(leaf)).edges()[1][0, :-1].tolist()
        x, w = oracle.nodes(-reach, reach, edges, width, order)
        axes.append(torch.tensor(x))
        weights.append(torch.tensor(w))
    return torch.cartesian_prod(*axes), torch.cartesian_prod(*weights).prod(1)


@pytest.mark.parametrize("n_variables", [2, 3, 5])
@pytest.mark.parametrize("units_per_cell", [1, 2])
def test_definition_hfv_gated_sum_node(n_variables: int, units_per_cell: int) -> None:
    """f(x) = Σ_k Π_i g^i_{k_i}(x_i) π_k Π_i p^i_{k_i}(x_i), by loops over the joint cells."""
    model = build(HFV(Circuit(units=2), cells=3, units_per_cell=units_per_cell), n_variables, n_variables)
    x = rows(1, 100, n_variables)
    truth = torch.from_numpy(oracle.hfv_log_f(model, x.numpy()))
    torch.testing.assert_close(model.log_unnormalized(x), truth, rtol=1e-11, atol=1e-11)


def test_definition_binary_hfv() -> None:
    """Every gated sum of a binary HFV has two factors, and each row lies in one joint cell of K_L × K_R."""
    model = build(HFV(Circuit(units=2), cells=3), 5, 2)
    regions = model.experts.circuit.graph.regions
    assert {len(regions[i].children) for i in model.joint_regions} == {2}
    assert len(model.joint_regions) == 4
    cells = model.cells(rows(3, 200, 5))
    assert int(cells.max()) < 9
    assert model.n_cells == 9


@pytest.mark.parametrize("n_variables", [2, 3])
def test_theorem_tractability_of_hfv_partition_function(n_variables: int) -> None:
    """log Z of the one pass is that of quadrature over all of space."""
    cells = 3 if n_variables == 2 else 2
    model = build(HFV(Circuit(units=2), cells=cells, units_per_cell=2), n_variables, 4)
    assert model.exactness.kind is Kind.EXACT
    x, w = grid(model, 8.0, 1.0 if n_variables == 2 else 2.0, 12)
    with torch.no_grad():
        total = torch.stack(
            [
                (model.log_unnormalized(a).exp() * b).sum()
                for a, b in zip(x.split(100_000), w.split(100_000), strict=True)
            ]
        ).sum()
        assert model.log_partition().item() == pytest.approx(total.log().item(), abs=1e-8)


def test_theorem_tractability_of_hfv_marginals_and_conditionals() -> None:
    """log p(x_0, x_1) and log p(x_2 | x_0, x_1) against quadrature over x_2, in three variables."""
    model = build(HFV(Circuit(units=2), cells=3, units_per_cell=2), 3, 5)
    x = rows(6, 5, 3)
    leaf = next(k for k in model.intervals if model.experts.circuit.graph.regions[int(k)].scope == (2,))
    t, w = oracle.nodes(-9, 9, model.interval_cells(int(leaf)).edges()[1][0, :-1].tolist())
    z = model.log_partition().item()
    seen = x.clone()
    seen[:, 2] = torch.nan
    marginal, conditional = model.log_marginal(seen), model.log_conditional(x, [0, 1])
    for i in range(len(x)):
        line = x[i].repeat(len(t), 1)
        line[:, 2] = torch.tensor(t)
        truth = np.log(w @ model.log_unnormalized(line).exp().detach().numpy()) - z
        assert marginal[i].item() == pytest.approx(truth, abs=1e-9)
        assert conditional[i].item() == pytest.approx(
            model.log_unnormalized(x)[i].item() - z - truth, abs=1e-9
        )


class JointCells:
    """Counts the joint cells that gated sums meet."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.met = 0
        route_cells = layers.route_cells

        def counted(joint: Any, *rest: Any) -> Any:
            self.met += joint.shape[2] * joint.shape[-1]
            return route_cells(joint, *rest)

        monkeypatch.setattr(layers, "route_cells", counted)

    def of(self, work: Any) -> int:
        self.met = 0
        work()
        return self.met


@pytest.mark.parametrize(("factors", "gated_sums"), [(2, 3), (3, 1)])
def test_theorem_tractability_of_hfv_cost(
    factors: int, gated_sums: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each gated sum meets K^m joint cells, once a pass: K² for two factors, K³ for three."""
    counter, seen = JointCells(monkeypatch), []
    for cells in (2, 3, 5, 8):
        circuit = Circuit(TRIPLE) if factors == 3 else Circuit(units=1)
        model = build(HFV(circuit, cells=cells), 3 if factors == 3 else 4, 7)
        assert len(model.joint_regions) == gated_sums
        one = gated_sums * cells**factors
        row = torch.full((1, model.n_variables), 0.3, dtype=torch.float64)
        row[0, 1] = torch.nan
        assert counter.of(model.log_partition) == one
        assert counter.of(lambda m=model, r=row: m.ask(r)) == one
        assert counter.of(lambda m=model, r=row: m.log_marginal(r)) == 2 * one  # and the partition function
        assert counter.of(lambda m=model, r=row: m.log_conditional(r, [0])) == 4 * one
        seen.append(one)
    assert seen == [gated_sums * k**factors for k in (2, 3, 5, 8)]


def test_theorem_tractability_of_hfv_cost_in_numbers_written() -> None:
    """What one pass writes grows like |C|: in proportion to the variables; and like K² at most."""

    def cost(n_variables: int, cells: int) -> int:
        model = build(HFV(Circuit(units=1), cells=cells), n_variables, 8)
        x = torch.full((1000, n_variables), torch.nan, dtype=torch.float64)
        return written(lambda: model.ask(x))

    by_cells = [cost(2, k) for k in (4, 8, 16)]
    assert all(b < 4.2 * a for a, b in pairwise(by_cells))
    assert by_cells[2] > 2.5 * by_cells[1]
    by_size = [cost(d, 4) for d in (4, 8, 16)]
    assert all(b < 2.6 * a for a, b in pairwise(by_size))


def test_hfv_on_chosen_levels() -> None:
    """Gates on chosen levels are exact too; a gated level above an ungated one is refused by name."""
    model = build(HFV(Circuit("einet", units=2), cells=2, levels=[1]), 4, 9)
    assert model.exactness.kind is Kind.EXACT
    x = rows(10, 50, 4)
    truth = torch.from_numpy(oracle.hfv_log_f(model, x.numpy()))
    torch.testing.assert_close(model.log_unnormalized(x), truth, rtol=1e-11, atol=1e-11)
    with pytest.raises(StructureError, match="region"):
        build(HFV(Circuit("einet", units=2), cells=2, levels=[0]), 4, 9)
