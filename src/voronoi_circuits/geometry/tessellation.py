"""The Voronoi tessellation of centroids: its hard and soft gate, its half-spaces, boxes against its cells."""

# B rows, K cells, N boxes, d variables

import torch
from torch import Tensor, nn

from voronoi_circuits.geometry import distances, halfspaces


class Tessellation(nn.Module):
    """Voronoi cells V_k = {u : ‖u − c_k‖² ≤ ‖u − c_j‖² for all j} of centroids (K, d).

    Hard membership is decided in float64 by stable differences; ties go to the lower index, and so does
    everything between equal centroids.

    >>> cells = Tessellation(torch.tensor([[-1.0, 0.0], [1.0, 0.0]]))
    >>> cells.nearest(torch.tensor([[-0.2, 3.0], [0.0, 9.0], [0.2, 0.0]])).tolist()
    [0, 0, 1]
    """

    def __init__(self, centroids: Tensor) -> None:
        super().__init__()
        if centroids.ndim != 2 or 0 in centroids.shape or not centroids.is_floating_point():
            raise ValueError(
                f"centroids must be a floating (K, d) tensor, got {centroids.dtype} {tuple(centroids.shape)}"
            )
        distances.check_finite(centroids, "centroids")
        self.centroids = nn.Parameter(centroids.detach().clone())

    @property
    def n_cells(self) -> int:
        """K."""
        return self.centroids.shape[0]

    @property
    def dimensions(self) -> int:
        """d."""
        return self.centroids.shape[1]

    def nearest(self, u: Tensor) -> Tensor:
        """The cell of each row, argmin_k ‖u − c_k‖, (B, d) -> (B,); ties go to the lower index."""
        return distances.nearest_cell(u, self.centroids)

    def candidates(self, u: Tensor) -> Tensor:
        """Cells that each row may lie in, within rounding, (B, d) -> (B, K); the nearest is among them."""
        return distances.candidate_cells(u, self.centroids)

    def log_soft(self, u: Tensor, alpha: float | Tensor) -> Tensor:
        """The soft gate, log w_k(u; α) = log softmax_k(−α‖u − c_k‖²), (B, d) -> (B, K); differentiable."""
        return distances.log_soft_cells(u, self.centroids, alpha)

    def margin(self, u: Tensor) -> Tensor:
        """γ(u) = min_{j ≠ k*} ‖u − c_j‖² − ‖u − c_k*‖², (B, d) -> (B,) float64; +inf for a single cell."""
        return distances.facet_margin(u, self.centroids)

    def halfspaces(self) -> tuple[Tensor, Tensor]:
        """Normals (K, K, d) and offsets (K, K), V_k = {x : normals[k, j]·x ≤ offsets[k, j] for all j}."""
        return halfspaces.halfspaces(self.centroids)

    def offset_error(self) -> Tensor:
        """A bound on the rounding error of each offset, (K, K)."""
        return halfspaces.offset_error(self.centroids)

    def classify(self, low: Tensor, high: Tensor, cells: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Boxes (N, d) against cells: inside (N, K) and touches (N, K), rounded outward."""
        return halfspaces.classify(self.centroids, low, high, cells)

    def duplicates(self) -> list[tuple[int, int]]:
        """Pairs (j, k), j < k, of equal centroids: cell k is empty.

        >>> Tessellation(torch.tensor([[1.0], [2.0], [1.0]])).duplicates()
        [(0, 2)]
        """
        equal = (self.centroids[:, None] == self.centroids).all(-1).triu(1)
        return [(j, k) for j, k in equal.nonzero().tolist()]

    def unreached(self, u: Tensor) -> list[int]:
        """Cells that no row falls in.

        >>> Tessellation(torch.tensor([[1.0], [2.0]])).unreached(torch.tensor([[0.3], [0.7]]))
        [1]
        """
        counts = torch.bincount(self.nearest(u), minlength=self.n_cells)
        return (counts == 0).nonzero().squeeze(-1).tolist()

    def extra_repr(self) -> str:
        return f"cells={self.n_cells}, dimensions={self.dimensions}"
