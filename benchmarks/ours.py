"""Our circuit with the parameters that the peer is given: one set of numbers, two libraries.

Keys and shapes are those of `libcirkit_peer`: regions are named by their position in the graph.
"""

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.layers import CPLayer, SumLayer, TuckerLayer
from voronoi_circuits.circuits.leaves import Gaussian
from voronoi_circuits.circuits.region_graph import RegionGraph
from voronoi_circuits.models.exact import CircuitModel


class LogLikelihood(nn.Module):
    """A circuit of ours as training sees it: a function from rows (B, D) to log-likelihoods (B,)."""

    def __init__(self, circuit: FoldedCircuit) -> None:
        super().__init__()
        self.model = CircuitModel(circuit)

    def forward(self, rows: Tensor) -> Tensor:
        return self.model.soft_log(rows, 1.0)


def plain_regions(graph: RegionGraph) -> list[Mapping[str, Any]]:
    """The region graph as the plain records that the peer reads."""
    return [asdict(region) for region in graph.regions]


def our_circuit(
    graph: RegionGraph, parameters: Mapping[Any, NDArray[np.float64]], dtype: torch.dtype = torch.float32
) -> LogLikelihood:
    """The circuit of this graph with these means, deviations and weights."""
    circuit = FoldedCircuit(graph).to(dtype)
    for fold, layer in zip(circuit.folds, circuit.layers, strict=True):
        for position, r in enumerate(fold.regions):
            for parameter, value in _values(layer, position, r, graph, parameters, len(fold.regions)):
                with torch.no_grad():
                    parameter.copy_(torch.from_numpy(value).view_as(parameter))
    return LogLikelihood(circuit)


def _values(
    layer: nn.Module,
    position: int,
    region: int,
    graph: RegionGraph,
    parameters: Mapping[Any, NDArray[np.float64]],
    n_regions: int,
) -> Iterable[tuple[Tensor, NDArray[np.float64]]]:
    """Each parameter of one region, a view, with its value: s = floor + exp(raw), W = softmax(logits)."""
    match layer:
        case Gaussian():
            yield layer.location[0, position], parameters["mean", region]
            yield layer.raw[0, position], np.log(parameters["stddev", region] - layer.floor)
        case CPLayer():
            for slot, child in enumerate(graph.regions[region].children):
                yield layer.edge(slot, position, n_regions)[0], np.log(parameters["weight", region, child])
        case SumLayer() | TuckerLayer():
            yield layer.weight[0, position], np.log(parameters["weight", region])
        case _:
            raise ValueError(f"region {region} is none that the peer has: compare Gaussian leaves and sums")
