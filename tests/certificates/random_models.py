"""Random VT models for the soundness suite, with the extremes that bounds must survive among them.

# D variables, K cells, U units, E experts
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.circuits.structures import hidden_chow_liu, random_binary_tree
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.vt import VTModel

PLACES = ("shared", "independent", "internal", "disjoint", "nested", "shared parts")
EXTREMES = (
    "none", "none", "none", "near-parallel", "scales", "offset", "near-duplicate", "duplicate", "empty cells",
    "truncated", "histogram", "categorical", "slabs",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A model, what it is, and how far its experts reach."""

    seed: int
    model: VTModel
    place: str
    extreme: str
    centre: np.ndarray
    spread: np.ndarray

    def __str__(self) -> str:
        cells = [gate.n_cells for gate in self.model.placed]
        return f"seed {self.seed}: D={self.model.n_variables}, cells {cells}, {self.place}, {self.extreme}"


def random_case(seed: int) -> Case:
    """The case of a seed: D cycles through 1 to 5, places and extremes are drawn."""
    rng = np.random.default_rng([20, seed])
    d = 1 + seed % 5
    extreme = str(rng.choice(EXTREMES))
    place = str(rng.choice(_possible(d)))
    cells = int(rng.integers(1, 11)) if place in PLACES[:2] else int(rng.integers(1, 5))
    if extreme in ("scales", "near-parallel", "slabs"):
        cells = min(cells, 4)
    graph = _graph(rng, d, cells, place, _families(rng, d, extreme))
    regions = _gated(rng, graph, place)
    graph = graph.with_units({region: cells for region in regions if region != graph.root})
    codes = {r.scope[0]: {"categories": 3} for r in graph.regions if r.leaf == "categorical"}
    circuit = FoldedCircuit(graph, cells if place == "independent" else 1, codes)
    spread = 10.0 ** rng.uniform(-4, 4, d) if extreme == "scales" else rng.uniform(0.5, 2, d)
    centre = 1e4 * rng.choice([-1, 1], d) * spread if extreme == "offset" else rng.normal(size=d)
    _start(rng, circuit, centre, spread, extreme)
    gates = [
        VoronoiGate(r, _read(graph, r), _cells(rng, graph, r, cells, centre, spread, extreme))
        for r in regions
    ]
    model = VTModel(circuit, gates)
    if model.experts.logits is not None:
        with torch.no_grad():
            model.experts.logits.copy_(torch.tensor(rng.normal(size=model.experts.count)))
    if extreme == "truncated":
        apart = np.array([[-0.5], [0.5]])
        sides = centre + spread * np.sort(rng.normal(0, 1.5, (2, d)) + apart, 0)
        model = model.truncate(
            {v: tuple(sides[:, v].tolist()) for v in range(d) if v == 0 or rng.random() < 0.6}
        )
    return Case(seed, model, place, extreme, centre, spread)


def _possible(d: int) -> list[str]:
    """The places a gate may have among so many variables."""
    return [*PLACES[:2], *(PLACES[2:5] if d > 2 else [PLACES[2]] * (d > 1)), *([PLACES[5]] * (d > 2))]


def _families(rng: np.random.Generator, d: int, extreme: str) -> list[str]:
    """Gaussian columns, one or more of another family where the extreme says so; a gate keeps one to read."""
    families = ["gaussian"] * d
    for v in range(1 if extreme == "categorical" else 0, d):
        if extreme in ("histogram", "categorical") and rng.random() < 0.6:
            families[v] = extreme
    return families


def _graph(rng: np.random.Generator, d: int, cells: int, place: str, families: list[str]) -> RegionGraph:
    units = int(rng.integers(1, 4))
    roots = cells if place in ("shared", "nested", "shared parts") else 1
    if place == "shared parts":
        return _diamond(d, units, cells, families)
    product = str(rng.choice(["cp", "tucker"]))
    if rng.random() < 0.5:
        parents = [-1, *(int(rng.integers(0, v)) for v in range(1, d))]
        return hidden_chow_liu(parents, units=units, roots=roots, product=product, leaf=families)
    generator = torch.Generator().manual_seed(int(rng.integers(1 << 31)))
    return random_binary_tree(
        d, units=units, roots=roots, product=product, leaf=families, generator=generator,
        repetitions=2 if place == "shared" and rng.random() < 0.3 else 1,
    )  # fmt: skip


def _diamond(d: int, units: int, cells: int, families: list[str]) -> RegionGraph:
    """Two partitions that share the part over all but the last variable: a gate there lies below both."""
    leaves = [Region((v,), units, "leaf", leaf=families[v]) for v in range(d)]
    scope = tuple(range(d))
    other = Region((d - 1,), units, "leaf", leaf=families[-1])
    return RegionGraph((
        *leaves, other,
        Region(scope[:-1], cells, "cp", scope[:-1]),
        Region(scope, cells, "cp", (d + 1, d - 1)),
        Region(scope, cells, "tucker", (d + 1, d)),
        Region(scope, 1, "sum", (d + 2, d + 3)),
    ))  # fmt: skip


def _gated(rng: np.random.Generator, graph: RegionGraph, place: str) -> list[int]:
    """The regions that get gates: some continuous column each."""
    able = [p for p, r in enumerate(graph.regions) if p != graph.root and _read(graph, p)]
    inner = [p for p in able if len(graph.regions[p].scope) > 1 and graph.regions[p].kind != "leaf"]
    if place in ("shared", "independent"):
        return [graph.root]
    if place == "shared parts":
        chosen = [graph.root - 3, graph.root - 2, graph.root - 1]
        return [p for p in chosen if _read(graph, p)][: int(rng.integers(2, 4))]
    if place == "internal":
        return [int(rng.choice(inner or able))]
    first = int(rng.choice(inner or able))
    if place == "nested":
        below = [p for p in inner if set(graph.regions[p].scope) < set(graph.regions[first].scope)]
        return [graph.root, first, *([int(rng.choice(below))] if below and rng.random() < 0.5 else [])]
    apart = [p for p in able if set(graph.regions[p].scope).isdisjoint(graph.regions[first].scope)]
    return [first, *([int(rng.choice(apart))] if apart else [])]


def _read(graph: RegionGraph, region: int) -> list[int]:
    """The continuous columns of a region."""
    codes = {r.scope[0] for r in graph.regions if r.leaf == "categorical"}
    return [v for v in graph.regions[region].scope if v not in codes]


def _start(
    rng: np.random.Generator, circuit: FoldedCircuit, centre: np.ndarray, spread: np.ndarray, extreme: str
) -> None:
    """Random weights, and leaves about the centre."""
    with torch.no_grad():
        for parameter in circuit.parameters():
            parameter.copy_(torch.tensor(rng.normal(size=tuple(parameter.shape))))
        for index, region in enumerate(circuit.graph.regions):
            if region.kind != "leaf":
                continue
            leaf, at = circuit.leaf(index)
            v, shape = region.scope[0], (circuit.n_experts, region.units)
            if region.leaf == "gaussian":
                low = 1e-4 if extreme == "scales" else 0.15
                deviation = spread[v] * np.exp(rng.uniform(np.log(low), 0, shape))
                leaf.location[:, at] = torch.tensor(centre[v] + spread[v] * rng.normal(0, 1.2, shape))
                leaf.raw[:, at] = torch.tensor(deviation).log()
            elif region.leaf == "histogram":
                edges = centre[v] + spread[v] * np.linspace(-2.5, 2.5, leaf.parts + 1)
                leaf.edges[at] = torch.tensor(edges)


def _cells(
    rng: np.random.Generator,
    graph: RegionGraph,
    region: int,
    cells: int,
    centre: np.ndarray,
    spread: np.ndarray,
    extreme: str,
) -> Tessellation:
    """Centroids about the centre, in the way that the extreme asks for."""
    read = _read(graph, region)
    points = centre[read] + spread[read] * rng.normal(0, 1.2, (cells, len(read)))
    last = cells - 1
    if extreme == "near-parallel" and cells > 2:
        points[last] = 2 * points[1] - points[0] + 1e-7 * spread[read] * rng.normal(size=len(read))
    if extreme == "near-duplicate" and last:
        points[last] = points[0] + 1e-6 * spread[read] * rng.normal(size=len(read))
    if extreme == "duplicate" and last:
        points[last] = points[0]
    if extreme == "empty cells" and last:
        points[last] = centre[read] + 60 * spread[read] * rng.choice([-1, 1], len(read))
    if extreme == "slabs":
        points[:, 1:] = points[:1, 1:]
    dtype = torch.float32 if extreme == "none" else torch.float64
    return Tessellation(torch.tensor(points, dtype=dtype))
