"""Voronoi-tessellated circuits: oblique cells, an intractable Z, certified bounds.

# B rows, D variables, K experts or cells, E experts of the folded circuit
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.questions import OPEN, Gates, Question, ValueGate
from voronoi_circuits.circuits.region_graph import StructureError
from voronoi_circuits.circuits.rounding import widen
from voronoi_circuits.models.base import Exactness, Interval, Kind, NotExactError, in_chunks, within_reach
from voronoi_circuits.models.exact import MixtureModel
from voronoi_circuits.models.experts import ExpertDraws, Experts
from voronoi_circuits.models.gates import VoronoiGate, add_log, hard_gates, soft_gates
from voronoi_circuits.models.rejection import Accepted, rejection
from voronoi_circuits.models.soft import GatedModel
from voronoi_circuits.models.tiles import tile


class VTModel(GatedModel):
    """f(x) = Σ_k g_k(x) π_k p_k(x), with gates at the root, at internal regions, or at several.

    Definition "Voronoi-gated sum node". Since g_k <= 1, f is at most the ungated mixture and Z <= 1.
    ``gates`` are ordered from the root down; experts are the roots of one circuit (shared) or of several.
    """

    def __init__(self, circuit: FoldedCircuit, gates: Sequence[VoronoiGate]) -> None:
        super().__init__(circuit.graph.n_variables)
        self.experts = Experts(circuit)
        self.gates = torch.nn.ModuleList(sorted(gates, key=_below_root))
        _check(self.placed, self.experts)

    @property
    def placed(self) -> list[VoronoiGate]:
        """The gates, from the root down."""
        return [gate for gate in self.gates if isinstance(gate, VoronoiGate)]

    @property
    def root_gate(self) -> VoronoiGate | None:
        """The gate at the root, if there is one."""
        first = self.placed[0]
        return first if first.region == self.experts.root else None

    @property
    def router(self) -> VoronoiGate | None:
        """The gate that sends each row to an expert of its own, where that is all that the gates do."""
        return self.root_gate if len(self.placed) == 1 and self.experts.roots == 1 else None

    @property
    def exactness(self) -> Exactness:
        """Certified: cells are oblique to the circuit's splits, Proposition "Single-Layer Intractability"."""
        if all(gate.n_cells == 1 for gate in self.placed):
            return Exactness(Kind.CERTIFIED, ("one cell: Z = 1 is certified at once",))
        graph = self.experts.circuit.graph
        reasons = [
            f"{graph.name(gate.region)}: {gate.n_cells} Voronoi cells oblique to the circuit's splits, "
            "so the integral over a cell does not factor"
            for gate in self.placed
            if gate.n_cells > 1
        ]
        return Exactness(Kind.CERTIFIED, tuple(reasons))

    def log_unnormalized(self, x: Tensor) -> Tensor:
        """log f(x) with hard gates; experts of their own are evaluated only for the rows they own."""
        self.check_rows(x, missing=False)
        return self.inside(x, self._hard(x))

    def _hard(self, x: Tensor, outward: int = 0) -> Tensor:
        gate = self.router
        if gate is not None:
            return self.routed(x, gate.cells(x), outward)
        return self.experts.total(Question(x, complete=True), hard_gates(self.placed, x), outward)

    def routed(self, x: Tensor, cells: Tensor, outward: int = 0) -> Tensor:
        """log π_k p_k(x) with k the cell given for each row: one expert a row, in tiles."""
        if len(x) == 0:
            return x.new_empty(0)
        tiles = tile(cells, self.experts.count)
        question = Question(x[tiles.rows], complete=True)
        values = self.experts.circuit(question, experts=tiles.owners, outward=outward)[:, 0]
        own = values.reshape(-1)[tiles.places]
        weight = self.experts.log_weights(x.dtype)[cells]
        out = own + weight
        return widen(out, [own], self.experts.count, outward)

    def soft_log(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log f(x; α) = log Σ_k w_k(x; α) π_k p_k(x), Definition "Soft Voronoi Gate"."""
        return self.experts.total(Question(x, complete=True), soft_gates(self.placed, x, alpha))

    def log_prob(self, x: Tensor) -> Tensor:
        """Refused: Z is known by bounds only."""
        raise NotExactError(
            "a VT model's Z is certified by bounds, not exact: call log_prob_bounds(x, vc.certify(model))"
        )

    def log_marginal(self, x: Tensor) -> Tensor:
        """Refused: see ``voronoi_circuits.certificates.marginal_bounds``."""
        raise NotExactError(
            "a VT model's marginals are intervals: call voronoi_circuits.certificates.marginal_bounds"
        )

    def log_conditional(self, x: Tensor, given: Sequence[int]) -> Tensor:
        """Refused: see ``voronoi_circuits.certificates.conditional_bounds``."""
        raise NotExactError(
            "a VT model's conditionals are intervals: call voronoi_circuits.certificates.conditional_bounds"
        )

    def probability(self, box: object, given: Tensor | None = None) -> Tensor:
        """Refused: see ``voronoi_circuits.certificates.probability_bounds``."""
        raise NotExactError(
            "a VT model's probabilities are intervals: call voronoi_circuits.certificates.probability_bounds"
        )

    def log_unnormalized_bounds(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Bounds (B,) of log f in float64, rounded outward.

        A row within rounding of a facet takes the smallest and the largest of the tied cells.
        """
        return in_chunks(self._bounds, within_reach(self.check_rows(x, missing=False).double()))

    def _bounds(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        candidates = [gate.tessellation.candidates(gate.points(rows)) for gate in self.placed]
        tied = torch.stack([found.sum(1) > 1 for found in candidates]).any(0)
        sides = [self._hard(rows, -1), self._hard(rows, 1)]
        if bool(tied.any()):
            low, high = self._tied(rows[tied], [found[tied] for found in candidates])
            sides[0][tied], sides[1][tied] = low, high
        return self.inside(rows, sides[0]), self.inside(rows, sides[1])

    def _tied(self, rows: Tensor, candidates: list[Tensor]) -> tuple[Tensor, Tensor]:
        """Bounds of log f for rows near facets: the extremes over every choice of tied cells."""
        row = torch.arange(len(rows))
        options = torch.empty(len(rows), 0, dtype=torch.long)
        for found in candidates:
            choice, cell = torch.nonzero(found[row], as_tuple=True)
            row, options = row[choice], torch.cat([options[choice], cell.unsqueeze(1)], 1)
        repeated = rows[row]
        gates = _chosen_gates(self.placed, options, repeated)
        question = Question(repeated, complete=True)
        low, high = (self.experts.total(question, gates, outward) for outward in (-1, 1))
        start = rows.new_zeros(len(rows))
        lower = start.scatter_reduce(0, row, low, "amin", include_self=False)
        return lower, start.scatter_reduce(0, row, high, "amax", include_self=False)

    def log_prob_bounds(self, x: Tensor, certificate: Interval | None = None) -> tuple[Tensor, Tensor]:
        """log f - log Z⁺ and log f - log Z⁻; without a certificate Z⁺ = 1 and Z⁻ is unknown."""
        low, high = self.log_unnormalized_bounds(x)
        below = -torch.inf if certificate is None else certificate.lower
        above = 0.0 if certificate is None else min(certificate.upper, 0.0)
        return outward_difference(low, above, -1), outward_difference(high, below, 1)

    def ungated(self) -> MixtureModel:
        """The mixture Σ_k π_k p_k of the same experts, sharing their parameters."""
        twin = MixtureModel(self.experts.circuit)
        twin.experts = self.experts
        twin.domain = self.domain
        return twin

    def draw(
        self,
        n: int,
        *,
        cell: int | None = None,
        given: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> Accepted:
        """n exact draws by rejection and the acceptance rate: draws that fall into their own cells are kept.

        ``cell`` draws within one cell of the root's gate; ``given`` is one row (D,) whose numbers are
        evidence.
        """
        if cell is not None:
            gate = self.root_gate
            if gate is None or not 0 <= cell < gate.n_cells:
                have = "there is no gate at the root" if gate is None else f"take 0 to {gate.n_cells - 1}"
                raise ValueError(f"cell {cell} does not exist: {have}")
        x, low, high = self.whole()
        x = x if given is None else self.check_evidence(given.double().view(1, -1))
        question = Question(x, low, high)

        def attempt(m: int) -> tuple[Tensor, Tensor]:
            drawn = self.experts.draw(m, question, expert=cell, generator=generator)
            return drawn.rows, self.owns(drawn)

        return rejection(attempt, n, "the model" if cell is None else f"cell {cell}")

    def holds_mass(self) -> bool:
        """Whether the ungated mixture has any mass in the domain."""
        return self.ungated().holds_mass()

    def owns(self, drawn: ExpertDraws) -> Tensor:
        """Whether each draw lies in the cells of the expert and units that it came through, (n,)."""
        keep = torch.ones(len(drawn.rows), dtype=torch.bool)
        for gate in self.placed:
            at_root = gate.region == self.experts.root
            unit = drawn.experts if at_root else drawn.units[gate.region]
            reached = unit >= 0
            keep &= ~reached | (gate.cells(drawn.rows) == unit)
        return keep

    def soft_weights(self, drawn: ExpertDraws, alpha: float) -> Tensor:
        """log of the product of the soft gates along each draw's path, (n,)."""
        out = torch.zeros(len(drawn.rows), dtype=torch.float64)
        for gate in self.placed:
            unit = drawn.experts if gate.region == self.experts.root else drawn.units[gate.region]
            weight = gate.soft(drawn.rows, alpha).gather(1, unit.clamp(min=0).unsqueeze(1)).squeeze(1)
            out += torch.where(unit >= 0, weight, 0.0)
        return out

    def open_gates(self, alpha: float) -> Gates:
        """No gates: the ungated mixture."""
        return OPEN

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        """n exact draws, (n, D)."""
        return self.draw(n, generator=generator).rows

    @property
    def n_cells(self) -> int:
        """Cells of the root's gate, or of the topmost gate."""
        return self.placed[0].n_cells

    def responsibilities(self, x: Tensor) -> Tensor:
        """1 for the row's own cell: hard gates leave no doubt."""
        gate = self.placed[0]
        return torch.nn.functional.one_hot(gate.cells(x), gate.n_cells).to(x.dtype)


def _below_root(gate: VoronoiGate) -> int:
    """Parents come later in a graph, so that this orders gates from the root down."""
    return -gate.region


def _check(gates: Sequence[VoronoiGate], experts: Experts) -> None:
    """One gate a region, one unit a cell, and a tessellation of the region's own continuous variables."""
    graph = experts.circuit.graph
    if not gates:
        raise ValueError("a VT model needs a gate: give one, or use the ungated mixture")
    if len({gate.region for gate in gates}) < len(gates):
        raise ValueError("two gates sit on one region: give each region one gate")
    discrete = {region.scope[0] for region in graph.regions if region.leaf == "categorical"}
    for gate in gates:
        region, name = graph.regions[gate.region], graph.name(gate.region)
        units = experts.count if gate.region == experts.root else region.units
        if gate.n_cells != units:
            raise ValueError(
                f"{name} has {units} units and its gate {gate.n_cells} cells: give one unit a cell"
            )
        own = set(gate.variables)
        if (
            not own <= set(region.scope)
            or not len(own) == len(gate.variables) == gate.tessellation.dimensions
        ):
            raise StructureError(
                f"{name}: its gate reads variables {list(gate.variables)} in {gate.tessellation.dimensions} "
                "dimensions; a gate reads variables of its own region, each once"
            )
        if own & discrete:
            raise StructureError(
                f"{name}: its gate reads the categorical column {min(own & discrete)}; leave it out"
            )


def _chosen_gates(gates: Sequence[VoronoiGate], options: Tensor, rows: Tensor) -> Gates:
    """Hard gates with the cells chosen by hand, one choice a row."""
    values: dict[int, ValueGate] = {}
    for position, gate in enumerate(gates):
        log_gate = rows.new_full((len(rows), gate.n_cells), -torch.inf)
        values[gate.region] = add_log(log_gate.scatter_(1, options[:, position : position + 1], 0.0))
    return Gates(values=values)


def outward_difference(value: Tensor, log_z: float, direction: int) -> Tensor:
    """value - log Z, rounded outward."""
    out = torch.where(value == -torch.inf, -torch.inf, value - log_z)
    return torch.where(torch.isfinite(out), out + direction * 2.0**-52 * out.abs(), out)
