"""Hierarchical factorized Voronoi circuits: cells that factor with the circuit, exact inference.

# B rows, D variables, K cells of a factor, P joint cells of a region, u units per cell
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import Gates, Question, ValueGate
from voronoi_circuits.circuits.region_graph import RegionGraph, StructureError
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.routing import grid_points, routes
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.base import Exactness, Kind
from voronoi_circuits.models.exact import ExactModel, MixtureModel
from voronoi_circuits.models.experts import ExpertDraws, Experts
from voronoi_circuits.models.soft import GatedModel


class HFVModel(ExactModel, GatedModel):
    """An ordinary circuit with truncated leaves and routed sums, Definition "HFV-Gated Sum Node".

    Unit (k, u) of a gated leaf is its density restricted to the interval V_k. At a joint region each product
    of the factors' cells belongs to the region's own cell whose centroid is nearest to the centroids' product
    (the grid point), so coarse cells are unions of fine ones, and every integral is exact by the one pass.
    """

    def __init__(
        self,
        circuit: FoldedCircuit,
        intervals: Mapping[int, IntervalPartition],
        coarse: Mapping[int, Tessellation],
    ) -> None:
        super().__init__(circuit.graph.n_variables)
        self.experts = Experts(circuit)
        self.intervals = nn.ModuleDict({str(region): cells for region, cells in intervals.items()})
        self.coarse = nn.ModuleDict({str(region): cells for region, cells in coarse.items()})
        _check(circuit.graph, intervals, coarse)

    @property
    def joint_regions(self) -> list[int]:
        """The gated regions, children first."""
        return [i for i, region in enumerate(self.experts.circuit.graph.regions) if region.kind == "joint"]

    def interval_cells(self, region: int) -> IntervalPartition:
        """The interval partition of a gated leaf region."""
        cells = self.intervals[str(region)]
        assert isinstance(cells, IntervalPartition)
        return cells

    def coarse_cells(self, region: int) -> Tessellation:
        """The coarse tessellation of a joint region that has cells of its own."""
        cells = self.coarse[str(region)]
        assert isinstance(cells, Tessellation)
        return cells

    @property
    def exactness(self) -> Exactness:
        """Exact: every gated factor is one variable, or its cells are products down to intervals."""
        regions = self.experts.circuit.graph.regions
        reasons = [
            f"region {i} over variables {list(regions[i].scope)}: cells are products of its "
            f"{len(regions[i].children)} factors' cells, down to intervals"
            for i in self.joint_regions
        ]
        return Exactness(Kind.EXACT, tuple(reasons))

    def gate_variables(self, region: int) -> list[int]:
        """The variables that a region's cells are measured in: those of its factors of several cells."""
        return gate_variables(self.experts.circuit.graph, region)

    def points(self, region: int) -> Tensor:
        """One point for each cell of a region, (K, d): its centroids; a single cell needs none, (1, 0)."""
        if str(region) in self.intervals:
            return self.interval_cells(region).sorted_centroids().mT
        if str(region) in self.coarse:
            return self.coarse_cells(region).centroids
        return torch.zeros(1, 0)

    def routes(self, alpha: Tensor | float | None = None) -> dict[int, Tensor]:
        """log A of every joint region, (K, P): shares of the joint cells, 0 or -inf without α.

        A coarse cell that no joint cell leads to is dead; with hard cells, joint cells built on it lead
        nowhere.
        """
        graph = self.experts.circuit.graph
        found: dict[int, Tensor] = {}
        dead: dict[int, Tensor] = {}
        for index in self.joint_regions:
            children = graph.regions[index].children
            alive = torch.ones((), dtype=torch.bool)
            for child in children:
                cells = dead.get(child, torch.zeros(graph.regions[child].cells, dtype=torch.bool))
                alive = (alive.unsqueeze(-1) & ~cells).flatten()
            if str(index) in self.coarse:
                factors = [child for child in children if graph.regions[child].cells > 1]
                order = [v for child in factors for v in self.gate_variables(child)]
                columns = [order.index(v) for v in self.gate_variables(index)]
                grid = grid_points([self.points(child) for child in children])[:, columns]
                route = routes(grid, self.coarse_cells(index).centroids, alpha)
            elif bool(alive.all()):
                continue
            else:
                route = torch.zeros(1, len(alive))
            if alpha is None:
                route = torch.where(alive, route, -torch.inf)
                dead[index] = (route == -torch.inf).all(1)
            found[index] = route
        return found

    def hard_gates(self) -> Gates:
        """Leaves restricted to their intervals, joint cells led to their coarse cells."""
        regions = self.experts.circuit.graph.regions
        supports: dict[int, tuple[Tensor, Tensor]] = {}
        for key in self.intervals:
            index = int(key)
            low, high = (side[0].detach() for side in self.interval_cells(index).edges())
            units = regions[index].units // regions[index].cells
            supports[index] = (low.repeat_interleave(units), high.repeat_interleave(units))
        return Gates(supports=supports, routes=self.routes())

    def soft_gates(self, x: Tensor, alpha: Tensor | float) -> Gates:
        """Leaves weighted by w_k(x_i; α), joint cells shared out softly."""
        values = {int(key): self._soft_leaf(int(key), x, alpha) for key in self.intervals}
        return Gates(values=values, routes=self.routes(alpha))

    def leaf_weights(self, region: int, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log w_k(x_i; α) for the variable of a gated leaf, (B, K)."""
        variable = self.experts.circuit.graph.regions[region].scope[0]
        return self.interval_cells(region).log_soft(x[:, [variable]], alpha)[:, 0]

    def _soft_leaf(self, region: int, x: Tensor, alpha: Tensor | float) -> ValueGate:
        shape = self.experts.circuit.graph.regions[region]
        weights = self.leaf_weights(region, x, alpha).T.repeat_interleave(shape.units // shape.cells, 0)
        return lambda values: values + weights

    def log_integral(self, question: Question) -> Tensor:
        """One pass over truncated leaves and routed sums."""
        return self.experts.total(question, self.hard_gates())

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log f(x; α)."""
        return self.experts.total(Question(x, complete=True), self.soft_gates(x, alpha))

    def draw_given(self, question: Question, evidence: Tensor, generator: torch.Generator | None) -> Tensor:
        """Ancestral sampling through cells and truncated leaves: no rejection."""
        gates = self.hard_gates()
        n = len(evidence)
        return self.experts.draw(n, question, gates=gates, evidence=evidence, generator=generator).rows

    def open_gates(self, alpha: float) -> Gates:
        """Whole leaves and soft routes."""
        return Gates(routes=self.routes(alpha))

    def soft_weights(self, drawn: ExpertDraws, alpha: float) -> Tensor:
        """log of the product of the leaves' soft gates along each draw's path, (n,)."""
        regions = self.experts.circuit.graph.regions
        out = torch.zeros(len(drawn.rows), dtype=torch.float64)
        for key in self.intervals:
            index = int(key)
            unit = drawn.units[index]
            cell = unit.clamp(min=0) // (regions[index].units // regions[index].cells)
            weight = self.leaf_weights(index, drawn.rows, alpha).gather(1, cell.unsqueeze(1)).squeeze(1)
            out += torch.where(unit >= 0, weight, 0.0)
        return out

    def ungated(self) -> UngatedHFV:
        """The same circuit and routes with whole leaves: normalised."""
        return UngatedHFV(self)

    @property
    def top(self) -> int:
        """The topmost gated region; with one variable, its leaf."""
        regions = self.experts.circuit.graph.regions
        joint = self.joint_regions
        return joint[-1] if joint else next(i for i, region in enumerate(regions) if region.kind == "leaf")

    @property
    def n_cells(self) -> int:
        """Joint cells of the topmost gated region."""
        regions = self.experts.circuit.graph.regions
        children = regions[self.top].children or (self.top,)
        return math.prod(regions[child].cells for child in children)

    def cells(self, x: Tensor) -> Tensor:
        """The joint cell of each row at the topmost gated region, (B,)."""
        return self._joint(self.top, x, self.routes())

    def _joint(self, region: int, x: Tensor, found: Mapping[int, Tensor]) -> Tensor:
        graph = self.experts.circuit.graph
        out = torch.zeros(len(x), dtype=torch.long)
        for child in graph.regions[region].children or (region,):
            out = out * graph.regions[child].cells + self._own(child, x, found)
        return out

    def _own(self, region: int, x: Tensor, found: Mapping[int, Tensor]) -> Tensor:
        """The cell of each row among a region's own cells."""
        if str(region) in self.intervals:
            variable = self.experts.circuit.graph.regions[region].scope[0]
            return self.interval_cells(region).nearest(x[:, [variable]])[:, 0]
        if str(region) in self.coarse:
            return found[region].argmax(0)[self._joint(region, x, found)]
        return torch.zeros(len(x), dtype=torch.long)

    def empty_cells(self) -> dict[int, list[int]]:
        """Coarse cells that no joint cell leads to, by region."""
        found = {region: (route == -torch.inf).all(1) for region, route in self.routes().items()}
        return {region: dead.nonzero().flatten().tolist() for region, dead in found.items() if dead.any()}

    def responsibilities(self, x: Tensor) -> Tensor:
        """1 for the row's own joint cell."""
        return torch.nn.functional.one_hot(self.cells(x), self.n_cells).to(x.dtype)


def gate_variables(graph: RegionGraph, region: int) -> list[int]:
    """The variables that a region's cells are measured in: those of its factors of several cells.

    >>> from voronoi_circuits.circuits.structures import hfv_graph, hidden_chow_liu
    >>> gate_variables(hfv_graph(hidden_chow_liu([-1, 0], units=2), cells=3), 2)
    [0, 1]
    """
    shape = graph.regions[region]
    if shape.kind == "leaf":
        return list(shape.scope) if shape.cells > 1 else []
    factors = [child for child in shape.children if graph.regions[child].cells > 1]
    return sorted(v for child in factors for v in gate_variables(graph, child))


def _check(
    graph: RegionGraph, intervals: Mapping[int, IntervalPartition], coarse: Mapping[int, Tessellation]
) -> None:
    """Refuses a structure that cannot keep its promise: every region of several cells has them, no other."""
    for index, region in enumerate(graph.regions):
        name = graph.name(index)
        held = intervals.get(index) if region.kind == "leaf" else coarse.get(index)
        if region.cells > 1 and region.leaf == "categorical":
            raise StructureError(f"{name}: a categorical column has no intervals; give it one cell")
        if (held is not None) != (region.cells > 1) or (held is not None and held.n_cells != region.cells):
            have = 0 if held is None else held.n_cells
            raise StructureError(
                f"{name} has {region.cells} cells and a partition into {have}: HFV is exact only where "
                "each region of several cells has its intervals or its coarse cells; give as many"
            )
        if isinstance(held, Tessellation) and held.dimensions != len(gate_variables(graph, index)):
            raise StructureError(
                f"{name}: its coarse cells lie in {held.dimensions} dimensions and its factors' in "
                f"{len(gate_variables(graph, index))}; measure them in the same variables"
            )


class UngatedHFV(MixtureModel):
    """An HFV circuit with whole leaves: its routed sums are ordinary sums."""

    def __init__(self, model: HFVModel) -> None:
        super().__init__(model.experts.circuit)
        self.experts = model.experts
        self.domain = model.domain
        self.gated = model

    def log_integral(self, question: Question) -> Tensor:
        """One pass through the hard routes."""
        return self.experts.total(question, Gates(routes=self.gated.routes()))

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log p(x): there is no gate to soften."""
        return self.log_integral(Question(x, complete=True))

    def draw_given(self, question: Question, evidence: Tensor, generator: torch.Generator | None) -> Tensor:
        """Ancestral sampling through the hard routes."""
        gates = Gates(routes=self.gated.routes())
        n = len(evidence)
        return self.experts.draw(n, question, gates=gates, evidence=evidence, generator=generator).rows
