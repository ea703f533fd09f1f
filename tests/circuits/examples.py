"""Small circuits of every kind of region and leaf, with rows that fit them."""

import numpy as np
import torch

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Gates
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.structures import hidden_chow_liu, random_binary_tree

MIXED = ["gaussian", "categorical", "histogram"]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def leaf(variable: int, units: int, cells: int = 1, family: str = "gaussian") -> Region:
    return Region((variable,), units, "leaf", leaf=family, cells=cells)


def mixed_units() -> RegionGraph:
    """Children with different units, a sum of two regions, a shared leaf."""
    return RegionGraph((
        leaf(0, 2), leaf(1, 3), leaf(2, 2, family="histogram"),
        Region((0, 1), 4, "tucker", (0, 1)),
        Region((0, 1), 3, "cp", (0, 1)),
        Region((0, 1), 2, "sum", (3, 4)),
        Region((0, 1, 2), 3, "cp", (5, 2)),
        Region((0, 1, 2), 2, "cp", (0, 1, 2)),
        Region((0, 1, 2), 2, "sum", (6, 7)),
    ))  # fmt: skip


def joint(widest: int) -> RegionGraph:
    """Two levels of gated sums: of two factors, or of three below a pair."""
    if widest == 2:
        return RegionGraph((
            leaf(0, 6, 3), leaf(1, 4, 2), leaf(2, 3, 3),
            Region((0, 1), 8, "joint", (0, 1), cells=4),
            Region((0, 1, 2), 2, "joint", (3, 2)),
        ))  # fmt: skip
    return RegionGraph((
        leaf(0, 4, 2), leaf(1, 2, 2), leaf(2, 6, 3), leaf(3, 2, 2),
        Region((0, 1, 2), 6, "joint", (0, 1, 2), cells=3),
        Region((0, 1, 2, 3), 1, "joint", (4, 3)),
    ))  # fmt: skip


GRAPHS: dict[str, RegionGraph] = {
    "cp": random_binary_tree(3, units=3, product="cp", roots=2, generator=seeded()),
    "tucker": random_binary_tree(3, units=3, product="tucker", roots=2, generator=seeded()),
    "families": random_binary_tree(3, units=2, product="tucker", leaf=MIXED, generator=seeded(1)),
    "n-ary cp": hidden_chow_liu([1, -1, 1, 1], units=3, leaf=[*MIXED, "gaussian"]),
    "tucker chain": hidden_chow_liu([1, -1, 1, 1], units=2, product="tucker"),
    "repetitions": random_binary_tree(3, units=2, repetitions=3, product="cp", generator=seeded(2)),
    "one variable": random_binary_tree(1, units=3, product="cp", generator=seeded()),
    "mixed units": mixed_units(),
    "joint of two": joint(2),
    "joint of three": joint(3),
}


def build(name: str, experts: int = 1, seed: int = 0) -> FoldedCircuit:
    """The circuit with random parameters."""
    graph = GRAPHS[name]
    options = {r.scope[0]: {"categories": 3} for r in graph.regions if r.leaf == "categorical"}
    circuit = FoldedCircuit(graph, experts, options)
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.normal_(generator=seeded(seed))
    return circuit


def rows(graph: RegionGraph, n: int, seed: int = 0) -> np.ndarray:
    """Rows of float64 where every leaf has density."""
    rng = np.random.default_rng(seed)
    out = rng.normal(0, 1.5, (n, graph.n_variables))
    for region in graph.regions:
        if region.leaf == "categorical":
            out[:, region.scope[0]] = rng.integers(0, 3, n)
        if region.leaf == "histogram":
            out[:, region.scope[0]] = rng.uniform(0.01, 0.99, n)
    return out


def routed(graph: RegionGraph, seed: int = 0, soft: bool = False) -> Gates:
    """Supports and routes of the leaves and joint regions that have cells."""
    rng = np.random.default_rng(seed)
    supports, routes = {}, {}
    for index, region in enumerate(graph.regions):
        if region.kind == "leaf" and region.cells > 1:
            edges = np.concatenate([[-np.inf], np.sort(rng.normal(size=region.cells - 1)), [np.inf]])
            sides = (edges[:-1], edges[1:])
            supports[index] = tuple(torch.tensor(s.repeat(region.units // region.cells)) for s in sides)
        if region.kind == "joint" and region.cells > 1:
            n = int(np.prod([graph.regions[c].cells for c in region.children]))
            owner = rng.permutation(np.arange(n) % region.cells)
            hard = np.where(owner == np.arange(region.cells)[:, None], 0.0, -np.inf)
            logits = torch.tensor(rng.normal(size=(region.cells, n)))
            routes[index] = logits.log_softmax(0) if soft else torch.tensor(hard)
    return Gates(supports={} if soft else supports, routes=routes)
