"""Small models for the paper's statements, and a circuit written out node by node, as the paper writes it.

# B rows, D variables, K experts or cells
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy import special, stats

from tests.circuits.leaves.families import normal
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.geometry import Tessellation
from voronoi_circuits.models import VoronoiGate, VTModel
from voronoi_circuits.specs import HFV, VT, Circuit

Array = np.ndarray
FOUR = RegionGraph((
    *(Region((v,), 2, "leaf", leaf="gaussian") for v in range(4)),
    Region((0, 1), 2, "cp", (0, 1)),
    Region((2, 3), 2, "cp", (2, 3)),
    Region((0, 1, 2, 3), 1, "cp", (4, 5)),
))  # fmt: skip


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(seed: int, n: int, n_variables: int, scale: float = 1.0) -> torch.Tensor:
    return scale * torch.randn(n, n_variables, generator=seeded(seed), dtype=torch.float64)


def build(spec: VT | HFV | Circuit, n_variables: int, seed: int) -> Any:
    """The model in float64, every weight moved away from its start."""
    generator = seeded(seed)
    model = spec.build(torch.randn(200, n_variables, generator=generator), generator).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "logits" in name or "weight" in name:
                parameter += torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    return model


def factorised(means: Array, deviations: Array, graph: RegionGraph | None = None) -> FoldedCircuit:
    """K fully factorised Gaussian experts (K, D)."""
    count, n_variables = means.shape
    leaves = [Region((v,), 1, "leaf", leaf="gaussian") for v in range(n_variables)]
    product = Region(tuple(range(n_variables)), 1, "cp", tuple(range(n_variables)))
    circuit = FoldedCircuit(graph or RegionGraph((*leaves, product)), count).double()
    with torch.no_grad():
        for variable in range(n_variables):
            leaf, at = circuit.leaf(variable)
            leaf.location[:, at] = torch.tensor(means[:, variable, None])
            leaf.raw[:, at] = torch.tensor(deviations[:, variable, None] - float(leaf.floor)).log()
    return circuit


def gated(
    centroids: Array, means: Array, deviations: Array, logits: Sequence[float] | None = None
) -> VTModel:
    """A root gate over fully factorised Gaussians."""
    circuit = factorised(means, deviations)
    gate = VoronoiGate(
        len(circuit.graph.regions) - 1, range(means.shape[1]), Tessellation(torch.tensor(centroids))
    )
    model = VTModel(circuit, [gate])
    if logits is not None and model.experts.logits is not None:
        model.experts.logits.data = torch.tensor(logits, dtype=torch.float64)
    return model


class Node(NamedTuple):
    """A node of Definition "Probabilistic Circuit": a leaf, a product, or a weighted sum of earlier nodes."""

    kind: str
    children: tuple[int, ...] = ()
    weights: tuple[float, ...] = ()
    variable: int = -1
    leaf: Any = None


def unfold(circuit: FoldedCircuit, expert: int = 0) -> tuple[list[Node], list[list[int]]]:
    """Every node of a circuit, children first, and the node of each unit of each region."""
    nodes: list[Node] = []
    units: list[list[int]] = []

    def add(node: Node) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def mix(children: Sequence[int], weights: torch.Tensor) -> int:
        return add(Node("sum", tuple(children), tuple(weights.flatten().tolist())))

    for index, region in enumerate(circuit.graph.regions):
        below = [units[child] for child in region.children]
        if region.kind == "leaf":
            leaf, at = circuit.leaf(index)
            twins = [normal(leaf, (expert, at, u)) for u in range(region.units)]
            units.append([add(Node("leaf", variable=region.scope[0], leaf=twin)) for twin in twins])
            continue
        weights = [w[expert].detach() for w in circuit.weights(index)]
        own: list[int] = []
        for o in range(region.units):
            if region.kind == "sum":
                own.append(mix([unit for child in below for unit in child], weights[0][o]))
            elif region.kind == "cp":
                mixed = [mix(child, w[o]) for child, w in zip(below, weights, strict=True)]
                own.append(add(Node("product", tuple(mixed))))
            else:
                pairs = [add(Node("product", (a, b))) for a in below[0] for b in below[1]]
                own.append(mix(pairs, weights[0][o]))
        units.append(own)
    return nodes, units


def values(nodes: Sequence[Node], x: Array) -> Array:
    """f_n(x) of every node, by the definition, (nodes, B)."""
    out: list[Array] = []
    for node in nodes:
        if node.kind == "leaf":
            out.append(node.leaf.pdf(x[:, node.variable]))
        elif node.kind == "product":
            out.append(np.prod([out[c] for c in node.children], axis=0))
        else:
            out.append(sum(w * out[c] for w, c in zip(node.weights, node.children, strict=True)))
    return np.array(out)


def scopes(nodes: Sequence[Node]) -> list[frozenset[int]]:
    """scope(n) of every node, by the definition."""
    out: list[frozenset[int]] = []
    for node in nodes:
        out.append(frozenset([node.variable]).union(*(out[c] for c in node.children)) - {-1})
    return out


class Contribution(NamedTuple):
    """One choice at every sum: its weight, a Gaussian for each variable, the unit taken at each region."""

    weight: float
    mean: Array
    deviation: Array
    units: dict[int, int]


def contributions(model: VTModel) -> Iterator[tuple[int, Contribution]]:
    """Every expert with every choice of units below its root; f is the sum of them, each within its cells."""
    experts = model.experts
    logits = np.zeros(1) if experts.logits is None else experts.logits.detach().numpy()
    for expert, weight in enumerate(special.softmax(logits)):
        circuit, root = divmod(expert, experts.roots)
        for found in _below(experts.circuit, circuit, experts.root, root, model.n_variables):
            yield expert, found._replace(weight=weight * found.weight)


def _below(circuit: FoldedCircuit, expert: int, region: int, unit: int, d: int) -> Iterator[Contribution]:
    shape = circuit.graph.regions[region]
    if shape.kind == "leaf":
        leaf, at = circuit.leaf(region)
        twin = normal(leaf, (expert, at, unit))
        here = np.arange(d) == shape.scope[0]
        yield Contribution(1.0, here * twin.mean(), here * twin.std(), {region: unit})
        return
    partial = [Contribution(1.0, np.zeros(d), np.zeros(d), {region: unit})]
    for child, weights in zip(shape.children, circuit.weights(region), strict=True):
        partial = [
            Contribution(
                a.weight * w * b.weight, a.mean + b.mean, a.deviation + b.deviation, a.units | b.units
            )
            for a in partial
            for i, w in enumerate(weights[expert, unit].tolist())
            for b in _below(circuit, expert, child, i, d)
        ]
    yield from partial


def constraints(model: VTModel, expert: int, units: dict[int, int]) -> list[tuple[Array, float]]:
    """a·x <= b for the cell of every gate on the way (two cells a gate), in all variables."""
    found = []
    for gate in model.placed:
        own = expert if gate.region == model.experts.root else units[gate.region]
        c, other = gate.tessellation.centroids.detach().double().numpy()[[own, 1 - own]]
        normal_ = np.zeros(model.n_variables)
        normal_[list(gate.variables)] = other - c
        found.append((normal_, float((other @ other - c @ c) / 2)))
    return found


def mass(found: Contribution, cuts: Sequence[tuple[Array, float]]) -> float:
    """P(a·x <= b for all cuts) under a contribution's Gaussians: a normal orthant of one or two variables."""
    a = np.array([normal_ for normal_, _ in cuts])
    b = np.array([offset for _, offset in cuts])
    covariance = (a * found.deviation**2) @ a.T
    return float(stats.multivariate_normal(a @ found.mean, covariance).cdf(b))


def true_partition(model: VTModel) -> float:
    """Z of a model whose gates have two cells each, at most two of them one below the other or apart."""
    return sum(c.weight * mass(c, constraints(model, expert, c.units)) for expert, c in contributions(model))
