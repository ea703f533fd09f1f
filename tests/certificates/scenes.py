"""Small models that the certificate tests share."""

from __future__ import annotations

import torch

from voronoi_circuits import datasets
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.structures import random_binary_tree
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import VT, Circuit
from voronoi_circuits.training import Adam


def gaussians(seed: int = 0, cells: int = 3, variables: int = 2) -> VTModel:
    """One axis-aligned Gaussian a cell, no two alike."""
    generator = torch.Generator().manual_seed(seed)
    graph = random_binary_tree(variables, units=1, product="cp", generator=generator)
    circuit = FoldedCircuit(graph, cells)
    centroids = torch.randn(cells, variables, generator=generator)
    with torch.no_grad():
        for index, region in enumerate(graph.regions):
            if region.kind == "leaf":
                leaf, at = circuit.leaf(index)
                leaf.location[:, at, 0] = centroids[:, region.scope[0]] + 0.3 * torch.randn(
                    cells, generator=generator
                )
                leaf.raw[:, at, 0] = torch.empty(cells).uniform_(-1.5, 0, generator=generator)
    model = VTModel(circuit, [VoronoiGate(graph.root, range(variables), Tessellation(centroids))])
    if model.experts.logits is not None:
        torch.nn.init.normal_(model.experts.logits, generator=generator)
    return model


def trained(shared: bool, epochs: int = 5) -> VTModel:
    """Ten cells on pinwheel, after a few epochs."""
    rows = torch.tensor(datasets.load("pinwheel", n=(2000, 10, 10)).train)
    generator = torch.Generator().manual_seed(0)
    model = VT(Circuit(units=5), cells=10, shared=shared).build(rows, generator)
    Adam(epochs=epochs).fit(model, rows, generator=generator)
    return model


def everything(model: VTModel, rows: int = 1) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The question of Z, in equal rows."""
    x = torch.full((rows, model.n_variables), torch.nan, dtype=torch.float64)
    low, high = model.domain_sides(x)
    return x, low.expand_as(x), high.expand_as(x)
