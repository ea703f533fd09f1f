"""Product cells: tessellations of disjoint scopes, whose joint cells are the products of their cells."""

# B rows, D variables, K_i cells of factor i

from collections.abc import Sequence
from math import prod

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.tessellation import Tessellation


class ProductTessellation(nn.Module):
    """V_k = V¹_{k_1} × ... × V^m_{k_m}: membership is decided factor by factor.

    Factors are (scope, tessellation); an IntervalPartition of F variables counts as F factors. Joint cells
    are numbered row-major: the last factor runs fastest.

    >>> halves = IntervalPartition(torch.tensor([[-1.0, 1.0]]))
    >>> cells = ProductTessellation([((0,), halves), ((1, 2), Tessellation(torch.eye(2)))])
    >>> cells.nearest(torch.tensor([[3.0, 0.1, 0.9]])).tolist(), cells.shape
    ([3], (2, 2))
    """

    def __init__(self, factors: Sequence[tuple[Sequence[int], Tessellation | IntervalPartition]]) -> None:
        super().__init__()
        self.scopes = tuple(tuple(scope) for scope, _ in factors)
        variables = [v for scope in self.scopes for v in scope]
        if not variables or len(set(variables)) < len(variables):
            raise ValueError(f"factors must have disjoint scopes, at least one; got {self.scopes}")
        for scope, cells in factors:
            if len(scope) != cells.dimensions:
                raise ValueError(
                    f"the factor on {tuple(scope)} has centroids of {cells.dimensions} variables"
                )
        self.factors: Sequence[Tessellation | IntervalPartition] = [cells for _, cells in factors]
        self._registered = nn.ModuleList(self.factors)

    @property
    def shape(self) -> tuple[int, ...]:
        """(K_1, ..., K_m)."""
        sizes: list[int] = []
        for factor in self.factors:
            sizes += [factor.n_cells] * (factor.dimensions if isinstance(factor, IntervalPartition) else 1)
        return tuple(sizes)

    @property
    def n_cells(self) -> int:
        """ΠK_i."""
        return prod(self.shape)

    def factor_cells(self, x: Tensor) -> Tensor:
        """The cell of each row in each factor, (B, D) -> (B, m)."""
        columns: list[Tensor] = []
        for scope, factor in zip(self.scopes, self.factors, strict=True):
            cell = factor.nearest(x[:, list(scope)])
            columns.append(cell if cell.ndim == 2 else cell[:, None])
        return torch.cat(columns, dim=1)

    def nearest(self, x: Tensor) -> Tensor:
        """The joint cell of each row, (B, D) -> (B,)."""
        joint = torch.zeros(len(x), dtype=torch.long, device=x.device)
        for cell, size in zip(self.factor_cells(x).unbind(1), self.shape, strict=True):
            joint = joint * size + cell
        return joint

    def log_soft(self, x: Tensor, alpha: float | Tensor) -> Tensor:
        """log w_k(x; α) = Σ_i log w^i_{k_i}(x_{S_i}; α), (B, D) -> (B, ΠK_i)."""
        joint = x.new_zeros(len(x), 1)
        for scope, factor in zip(self.scopes, self.factors, strict=True):
            gate = factor.log_soft(x[:, list(scope)], alpha)
            for part in gate.unbind(1) if gate.ndim == 3 else [gate]:
                joint = (joint[:, :, None] + part[:, None, :]).flatten(1)
        return joint
