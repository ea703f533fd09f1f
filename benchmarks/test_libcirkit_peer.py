"""The peer computes what its parameters say: against explicit loops, on libcirkit's own region graphs."""

from math import exp, log, pi, sqrt

import numpy as np
import pytest
import torch

pytest.importorskip("cirkit")

from cirkit.symbolic.layers import GaussianLayer
from cirkit.templates.region_graph import ChowLiuTree, RandomBinaryTree, RegionGraph
from cirkit.templates.utils import Parameterization, name_to_input_layer_factory, parameterization_to_factory
from cirkit.utils.scope import Scope

from benchmarks.libcirkit_peer import (
    LARGEST_DEVIATION,
    SMALLEST_DEVIATION,
    compiled,
    libcirkit_circuit,
    random_parameters,
    training_step,
)

STRUCTURES = {"einet": "tucker", "hclt": "cp"}


def libcirkit_graph(structure, n_variables, seed=0):
    if structure == "einet":
        return RandomBinaryTree(n_variables, seed=seed)
    rows = np.random.default_rng(seed).normal(size=(200, n_variables)).cumsum(axis=1)
    return ChowLiuTree(torch.tensor(rows), input_type="gaussian")


def plain_regions(graph: RegionGraph, kind, units):
    """libcirkit's region graph as the records of our region graph, a root of one unit on top."""
    regions, position = [], {}
    for node in graph.topological_ordering():
        if node not in set(graph.region_nodes):
            continue
        below = [child for split in graph.region_inputs(node) for child in graph.partition_inputs(split)]
        is_root = not graph.region_outputs(node)
        regions.append(
            {
                "scope": tuple(sorted(node.scope)),
                "units": 1 if is_root and kind == "tucker" else units,
                "kind": kind if below else "leaf",
                "children": tuple(position[child] for child in below),
            }
        )
        position[node] = len(regions) - 1
    if kind == "cp":
        regions.append(regions[-1] | {"units": 1, "kind": "sum", "children": (len(regions) - 1,)})
    return regions


def log_likelihood_by_loops(regions, parameters, row):
    values = []
    for r, region in enumerate(regions):
        below = [values[child] for child in region["children"]]
        value = []
        for o in range(region["units"]):
            if region["kind"] == "leaf":
                m, s = parameters["mean", r][o], parameters["stddev", r][o]
                z = (row[region["scope"][0]] - m) / s
                value.append(exp(-z * z / 2) / (s * sqrt(2 * pi)))
            elif region["kind"] == "sum":
                mixed = [v for child in below for v in child]
                value.append(sum(w * v for w, v in zip(parameters["weight", r][o], mixed, strict=True)))
            elif region["kind"] == "cp":
                product = 1.0
                for child, v in zip(region["children"], below, strict=True):
                    product *= sum(parameters["weight", r, child][o, i] * v[i] for i in range(len(v)))
                value.append(product)
            else:
                left, right = below
                weight = parameters["weight", r]
                pairs = [(i, j) for i in range(len(left)) for j in range(len(right))]
                value.append(sum(weight[o, i, j] * left[i] * right[j] for i, j in pairs))
        values.append(value)
    return log(values[-1][0])


def layers(model):
    """What a compiled circuit computes, layer by layer, in no particular order."""
    found = model.circuit.layers
    return sorted((type(part).__name__, part.num_folds, part.arity, part.num_output_units) for part in found)


def parameter_shapes(model):
    return sorted(tuple(p.shape) for p in model.parameters())


def own_circuit(graph, kind, units):
    """The circuit that a user of libcirkit builds from its region graph."""
    weights = parameterization_to_factory(Parameterization(activation="softmax", initialization="normal"))
    return compiled(
        graph.build_circuit(
            input_factory=name_to_input_layer_factory("gaussian"),
            sum_product=kind,
            sum_weight_factory=weights,
            num_input_units=units,
            num_sum_units=units,
        )
    )


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("n_variables", [2, 3, 6])
@pytest.mark.parametrize("units", [5, 10])
def test_the_same_numbers_as_explicit_loops(structure, n_variables, units):
    generator = np.random.default_rng([n_variables, units])
    for seed in range(3):
        graph = libcirkit_graph(structure, n_variables, seed)
        regions = plain_regions(graph, STRUCTURES[structure], units)
        parameters = random_parameters(regions, generator)
        rows = generator.normal(size=(4, n_variables))
        ours = [log_likelihood_by_loops(regions, parameters, row) for row in rows]
        theirs = libcirkit_circuit(regions, parameters, torch.float64)(torch.tensor(rows))
        np.testing.assert_allclose(theirs.detach().numpy(), ours, rtol=1e-10, atol=1e-10)


def test_one_variable_and_repetitions():
    generator = np.random.default_rng(0)
    leaf = {"scope": (0,), "units": 4, "kind": "leaf", "children": ()}
    one_variable = [leaf, leaf | {"units": 1, "kind": "sum", "children": (0,)}]
    pair = {"scope": (0, 1), "units": 4, "kind": "tucker"}
    repeated = [leaf, leaf | {"scope": (1,)}, leaf, leaf | {"scope": (1,)}]
    repeated += [pair | {"children": (0, 1)}, pair | {"children": (3, 2)}]
    repeated += [pair | {"units": 1, "kind": "sum", "children": (4, 5)}]
    for regions in (one_variable, repeated):
        parameters = random_parameters(regions, generator)
        rows = generator.normal(size=(4, len(regions[-1]["scope"])))
        ours = [log_likelihood_by_loops(regions, parameters, row) for row in rows]
        theirs = libcirkit_circuit(regions, parameters, torch.float64)(torch.tensor(rows))
        np.testing.assert_allclose(theirs.detach().numpy(), ours, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_a_permuted_weight_is_noticed(structure):
    generator = np.random.default_rng(0)
    regions = plain_regions(libcirkit_graph(structure, 6), STRUCTURES[structure], 5)
    parameters = random_parameters(regions, generator)
    rows = torch.tensor(generator.normal(size=(4, 6)))
    before = libcirkit_circuit(regions, parameters, torch.float64)(rows)
    for key, value in parameters.items():
        turned = parameters | {key: np.swapaxes(value, 1, 2) if value.ndim == 3 else value[..., ::-1].copy()}
        assert (libcirkit_circuit(regions, turned, torch.float64)(rows) - before).abs().max() > 1e-6


@pytest.mark.parametrize("structure", STRUCTURES)
@pytest.mark.parametrize("n_variables", [2, 3, 6])
def test_the_same_layers_as_libcirkit_builds_itself(structure, n_variables):
    kind, graph = STRUCTURES[structure], libcirkit_graph(structure, n_variables)
    regions = plain_regions(graph, kind, 5)
    ours = libcirkit_circuit(regions, random_parameters(regions, np.random.default_rng(0)))
    theirs = own_circuit(graph, kind, 5)
    assert layers(ours) == layers(theirs)
    assert parameter_shapes(ours) == parameter_shapes(theirs)


def test_deviations_are_scaled_as_libcirkit_scales_them():
    scaled = GaussianLayer(Scope([0]), 3).stddev.output
    assert (scaled.vmin, scaled.vmax) == (SMALLEST_DEVIATION, LARGEST_DEVIATION)


@pytest.mark.parametrize("structure", STRUCTURES)
def test_training_moves_every_parameter_and_lowers_the_loss(structure):
    generator = np.random.default_rng(0)
    regions = plain_regions(libcirkit_graph(structure, 3), STRUCTURES[structure], 5)
    model = libcirkit_circuit(regions, random_parameters(regions, generator))
    rows = torch.tensor(generator.normal(size=(500, 3)), dtype=torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    before = [p.detach().clone() for p in model.parameters()]
    losses = [training_step(model, optimizer, rows).item() for _ in range(20)]
    assert losses[-1] < losses[0]
    assert all((p != q).any() for p, q in zip(model.parameters(), before, strict=True))
    assert torch.get_default_dtype() == torch.float32


def test_what_libcirkit_cannot_express_is_refused():
    regions = plain_regions(libcirkit_graph("einet", 2), "tucker", 5)
    parameters = random_parameters(regions, np.random.default_rng(0))
    with pytest.raises(ValueError, match="leaf region 0 has a deviation outside"):
        libcirkit_circuit(regions, parameters | {("stddev", 0): np.full(5, 1.5)})
    with pytest.raises(ValueError, match="region 2 is of kind 'joint'"):
        libcirkit_circuit([*regions[:-1], regions[-1] | {"kind": "joint"}], parameters)
    uneven = [regions[0] | {"units": 4}, *regions[1:]]
    with pytest.raises(ValueError, match=r"region 2 has children of \[4, 5\] units"):
        libcirkit_circuit(uneven, random_parameters(uneven, np.random.default_rng(0)))
