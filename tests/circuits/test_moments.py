"""Means, variances and flows against sums over whole paths, quadrature and draws."""

import numpy as np
import pytest
import torch

from tests.circuits.examples import GRAPHS, build, rows, seeded
from tests.oracle import nodes
from voronoi_circuits.circuits.moments import flows, root_moments
from voronoi_circuits.circuits.questions import Question
from voronoi_circuits.circuits.sampling import draw

UNGATED = [name for name in GRAPHS if "joint" not in name]


@pytest.mark.parametrize("name", UNGATED)
def test_moments_by_quadrature_of_the_marginals(name):
    circuit = build(name, experts=2)
    graph = circuit.graph
    mean, variance = root_moments(circuit)
    assert mean.shape == variance.shape == (2, graph.regions[-1].units, graph.n_variables)
    assert mean.dtype == torch.float64
    for variable in range(graph.n_variables):
        family = next(r.leaf for r in graph.regions if r.scope == (variable,) and r.leaf)
        if family == "categorical":
            points, weights = np.arange(3.0), np.ones(3)
        elif family == "histogram":
            points, weights = nodes(0, 1, np.linspace(0, 1, 33))
        else:
            points, weights = nodes(-120, 120, width=0.25)
        x = torch.full((len(points), graph.n_variables), torch.nan, dtype=torch.float64)
        x[:, variable] = torch.tensor(points)
        density = circuit(Question.density(x)).exp().detach() * torch.tensor(weights)
        first = (density * torch.tensor(points)).sum(-1)
        second = (density * (torch.tensor(points) - first.unsqueeze(-1)) ** 2).sum(-1)
        np.testing.assert_allclose(mean[..., variable], first, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(variance[..., variable], second, rtol=1e-8, atol=1e-8)


def test_variance_keeps_its_digits_far_from_the_origin():
    circuit = build("cp")
    state = circuit.state_dict()
    _, variance = root_moments(circuit)
    for key in state:
        if "location" in key:
            state[key] = (state[key] * 64).round() / 64  # so that the shift below is exact in float32
    circuit.load_state_dict(state)
    _, variance = root_moments(circuit)
    circuit.load_state_dict({k: v + 2.0**17 if "location" in k else v for k, v in state.items()})
    mean, shifted = root_moments(circuit)
    assert (mean > 1e5).all()
    torch.testing.assert_close(shifted, variance, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", ["tucker", "n-ary cp", "repetitions"])
def test_flows_are_the_shares_of_draws_that_pass_a_unit(name):
    circuit = build(name)
    graph = circuit.graph
    x = torch.tensor(rows(graph, 1))
    x[0, 0] = torch.nan
    asked = Question.density(x.expand(graph.regions[-1].units, -1))
    found = flows(circuit, list(range(graph.root)), asked)
    n = 4000
    with torch.no_grad():
        values = circuit.run(asked)
    zero = torch.zeros(n, dtype=torch.long)
    drawn = draw(circuit, values, asked, zero, zero, zero, generator=seeded(1))
    for region in range(graph.root):
        units = graph.regions[region].units
        share = torch.stack([(drawn.units[region] == u).double().mean() for u in range(units)])
        flow = found[region][0, :, 0]
        error = (flow * (1 - flow) / n).sqrt()
        assert ((share - flow).abs() <= 5 * error + 1e-9).all()


@pytest.mark.parametrize("name", UNGATED)
def test_flows_into_each_variable_sum_to_one(name):
    circuit = build(name)
    graph = circuit.graph
    leaves = [i for i, region in enumerate(graph.regions) if region.kind == "leaf"]
    found = flows(circuit, leaves, Question.everything(graph.n_variables, rows=graph.regions[-1].units))
    for variable in range(graph.n_variables):
        total = sum(found[i].sum(1) for i in leaves if graph.regions[i].scope == (variable,))
        np.testing.assert_allclose(total, 1.0, atol=1e-12)
