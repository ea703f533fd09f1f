"""Where a tessellation meets a region of a circuit.

# B rows, K cells, E experts, U units
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.questions import Gates, ValueGate
from voronoi_circuits.geometry.tessellation import Tessellation


class VoronoiGate(nn.Module):
    """A Voronoi gate on a region: unit k lives in cell k, measured in the region's continuous variables.

    At the root the K experts are the units, whether they are K roots of one circuit or the roots of K
    circuits.
    """

    def __init__(self, region: int, variables: Sequence[int], tessellation: Tessellation) -> None:
        super().__init__()
        self.region = region
        self.variables = tuple(variables)
        self.tessellation = tessellation

    @property
    def n_cells(self) -> int:
        """K."""
        return len(self.tessellation.centroids)

    def points(self, x: Tensor) -> Tensor:
        """The rows in the gate's variables, (B, d)."""
        return x[:, list(self.variables)]

    def cells(self, x: Tensor) -> Tensor:
        """The cell of each row, (B,)."""
        return self.tessellation.nearest(self.points(x))

    def hard(self, x: Tensor) -> Tensor:
        """log g_k(x), (B, K): 0 in the own cell, -inf elsewhere."""
        out = x.new_full((len(x), self.n_cells), -torch.inf)
        return out.scatter_(1, self.cells(x).unsqueeze(1), 0.0)

    def soft(self, x: Tensor, alpha: Tensor | float) -> Tensor:
        """log w_k(x; α), (B, K)."""
        return self.tessellation.log_soft(self.points(x), alpha)


def add_log(log_gate: Tensor) -> ValueGate:
    """Adds log g (B, K) to a region's units (E, U, B), where E * U = K, or U = K in each expert."""
    columns = log_gate.T

    def gate(values: Tensor) -> Tensor:
        experts, units, rows = values.shape
        if units == len(columns):
            return values + columns
        return values + columns.reshape(experts, units, -1).expand(experts, units, rows)

    return gate


def hard_gates(gates: Sequence[VoronoiGate], x: Tensor) -> Gates:
    """All gates, hard, at the rows."""
    return Gates(values={gate.region: add_log(gate.hard(x)) for gate in gates})


def soft_gates(gates: Sequence[VoronoiGate], x: Tensor, alpha: Tensor | float) -> Gates:
    """All gates, soft, at the rows."""
    return Gates(values={gate.region: add_log(gate.soft(x, alpha)) for gate in gates})
