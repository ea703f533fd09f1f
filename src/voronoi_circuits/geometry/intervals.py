"""Voronoi cells in one dimension: intervals between midpoints of sorted centroids, many variables at once."""

# B rows, F variables, K cells of each

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry.distances import check_alpha, check_finite, distance_gap


class IntervalPartition(nn.Module):
    """Cells V_1 = (−∞, (c_1+c_2)/2], ..., V_K = ((c_{K−1}+c_K)/2, ∞) of each of F variables.

    Centroids are used sorted, whatever the order of the parameter. Equal centroids split their cell at
    themselves.

    >>> cells = IntervalPartition(torch.tensor([[4.0, 0.0], [1.0, 2.0]]))
    >>> cells.nearest(torch.tensor([[2.0, 1.6]])).tolist()
    [[0, 1]]
    """

    def __init__(self, centroids: Tensor) -> None:
        super().__init__()
        if centroids.ndim != 2 or 0 in centroids.shape or not centroids.is_floating_point():
            raise ValueError(
                f"centroids must be a floating (F, K) tensor, got {centroids.dtype} {tuple(centroids.shape)}"
            )
        check_finite(centroids, "centroids")
        self.centroids = nn.Parameter(centroids.detach().clone())

    @property
    def n_cells(self) -> int:
        """K, for each variable."""
        return self.centroids.shape[1]

    @property
    def dimensions(self) -> int:
        """F."""
        return self.centroids.shape[0]

    def sorted_centroids(self) -> Tensor:
        """Centroids in increasing order for each variable, (F, K); gradients reach the parameter."""
        return self.centroids.sort(dim=-1).values

    def edges(self) -> tuple[Tensor, Tensor]:
        """The cells as intervals (low, high], (F, K) each, float64, the outer ends infinite.

        They are what defines a cell: `nearest` compares with them and nothing else.

        >>> low, high = IntervalPartition(torch.tensor([[4.0, 0.0]])).edges()
        >>> low.tolist(), high.tolist()
        ([[-inf, 2.0]], [[2.0, inf]])
        """
        centroids = self.sorted_centroids().double()
        inner = centroids[:, :-1] / 2 + centroids[:, 1:] / 2
        end = torch.full_like(centroids[:, :1], torch.inf)
        return torch.cat([-end, inner], -1), torch.cat([inner, end], -1)

    def nearest(self, x: Tensor) -> Tensor:
        """The cell of each value, (B, F) -> (B, F), in float64; an edge belongs to the lower index."""
        if x.ndim != 2 or x.shape[1] != self.dimensions:
            raise ValueError(f"rows must have shape (B, {self.dimensions}), got {tuple(x.shape)}")
        check_finite(x, "rows")
        inner = self.edges()[1][:, :-1].detach().contiguous()
        return torch.searchsorted(inner, x.detach().double().T.contiguous()).T

    def log_soft(self, x: Tensor, alpha: float | Tensor) -> Tensor:
        """The soft gate of each variable, log softmax_k(−α(x − c_k)²), (B, F) -> (B, F, K)."""
        check_alpha(alpha)
        centroids = self.sorted_centroids().to(x.dtype)
        variable = torch.arange(self.dimensions, device=x.device)
        anchor = (x.detach()[..., None] - centroids.detach()).abs().argmin(-1)
        near = centroids[variable, anchor]
        gap = distance_gap(x[..., None, None], near[..., None, None], centroids[..., None])
        return torch.log_softmax(-alpha * gap, dim=-1)

    def duplicates(self) -> list[tuple[int, int]]:
        """(variable, k) for each sorted centroid k that equals the one before it.

        >>> IntervalPartition(torch.tensor([[1.0, 2.0], [5.0, 5.0]])).duplicates()
        [(1, 1)]
        """
        return [(f, k + 1) for f, k in (self.sorted_centroids().diff(dim=-1) == 0).nonzero().tolist()]

    def unreached(self, x: Tensor) -> list[tuple[int, int]]:
        """(variable, cell) for each cell that no row falls in.

        >>> IntervalPartition(torch.tensor([[1.0, 2.0]])).unreached(torch.tensor([[1.9]]))
        [(0, 0)]
        """
        reached = torch.zeros_like(self.centroids, dtype=torch.bool)
        reached.T.scatter_(0, self.nearest(x), True)
        return [(f, k) for f, k in (~reached).nonzero().tolist()]

    def extra_repr(self) -> str:
        return f"variables={self.dimensions}, cells={self.n_cells}"
