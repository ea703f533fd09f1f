"""Every leaf family with its SciPy twin: a new family adds one line to `FAMILIES`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from scipy import special, stats

from voronoi_circuits.circuits.leaves import Leaf, leaf_family

EXPERTS, REGIONS, UNITS = 3, 2, 4


def normal(leaf: Leaf, at: tuple[int, int, int]) -> Any:
    return stats.norm(leaf.location[at].item(), leaf.floor + np.exp(leaf.raw[at].double().item()))


def codes(leaf: Leaf, at: tuple[int, int, int]) -> Any:
    weights = special.softmax(leaf.logits[at].detach().double().numpy())
    return stats.rv_discrete(values=(np.arange(leaf.parts), weights))


def bins(leaf: Leaf, at: tuple[int, int, int]) -> Any:
    weights = special.softmax(leaf.logits[at].detach().double().numpy())
    return stats.rv_histogram((weights, leaf.edges[at[1]].double().numpy()), density=False)


@dataclass(frozen=True)
class Family:
    name: str
    twin: Callable[[Leaf, tuple[int, int, int]], Any]
    rows: Callable[[np.random.Generator, int], np.ndarray]
    points: list[float]
    intervals: list[tuple[float, float]]
    fit: float  # mean log density that a start must reach on its own rows
    options: dict[str, Any] = field(default_factory=dict)

    def columns(self, seed: int, n: int = 200) -> torch.Tensor:
        """Rows (n, F) such as the family is started from."""
        generator = np.random.default_rng(seed)
        return torch.tensor(
            np.stack([self.rows(generator, n) for _ in range(REGIONS)], 1), dtype=torch.float32
        )

    def leaf(self, seed: int = 0, experts: int = EXPERTS) -> Leaf:
        """A leaf of that family with different parameters everywhere."""
        leaf = leaf_family(self.name)(experts, REGIONS, UNITS, **self.options)
        leaf.start(self.columns(seed), torch.Generator().manual_seed(seed))
        return leaf


INF = float("inf")
NARROW = (0.3, 0.3 + 1e-9)
REALS = [(-INF, 0.2), (0.3, INF), (-1.0, 0.5), (1.0, 4.0), NARROW]
POINTS = [-30.0, -1.5, 0.0, 0.7, 25.0]
CODES = [0.0, 1.0, 4.0, 5.0, -1.0, 1.5]
GAPS = [(-INF, 2.0), (0.5, INF), (1.0, 1.0), (0.5, 3.5), (1.2, 1.8), (7.0, 9.0)]
FAMILIES = [
    Family("gaussian", normal, lambda g, n: g.normal(1, 2, n), POINTS, REALS, -2.5),
    Family("categorical", codes, lambda g, n: g.integers(0, 5, n), CODES, GAPS, -1.8, {"categories": 5}),
    Family("histogram", bins, lambda g, n: g.normal(0, 1, n), POINTS, REALS, -1.9, {"bins": 7}),
]


def log_density(twin: Any, x: Any) -> Any:
    with np.errstate(divide="ignore"):
        return twin.logpmf(x) if hasattr(twin, "logpmf") else np.log(twin.pdf(x))


def mass(twin: Any, low: float, high: float) -> float:
    """P(low <= X <= high)."""
    atom = twin.pmf(low) if hasattr(twin, "pmf") and np.isfinite(low) else 0.0
    return twin.cdf(high) - twin.cdf(low) + atom
