"""Experts under one root: K normalised densities p_k and weights π_k.

# B rows, D variables, E experts of the folded circuit, R roots of each, K = E * R experts in all
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.logspace import log_sum
from voronoi_circuits.circuits.questions import OPEN, Gates, Question
from voronoi_circuits.circuits.rounding import widen
from voronoi_circuits.circuits.sampling import Draws, categorical, draw


class ExpertDraws(NamedTuple):
    """Rows (n, D), the expert (n,) of each, and the unit of every region it came through."""

    rows: Tensor
    experts: Tensor
    units: dict[int, Tensor]


class Experts(nn.Module):
    """Σ_k π_k p_k(x): K roots of one circuit, or the roots of K circuits, with weights softmax(logits)."""

    def __init__(self, circuit: FoldedCircuit) -> None:
        super().__init__()
        self.circuit = circuit
        self.root = len(circuit.graph.regions) - 1
        self.roots = circuit.graph.regions[-1].units
        self.count = circuit.n_experts * self.roots
        self.logits = nn.Parameter(torch.zeros(self.count)) if self.count > 1 else None

    @property
    def n_variables(self) -> int:
        """Variables of the circuit."""
        return self.circuit.graph.n_variables

    def log_weights(self, dtype: torch.dtype) -> Tensor:
        """log π_k, (K,)."""
        if self.logits is None:
            return torch.zeros(1, dtype=dtype)
        return torch.log_softmax(self.logits.to(dtype), 0)

    def values(self, question: Question, gates: Gates = OPEN, outward: int = 0) -> Tensor:
        """log p_k, (K, B)."""
        return self.circuit(question, gates, outward=outward).flatten(0, 1)

    def total(self, question: Question, gates: Gates = OPEN, outward: int = 0) -> Tensor:
        """log Σ_k π_k p_k, (B,)."""
        return self.weigh(self.values(question, gates, outward), outward)

    def weigh(self, values: Tensor, outward: int = 0) -> Tensor:
        """log Σ_k π_k exp(v_k): (K, B) -> (B,)."""
        if self.count == 1:
            return values[0]
        log_weights = self.log_weights(values.dtype).unsqueeze(1)
        out = log_sum(values + log_weights, 0)
        return widen(out, [values.detach().amax(0)], self.count, outward)

    def draw(
        self,
        n: int,
        question: Question,
        *,
        gates: Gates = OPEN,
        expert: int | None = None,
        evidence: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> ExpertDraws:
        """n draws given what the question states, from all experts or from one.

        ``evidence`` (n,) says which row of the question each draw uses; all use the first without it.
        """
        with torch.no_grad():
            rows = torch.zeros(n, dtype=torch.long) if evidence is None else evidence
            passed = self.circuit.run(question, gates)
            scores = passed[self.root].flatten(0, 1).double().T + self.log_weights(torch.float64)
            if expert is None:
                chosen = categorical(_possible(scores)[rows], generator)
            else:
                _possible(scores[:, [expert]])
                chosen = torch.full((n,), expert, dtype=torch.long)
            circuit, root = chosen // self.roots, chosen % self.roots
            found: Draws = draw(self.circuit, passed, question, rows, circuit, root, gates, generator)
        return ExpertDraws(found.rows, chosen, found.units)


def _possible(scores: Tensor) -> Tensor:
    """The log scores (B, K) of the experts, refused where no expert gives a row any probability."""
    impossible = torch.nonzero((scores == -torch.inf).all(1)).flatten()
    if len(impossible):
        row = int(impossible[0])
        raise ValueError(f"row {row} of the evidence has no probability here: there is nothing to draw")
    return scores
