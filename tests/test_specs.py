"""Specifications: what they build, and what they say about a mistake."""

import pytest
import torch
from sklearn.base import clone

from tests.models.examples import PAIRS, PLAIN, SPECS, TRIPLE, is_discrete, rows, seeded
from voronoi_circuits.certificates.sites import sites
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.structures import hfv_graph
from voronoi_circuits.models.exact import CircuitModel, MixtureModel
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import (
    CATEGORIES,
    HFV,
    VT,
    Circuit,
    Mixture,
    Specification,
    continuous,
    leaf_options,
    membership,
)

X = rows()
ONE = RegionGraph((Region((0,), 2, "leaf", leaf="gaussian"), Region((0,), 1, "sum", (0,))))
TWO_OF_A_SCOPE = RegionGraph((
    *(Region((v,), 2, "leaf", leaf="gaussian") for v in (0, 1, 0, 1, 2)),
    Region((0, 1), 2, "tucker", (0, 1)), Region((0, 1), 2, "tucker", (2, 3)),
    Region((0, 1), 2, "sum", (5, 6)), Region((0, 1, 2), 1, "tucker", (7, 4)),
))  # fmt: skip
GATED = hfv_graph(PAIRS, cells=2)
BUILDS = {Circuit: CircuitModel, Mixture: MixtureModel, VT: VTModel, HFV: HFVModel}


@pytest.mark.parametrize("name", SPECS)
def test_parameters_are_scikit_learns_and_building_changes_nothing(name):
    spec = SPECS[name]
    before = repr(sorted(spec.get_params(deep=True).items(), key=str))
    model = clone(spec).build(rows(discrete=is_discrete(name)), seeded())
    assert type(model) is BUILDS[type(spec)]
    assert repr(sorted(spec.get_params(deep=True).items(), key=str)) == before
    assert set(clone(spec).get_params()) == set(spec.get_params())


def test_nested_parameters_are_reached():
    spec = VT(Circuit(units=3), 4).set_params(expert__units=7, cells=2)
    assert spec.expert.units == 7
    model = spec.build(X, seeded())
    assert model.experts.circuit.graph.regions[0].units == 7
    assert model.n_cells == 2
    assert VT(Circuit(units=3), 4, shared=True).build(X, seeded()).experts.circuit.n_experts == 1
    assert VT(Circuit(units=3), 4).build(X, seeded()).experts.circuit.n_experts == 4


def test_a_specification_says_how_it_is_built():
    with pytest.raises(TypeError, match="abstract"):
        Specification()


def test_a_generator_is_not_needed():
    for spec in (Circuit("einet"), Mixture(components=2), VT(Circuit(units=2), 2), HFV(Circuit(units=2), 2)):
        assert spec.build(X).n_variables == 3


def test_a_mixture_of_codes_alone():
    codes = torch.randint(0, 3, (60, 2), generator=seeded()).float()
    spec = Circuit(units=2, leaf="categorical")
    model = Mixture(spec, 2).build(codes, seeded())
    assert model.log_prob(codes).isfinite().all()
    with pytest.raises(ValueError, match="a gate reads continuous columns and it has none"):
        VT(spec, 2).build(codes, seeded())


@pytest.mark.parametrize("structure", ["hclt", "einet"])
def test_categorical_columns_are_found_by_column_and_not_by_region(structure):
    """Regions are numbered otherwise than columns: a column of 7 codes keeps 7, the real ones none."""
    x = torch.randn(200, 4, generator=seeded())
    x[:, 2] = torch.randint(0, 7, (200,), generator=seeded()).float()
    x[0, 2] = 6.0
    graph = Circuit(structure, units=2, leaf={2: "categorical"}).graph(x, seeded())
    assert leaf_options(graph, x) == {2: {"categories": 7}}
    assert continuous(graph) == [0, 1, 3]


def test_membership_gives_every_expert_some_weight_everywhere():
    weights = membership(torch.tensor([0, 2, 2]), 4)
    assert weights.shape == (4, 3)
    assert (weights > 0).all()
    assert weights[2, 1] > 1000 * weights[2, 0]
    assert torch.allclose(weights[1], weights[1].mean())  # of an expert without rows


MISTAKES = {
    "structure": (Circuit("hclts"), r"unknown structure 'hclts' \(did you mean 'hclt'\?\)"),
    "structure, einet": (Circuit("einsum"), "use one of 'hclt', 'einet'"),
    "structure, no name": (Circuit(5), "unknown structure 5; use one of"),
    "product": (Circuit(product="tuker"), "did you mean 'tucker'"),
    "leaf": (Circuit(leaf="gausian"), "did you mean 'gaussian'"),
    "leaf of a column": (Circuit(leaf={1: "histogramm"}), "did you mean 'histogram'"),
    "leaf column": (Circuit(leaf={9: "gaussian"}), "leaf names column 9; the columns are 0 to 2"),
    "units": (Circuit(units=0), "units must be a whole number of at least 1, not 0"),
    "units, real": (Circuit(units=2.5), "units must be a whole number of at least 1, not 2.5"),
    "units, bool": (Circuit(units=True), "units must be a whole number of at least 1, not True"),
    "repetitions": (Circuit("einet", repetitions=0), "repetitions must be a whole number"),
    "repetitions, hclt": (Circuit(repetitions=2), "repetitions is for structure='einet'"),
    "units, own graph": (Circuit(PAIRS, units=-5), "units must be a whole number of at least 1, not -5"),
    "product, own graph": (Circuit(PAIRS, product="nonsense"), "unknown product 'nonsense'"),
    "leaf, own graph": (Circuit(PAIRS, leaf="bogus"), "unknown leaf 'bogus'"),
    "leaf column, own graph": (Circuit(PAIRS, leaf={3: "gaussian"}), "leaf names column 3"),
    "repetitions, own graph": (Circuit(PAIRS, repetitions=7), "repetitions is for structure='einet'"),
    "gated, circuit": (Circuit(GATED), r"region 0 \(leaf over variable 0\): it is gated already"),
    "gated, mixture": (Mixture(Circuit(GATED), 2), "it is gated already"),
    "gated, vt": (VT(Circuit(GATED), 2), "it is gated already"),
    "gated, hfv": (HFV(Circuit(GATED), 2), "it is gated already"),
    "variables": (Circuit(ONE),
                  "structure has 1 variables and the rows 3 columns"),
    "components": (Mixture(components=-1), "components must be a whole number of at least 1, not -1"),
    "components and rows": (Mixture(components=201), "components=201 is more than the 200 rows"),
    "cells": (VT(cells=0), "cells must be a whole number of at least 1, not 0"),
    "cells and rows": (VT(cells=1000), "cells=1000 is more than the 200 rows"),
    "cells of hfv": (HFV(cells=300), "cells=300 is more than the 200 rows"),
    "cells of a column": (HFV(Circuit(TRIPLE), {0: 300, 1: 2, 2: 2}), "cells=300 is more than the 200 rows"),
    "cells, zero in a column": (HFV(Circuit(TRIPLE), {0: 0, 1: 2, 2: 2}), "cells must be a whole number"),
    "cells, a scope too many": (HFV(Circuit(TRIPLE), {0: 2, 1: 2, 2: 2, (0, 1): 2}), "of no gated factor"),
    "units per cell": (HFV(units_per_cell=0), "units_per_cell must be a whole number"),
    "levels": (HFV(Circuit(units=2), levels="some"), "unknown levels 'some'"),
    "expert": (VT(expert="hclt"), "expert must be a vc.Circuit, not str"),
    "gate_at": (VT(Circuit(PAIRS), 2, gate_at="rot"), r"unknown gate_at 'rot' \(did you mean 'root'\?\)"),
    "gate_at, unknown": (VT(Circuit(PAIRS), 2, gate_at=(1, 2)), r"names the columns \(1, 2\), which are no"),
    "gate_at, twice": (VT(Circuit(PAIRS), 2, gate_at=[(0, 1), (1, 0)]), "names one region twice"),
    "gate_at, root": (VT(Circuit(PAIRS), 2, gate_at=["root", (0, 1, 2)]), "names one region twice"),
    "gate_at, empty": (VT(Circuit(PAIRS), 2, gate_at=[]), r"gate_at is \[\]: name \"root\""),
    "gate_at, a number": (VT(Circuit(PAIRS), 2, gate_at=0.5), "gate_at is 0.5: name"),
    "gate_at, repetitions": (VT(Circuit("einet", repetitions=4), 2, gate_at=0), "set repetitions=1"),
    "gate_at, own graph": (VT(Circuit(TWO_OF_A_SCOPE), 2, gate_at=(0, 1)), "3 regions: name another scope"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_are_named(mistake):
    spec, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        spec.build(X, seeded())


@pytest.mark.parametrize("value", [0.5, -1.0])
def test_a_column_that_holds_no_codes(value):
    x = X.clone()
    x[:, 1] = 1.0
    x[7, 1] = value
    with pytest.raises(ValueError, match="column 1 is categorical: its values must be codes 0, 1, 2"):
        Circuit(leaf={1: "categorical"}).build(x, seeded())


ROWS = {
    "numpy": (X.numpy(), r"X must be a tensor .* not ndarray: use torch.as_tensor\(X, dtype=torch.float32\)"),
    "one column": (X[:, 0], r"X has shape \(200,\): give rows by columns, .* X.unsqueeze\(1\)"),
    "no column": (X[:, :0], r"X has shape \(200, 0\)"),
    "whole numbers": (X.long(), r"X must be floating point, not torch.int64: call .float\(\) first"),
    "empty": (X[:0], "X has no rows"),
    "nan": (torch.where(X[7, 2] == X, torch.nan, X), "column 2 of X is nan in row 7"),
    "inf": (torch.where(X[5, 0] == X, -torch.inf, X), "column 0 of X is -inf in row 5"),
}  # fmt: skip


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("spec", [Circuit(PAIRS), Circuit(), Mixture(PLAIN, 2), VT(PLAIN, 2), HFV(PLAIN, 2)])
def test_rows_that_nothing_can_be_built_from(spec, rows):
    x, message = ROWS[rows]
    with pytest.raises(ValueError, match=message):
        spec.build(x, seeded())


@pytest.mark.parametrize("spec", ["hclt", "einet"])
def test_a_column_of_too_many_categories(spec):
    x = X.clone()
    x[:, 1] = 1.0
    x[3, 1] = CATEGORIES - 1
    most = Circuit(spec, units=1, leaf={1: "categorical"})
    assert most.build(x, seeded()).n_parameters > CATEGORIES
    x[3, 1] = 5e6
    with pytest.raises(ValueError, match="column 1 is categorical and holds the code 5000000: codes go"):
        most.build(x, seeded())


def test_places_of_gates():
    spec = VT(Circuit(PAIRS), 2, gate_at=[(1, 0), 2, "root"])
    model = spec.build(X, seeded())
    assert [gate.variables for gate in model.placed] == [(0, 1, 2), (0, 1), (2,)]
    assert [len(site.all_below()) for site in sites(model)] == [2]
    leaf = VT(Circuit(PAIRS), 2, gate_at=2).build(X, seeded())
    assert [gate.variables for gate in leaf.placed] == [(2,)]
    assert leaf.sample(20, seeded()).shape == (20, 3)
