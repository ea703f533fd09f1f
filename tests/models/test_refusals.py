"""What a model refuses, because no density and no bound could answer for it."""

import math

import numpy as np
import pytest
import torch

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.region_graph import StructureError
from voronoi_circuits.circuits.structures import hfv_graph, hidden_chow_liu, random_binary_tree
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.rejection import RareCellError
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import HFV, VT, Circuit


def seed():
    return torch.Generator().manual_seed(0)


ROWS = torch.randn(300, 3, generator=seed())


def two_cells(dimensions):
    return Tessellation(torch.arange(2.0).unsqueeze(1).expand(2, dimensions).clone())


def circuit(leaf="gaussian"):
    graph = random_binary_tree(3, units=2, roots=2, leaf=leaf, generator=seed())
    return FoldedCircuit(graph, 1, {0: {"categories": 3}} if leaf != "gaussian" else None)


@pytest.mark.parametrize("variables", [[0, 0], [0, 1, 7], [0]])
def test_a_gate_reads_variables_of_its_own_region_each_once(variables):
    made = circuit()
    root = len(made.graph.regions) - 1
    dimensions = 2 if len(variables) < 3 else 3
    with pytest.raises(StructureError, match="reads variables of its own region, each once"):
        VTModel(made, [VoronoiGate(root, variables, two_cells(dimensions))])


def test_a_gate_below_the_root_reads_no_variable_beside_its_region():
    made = circuit()
    leaf = next(i for i, region in enumerate(made.graph.regions) if region.kind == "leaf")
    other = next(v for v in range(3) if v not in made.graph.regions[leaf].scope)
    with pytest.raises(StructureError, match=rf"region {leaf} \(leaf over variable"):
        VTModel(made, [VoronoiGate(leaf, [other], two_cells(1))])


def test_a_gate_reads_no_categorical_column():
    made = circuit(["categorical", "gaussian", "gaussian"])
    with pytest.raises(StructureError, match="categorical column 0"):
        VTModel(made, [VoronoiGate(made.graph.root, [0, 1, 2], two_cells(3))])


def test_a_vt_model_has_a_gate_and_a_region_one():
    made = circuit()
    with pytest.raises(ValueError, match="needs a gate"):
        VTModel(made, [])
    gate = VoronoiGate(made.graph.root, [0, 1, 2], two_cells(3))
    with pytest.raises(ValueError, match="two gates sit on one region"):
        VTModel(made, [gate, gate])


def test_hfv_is_exact_only_where_every_region_of_cells_has_them():
    graph = hfv_graph(hidden_chow_liu([-1, 0], units=2), cells=3)
    with pytest.raises(StructureError, match="3 cells and a partition into 0"):
        HFVModel(FoldedCircuit(graph), {}, {})


@pytest.mark.parametrize(
    "spec", [Circuit(units=2), HFV(Circuit(units=2), cells=2), VT(Circuit(units=2), cells=2)]
)
def test_a_domain_holds_mass_and_evidence_lies_in_it(spec):
    model = spec.build(ROWS, seed())
    with pytest.raises(ValueError, match="holds no mass"):
        model.truncate({0: (1.0, 1.0)})
    narrow = model.truncate({0: (-1.0, 1.0)})
    outside = torch.tensor([[5.0, math.nan, math.nan]])
    draw = (lambda: narrow.draw(1, given=outside[0])) if isinstance(narrow, VTModel) else None
    with pytest.raises(ValueError, match="row 0 of the evidence has no probability here"):
        (draw or (lambda: narrow.sample_given(outside)))()


def test_evidence_that_an_expert_rules_out_draws_nothing():
    model = VT(Circuit(units=2, leaf={0: "histogram"}), cells=2).build(ROWS, seed())
    far = torch.tensor([99.0, math.nan, math.nan])
    with pytest.raises(ValueError, match="no probability here"):
        model.draw(1, cell=0, given=far, generator=seed())


def test_a_rare_cell_ends_at_the_cap_with_its_rate():
    model = VT(Circuit(units=2), cells=2).build(ROWS, seed())
    with torch.no_grad():
        centroids = model.placed[0].tessellation.centroids
        centroids[0], centroids[1] = torch.zeros(3), torch.tensor([40.0, 0.0, 0.0])
    with pytest.raises(RareCellError, match=r"sampling cell 1: \d+ of \d+ draws fell into their own cells"):
        model.draw(1000, cell=1, generator=seed())


def test_conditionals_on_what_cannot_happen_name_the_row():
    model = Circuit(units=2, leaf="histogram").build(ROWS, seed())
    far = torch.tensor([[0.0, 0.0, 0.0], [99.0, 0.0, 0.0]])
    with pytest.raises(ValueError, match="row 1 of the evidence has no probability"):
        model.log_conditional(far, given=[0])
    with pytest.raises(ValueError, match="row 0 has no value in the given column 0"):
        model.log_conditional(torch.tensor([[math.nan, 0.0, 0.0]]), given=[0])


def test_rows_are_finite_tensors():
    model = Circuit(units=2).build(ROWS, seed())
    with pytest.raises(ValueError, match="must be a tensor, not ndarray"):
        model.log_prob(np.zeros((1, 3)))
    with pytest.raises(ValueError, match="column 1 has infinite values"):
        model.log_prob(torch.tensor([[0.0, math.inf, 0.0]]))
    with pytest.raises(ValueError, match="at least 0 draws"):
        model.sample(-1)


def test_many_rows_on_a_facet_are_bounded_together():
    model = VT(Circuit(units=2), cells=2).build(ROWS, seed())
    with torch.no_grad():
        model.placed[0].tessellation.centroids.copy_(torch.tensor([[-1.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    rows = ROWS.double().clone()
    rows[:, 0] = 0.0
    low, high = model.log_unnormalized_bounds(rows)
    each = torch.stack([model.routed(rows, torch.full((len(rows),), k)) for k in (0, 1)])
    assert (low <= each.amin(0)).all()
    assert (high >= each.amax(0)).all()
    assert torch.allclose(low, each.amin(0), rtol=1e-12)
    assert torch.allclose(high, each.amax(0), rtol=1e-12)
