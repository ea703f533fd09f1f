"""What to build, as plain parameters: a specification builds its model.

# B rows, D variables, K cells

Specifications hold parameters and nothing else, so scikit-learn's ``get_params``, ``clone`` and grid searches
reach every one of them (``model__expert__units``). They are checked where they are built.
"""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from voronoi_circuits.circuits.chow_liu import chow_liu_tree
from voronoi_circuits.circuits.folded import FoldedCircuit, LeafOptions
from voronoi_circuits.circuits.leaves import FAMILIES
from voronoi_circuits.circuits.region_graph import RegionGraph, StructureError, valid_name
from voronoi_circuits.circuits.structures import binarise, hfv_graph, hidden_chow_liu, random_binary_tree
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.kmeans import kmeans, kmeans_intervals
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import CircuitModel, MixtureModel
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.hfv import HFVModel, gate_variables
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.training.rows import complete_rows

Scope = int | Sequence[int] | str
CATEGORIES = 10_000
"""Categories that a column may have."""


class Specification(BaseEstimator, ABC):
    """Parameters of a model; ``build`` makes the model and starts it from rows."""

    @abstractmethod
    def build(self, X: Tensor, generator: torch.Generator | None = None) -> Model:
        """The model for rows (B, D), its parameters started from them."""


class Circuit(Specification):
    """A plain circuit.

    Args:
        structure: "hclt" (hidden Chow-Liu tree), "einet" (random balanced binary tree), or a RegionGraph of
            one's own.
        product: "cp" or "tucker".
        units: units of every region.
        leaf: a leaf family, or a dict from column to family; columns it leaves out are Gaussian.
        repetitions: trees of an "einet", summed at the root.

    >>> rows = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    >>> Circuit(units=4).build(rows).n_parameters
    76
    """

    def __init__(
        self,
        structure: str | RegionGraph = "hclt",
        product: str = "cp",
        units: int = 40,
        leaf: str | Mapping[int, str] = "gaussian",
        repetitions: int = 1,
    ) -> None:
        self.structure = structure
        self.product = product
        self.units = units
        self.leaf = leaf
        self.repetitions = repetitions

    def families(self, n_variables: int) -> list[str]:
        """The leaf family of every column."""
        if isinstance(self.leaf, str):
            return [valid_name("leaf", self.leaf, tuple(FAMILIES))] * n_variables
        unknown = [column for column in self.leaf if column not in range(n_variables)]
        if unknown:
            raise ValueError(f"leaf names column {unknown[0]!r}; the columns are 0 to {n_variables - 1}")
        return [valid_name("leaf", self.leaf.get(v, "gaussian"), tuple(FAMILIES)) for v in range(n_variables)]

    def graph(self, X: Tensor, generator: torch.Generator | None = None, roots: int = 1) -> RegionGraph:
        """The region graph for rows, with so many roots."""
        n_variables = X.shape[1]
        structure = self.structure
        if not isinstance(structure, RegionGraph):
            structure = valid_name("structure", structure, ("hclt", "einet"))
        product = valid_name("product", self.product, ("cp", "tucker"))
        units = positive("units", self.units)
        families = self.families(n_variables)
        repetitions = positive("repetitions", self.repetitions)
        if repetitions > 1 and structure != "einet":
            raise ValueError(
                "repetitions is for structure='einet'; any other structure is one of its kind: "
                "set repetitions=1"
            )
        if isinstance(structure, RegionGraph):
            return _ungated(structure, n_variables).with_roots(roots)
        if structure == "einet":
            return random_binary_tree(
                n_variables,
                units=units,
                roots=roots,
                product=product,
                leaf=families,
                repetitions=repetitions,
                generator=seeded(generator),
            )
        codes = [v for v, family in enumerate(families) if family == "categorical"]
        for column in codes:
            categories(X, column)
        parents = chow_liu_tree(X, categorical=codes)
        return hidden_chow_liu(parents.tolist(), units=units, roots=roots, product=product, leaf=families)

    def build(self, X: Tensor, generator: torch.Generator | None = None) -> CircuitModel:
        """A circuit started from rows."""
        x = complete_rows("X", X)
        graph = self.graph(x, generator)
        circuit = FoldedCircuit(graph, 1, leaf_options(graph, x))
        circuit.start(x, generator)
        return CircuitModel(circuit)


class Mixture(Specification):
    """The ungated mixture of ``components`` independent circuits, started from k-means.

    >>> rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> Mixture(Circuit(units=2), components=3).build(rows, torch.Generator().manual_seed(0)).n_cells
    3
    """

    def __init__(self, expert: Circuit | None = None, components: int = 10) -> None:
        self.expert = expert
        self.components = components

    def build(self, X: Tensor, generator: torch.Generator | None = None) -> MixtureModel:
        """A mixture whose experts start from the rows of their own clusters."""
        x = complete_rows("X", X)
        expert = default_expert(self.expert)
        components = count_within("components", self.components, x)
        graph = expert.graph(x, generator)
        circuit = FoldedCircuit(graph, components, leaf_options(graph, x))
        variables = continuous(graph) or list(range(graph.n_variables))
        cells = _tessellation(x, variables, components, generator).nearest(x[:, variables])
        circuit.start(x, generator, membership(cells, components))
        return MixtureModel(circuit)


class VT(Specification):
    """A Voronoi-tessellated circuit, certified.

    Args:
        expert: the circuit of the experts.
        cells: cells of every gate.
        shared: whether the root's experts are roots of one circuit, as in the paper, or circuits of their
            own.
        gate_at: "root", the scope of an internal region as a sequence of columns, or a list of these for
            several gates, nested or not.

    >>> rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> str(model.exactness).split(":")[0]
    'certified'
    """

    def __init__(
        self,
        expert: Circuit | None = None,
        cells: int = 10,
        shared: bool = False,
        gate_at: Scope | Sequence[Scope] = "root",
    ) -> None:
        self.expert = expert
        self.cells = cells
        self.shared = shared
        self.gate_at = gate_at

    def build(self, X: Tensor, generator: torch.Generator | None = None) -> VTModel:
        """A model with k-means centroids and experts started from the rows of their own cells."""
        x = complete_rows("X", X)
        expert = default_expert(self.expert)
        cells = count_within("cells", self.cells, x)
        scopes = _scopes(self.gate_at)
        at_root = any(scope == "root" for scope in scopes)
        graph = expert.graph(x, generator, roots=cells if at_root and self.shared else 1)
        own = isinstance(expert.structure, RegionGraph)
        regions = [_gated_region(graph, scope, own) for scope in scopes]
        if len(set(regions)) < len(regions):
            raise ValueError(f"gate_at names one region twice: {self.gate_at!r}; name each region once")
        root = len(graph.regions) - 1
        graph = graph.with_units({region: cells for region in regions if region != root})
        experts = cells if at_root and not self.shared else 1
        circuit = FoldedCircuit(graph, experts, leaf_options(graph, x))
        free = set(continuous(graph))
        gates: list[VoronoiGate] = []
        for region in regions:
            variables = [v for v in graph.regions[region].scope if v in free]
            if not variables:
                raise StructureError(
                    f"{graph.name(region)}: a gate reads continuous columns and it has none; gate another"
                )
            gates.append(VoronoiGate(region, variables, _tessellation(x, variables, cells, generator)))
        weights = None
        if experts > 1:
            root_gate = next(gate for gate in gates if gate.region == root)
            weights = membership(root_gate.cells(x), cells)
        circuit.start(x, generator, weights)
        return VTModel(circuit, gates)


class HFV(Specification):
    """A hierarchical factorized Voronoi circuit, exact.

    Args:
        expert: the circuit whose partitions are gated; "hclt" and wider partitions are made binary.
        cells: cells of every factor, or a dict from column or scope to their number.
        units_per_cell: units of every cell.
        levels: "all", or the depths of partitions to gate (0 is the topmost), closed downwards.

    >>> rows = torch.randn(100, 2, generator=torch.Generator().manual_seed(0))
    >>> model = HFV(Circuit(units=4), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> str(model.exactness).split(":")[0], model.n_cells
    ('exact', 9)
    """

    def __init__(
        self,
        expert: Circuit | None = None,
        cells: int | Mapping[Any, int] = 5,
        units_per_cell: int = 1,
        levels: str | Collection[int] = "all",
    ) -> None:
        self.expert = expert
        self.cells = cells
        self.units_per_cell = units_per_cell
        self.levels = levels

    def build(self, X: Tensor, generator: torch.Generator | None = None) -> HFVModel:
        """A model with k-means centroids of each factor, leaves started from the rows of their intervals."""
        x = complete_rows("X", X)
        expert = default_expert(self.expert)
        for count in self.cells.values() if isinstance(self.cells, Mapping) else [self.cells]:
            count_within("cells", count, x)
        per_cell = positive("units_per_cell", self.units_per_cell)
        plain = expert.graph(x, generator)
        own = isinstance(expert.structure, RegionGraph)
        base = plain if own else binarise(plain)
        graph = hfv_graph(base, self.cells, per_cell, self.levels, widest=3 if own else 2)
        circuit = FoldedCircuit(graph, 1, leaf_options(graph, x))
        circuit.start(x, generator)
        intervals: dict[int, IntervalPartition] = {}
        for index, region in enumerate(graph.regions):
            if region.kind == "leaf" and region.cells > 1:
                column = x[:, list(region.scope)]
                centroids = kmeans_intervals(column, region.cells, generator=seeded(generator))
                intervals[index] = IntervalPartition(centroids)
                _start_cells(circuit, index, column, intervals[index].nearest(column)[:, 0], generator)
        coarse = {
            index: _tessellation(x, gate_variables(graph, index), region.cells, generator)
            for index, region in enumerate(graph.regions)
            if region.kind == "joint" and region.cells > 1
        }
        return HFVModel(circuit, intervals, coarse)


def _start_cells(
    circuit: FoldedCircuit, region: int, column: Tensor, cells: Tensor, generator: torch.Generator | None
) -> None:
    """Starts the units of each cell of a leaf from the rows in its interval."""
    shape = circuit.graph.regions[region]
    leaf, position = circuit.leaf(region)
    options = circuit.leaf_options.get(shape.scope[0], {})
    twin = FAMILIES[shape.leaf](shape.cells, 1, shape.units // shape.cells, **options)
    twin.start(column, generator, membership(cells, shape.cells))
    with torch.no_grad():
        for name, parameter in leaf.named_parameters():
            parameter[0, position] = twin.get_parameter(name)[:, 0].flatten(0, 1)


def leaf_options(graph: RegionGraph, X: Tensor) -> LeafOptions:
    """What leaf families must know of the rows before they start: how many categories a column has."""
    return {variable: {"categories": categories(X, variable)} for variable in discrete(graph)}


def categories(X: Tensor, variable: int) -> int:
    """How many codes 0, 1, 2, ... a categorical column has; every leaf unit has a weight for each.

    >>> categories(torch.tensor([[0.0], [3.0]]), 0)
    4
    """
    column = X[:, variable]
    if bool((column.round() != column).any()) or float(column.min()) < 0:
        raise ValueError(f"column {variable} is categorical: its values must be codes 0, 1, 2, ...")
    largest = int(column.max())
    if largest >= CATEGORIES:
        raise ValueError(
            f"column {variable} is categorical and holds the code {largest}: codes go up to "
            f"{CATEGORIES - 1}; number its categories from 0, or choose another leaf for it"
        )
    return largest + 1


def continuous(graph: RegionGraph) -> list[int]:
    """The columns that gates may read: all but the categorical ones."""
    return [v for v in range(graph.n_variables) if v not in discrete(graph)]


def discrete(graph: RegionGraph) -> list[int]:
    """The categorical columns."""
    return sorted({region.scope[0] for region in graph.regions if region.leaf == "categorical"})


def membership(cells: Tensor, count: int) -> Tensor:
    """Row weights (K, B) by which each expert starts: its own cell's rows, and a thousandth of the others."""
    own = torch.nn.functional.one_hot(cells, count).T.double()
    return own + 1e-3 / len(cells)


def _tessellation(
    X: Tensor, variables: Sequence[int], cells: int, generator: torch.Generator | None
) -> Tessellation:
    return Tessellation(kmeans(X[:, list(variables)], cells, generator=seeded(generator)))


def seeded(generator: torch.Generator | None) -> torch.Generator:
    """The generator given, or a new one at a seed of its own."""
    if generator is not None:
        return generator
    fresh = torch.Generator()
    fresh.seed()
    return fresh


def default_expert(expert: object) -> Circuit:
    """The circuit given, or the default one."""
    if expert is None:
        return Circuit()
    if not isinstance(expert, Circuit):
        raise ValueError(f"expert must be a vc.Circuit, not {type(expert).__name__}")
    return expert


def positive(name: str, value: object) -> int:
    """A whole number of at least 1, or an error that names the parameter."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def count_within(name: str, value: object, X: Tensor) -> int:
    """A positive number that is no larger than the number of rows."""
    count = positive(name, value)
    if count > len(X):
        raise ValueError(f"{name}={count} is more than the {len(X)} rows: give at most one cell a row")
    return count


def _scopes(gate_at: object) -> list[str | tuple[int, ...]]:
    """The places of the gates: "root" or scopes."""
    if isinstance(gate_at, str):
        return [valid_name("gate_at", gate_at, ("root",))]
    if isinstance(gate_at, numbers.Integral):
        return [(int(gate_at),)]
    if not isinstance(gate_at, Collection) or len(gate_at) == 0:
        raise ValueError(f'gate_at is {gate_at!r}: name "root", the columns of a region, or a list of these')
    places = [place for entry in gate_at for place in _scopes(entry)]
    if all(isinstance(entry, numbers.Integral) for entry in gate_at):
        return [tuple(sorted(int(column) for (column,) in places))]
    return places


def _ungated(graph: RegionGraph, n_variables: int) -> RegionGraph:
    """A graph of one's own, refused where it has gates already or does not fit the rows."""
    if graph.n_variables != n_variables:
        have = graph.n_variables
        raise ValueError(f"structure has {have} variables and the rows {n_variables} columns")
    for position, region in enumerate(graph.regions):
        if region.kind == "joint" or region.cells > 1:
            raise StructureError(f"{graph.name(position)}: it is gated already; give the graph without gates")
    return graph


def _gated_region(graph: RegionGraph, scope: str | tuple[int, ...], own: bool) -> int:
    """The region that a gate at a scope sits on."""
    root = len(graph.regions) - 1
    if scope == "root" or scope == graph.regions[root].scope:
        return root
    found = [index for index, region in enumerate(graph.regions) if region.scope == scope]
    if not found:
        have = sorted({region.scope for region in graph.regions}, key=lambda s: (-len(s), s))[:8]
        raise ValueError(
            f"gate_at names the columns {scope}, which are no region of this structure; "
            f"its regions are {have} and smaller"
        )
    if len(found) > 1:
        advice = "name another scope" if own else "set repetitions=1"
        raise ValueError(f"gate_at names {scope}, the scope of {len(found)} regions: {advice}")
    return found[0]
