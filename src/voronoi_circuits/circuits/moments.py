"""Means and variances of every root, from one backward pass.

# E experts, R roots, D variables, U units

The derivative of a root's log value by the log value of a leaf unit is the unit's flow: the probability that
a draw from the root comes through it. Moments of a variable are flows times moments of leaves.
"""

from __future__ import annotations

import torch
from torch import Tensor

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Gates, Question, ValueGate


def flows(circuit: FoldedCircuit, regions: list[int], question: Question) -> dict[int, Tensor]:
    """d log root r / d log unit u of each region, (E, U, R); root r is asked the question's row r.

    >>> from voronoi_circuits.circuits.structures import random_binary_tree
    >>> circuit = FoldedCircuit(random_binary_tree(2, units=3, generator=torch.Generator().manual_seed(0)))
    >>> flow = flows(circuit, [0], Question.everything(2))[0]
    >>> flow.shape, round(flow.sum().item(), 6)
    (torch.Size([1, 3, 1]), 1.0)
    """
    shift: dict[int, Tensor] = {}

    def tap(region: int) -> ValueGate:
        def gate(values: Tensor) -> Tensor:
            shift[region] = torch.zeros_like(values, requires_grad=True)
            return values + shift[region]

        return gate

    with torch.enable_grad():
        roots = circuit(question, Gates(values={region: tap(region) for region in regions}))
        total = roots.diagonal(dim1=1, dim2=2).sum()
        gradients = torch.autograd.grad(total, [shift[region] for region in regions])
    return dict(zip(regions, gradients, strict=True))


def root_moments(circuit: FoldedCircuit) -> tuple[Tensor, Tensor]:
    """Mean and variance of every variable under every root, (E, R, D) each, in float64.

    >>> from voronoi_circuits.circuits.structures import random_binary_tree
    >>> graph = random_binary_tree(2, units=3, generator=torch.Generator().manual_seed(0))
    >>> mean, variance = root_moments(FoldedCircuit(graph))
    >>> mean.shape
    torch.Size([1, 1, 2])
    """
    graph = circuit.graph
    leaves = [index for index, region in enumerate(graph.regions) if region.kind == "leaf"]
    roots = graph.regions[-1].units
    found = flows(circuit, leaves, Question.everything(graph.n_variables, rows=roots))
    mean = torch.zeros(circuit.n_experts, roots, graph.n_variables, dtype=torch.float64)
    variance = torch.zeros_like(mean)
    with torch.no_grad():
        for region, flow in found.items():
            leaf, position = circuit.leaf(region)
            variable = graph.regions[region].scope[0]
            mean[..., variable] += torch.einsum("eur,eu->er", flow, leaf.mean()[:, position])
        for region, flow in found.items():
            leaf, position = circuit.leaf(region)
            variable = graph.regions[region].scope[0]
            offset = leaf.mean()[:, position].unsqueeze(-1) - mean[..., variable].unsqueeze(1)
            spread = leaf.variance()[:, position].unsqueeze(-1) + offset.square()
            variance[..., variable] += (flow * spread).sum(1)
    return mean, variance
