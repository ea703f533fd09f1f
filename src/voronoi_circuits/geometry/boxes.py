"""Axis-aligned boxes with finite, infinite or equal sides."""

# B rows, d variables

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from voronoi_circuits.geometry.halfspaces import check_boxes


@dataclass(frozen=True, eq=False)
class Box:
    """[low_1, high_1] × ... × [low_d, high_d], float64; sides may be infinite, and of length 0.

    >>> box = Box.of({1: (0.0, 2.0)}, dimensions=2)
    >>> box.contains(torch.tensor([[9.0, 1.0], [9.0, 3.0]])).tolist()
    [True, False]
    """

    low: Tensor
    high: Tensor

    def __post_init__(self) -> None:
        if self.low.ndim != 1:
            raise ValueError(f"the sides of a box must have shape (d,), got {tuple(self.low.shape)}")
        for i, (low, high) in enumerate(zip(self.low.tolist(), self.high.tolist(), strict=False)):
            if not (low <= high and low < float("inf") and high > -float("inf")):
                raise ValueError(
                    f"the box has the empty interval [{low}, {high}] in column {i}: low must not exceed high"
                )
        low, high = check_boxes(self.low[None], self.high[None], len(self.low))
        object.__setattr__(self, "low", low[0])
        object.__setattr__(self, "high", high[0])

    @classmethod
    def of(cls, intervals: Mapping[int, tuple[float, float]], dimensions: int) -> "Box":
        """The box with these sides by column, and infinite ones elsewhere."""
        outside = [column for column in intervals if not 0 <= column < dimensions]
        if outside:
            raise ValueError(f"the box names column {outside[0]}; columns go from 0 to {dimensions - 1}")
        whole = (-float("inf"), float("inf"))
        sides = torch.tensor([intervals.get(i, whole) for i in range(dimensions)], dtype=torch.float64)
        return cls(sides[:, 0], sides[:, 1])

    @property
    def dimensions(self) -> int:
        """d."""
        return len(self.low)

    def contains(self, x: Tensor) -> Tensor:
        """Whether each row lies in the closed box, (B, d) -> (B,)."""
        return ((x >= self.low) & (x <= self.high)).all(-1)

    def volume(self) -> float:
        """Π (high_i − low_i); 0 where a side has length 0, even beside an infinite one.

        >>> Box.of({0: (1.0, 3.0), 1: (0.0, 0.5)}, dimensions=2).volume()
        1.0
        """
        sides = self.high - self.low
        return 0.0 if bool((sides == 0).any()) else sides.prod().item()

    def intersect(self, other: "Box") -> "Box | None":
        """The common box, None where there is none.

        >>> Box.of({0: (0.0, 2.0)}, 1).intersect(Box.of({0: (3.0, 4.0)}, 1)) is None
        True
        """
        low, high = torch.maximum(self.low, other.low), torch.minimum(self.high, other.high)
        return Box(low, high) if bool((low <= high).all()) else None

    def slice(self, given: Mapping[int, float]) -> "Box | None":
        """{x_rest : (x_rest, given) in the box}, over the columns not given; None if a value is outside.

        A slice, not a projection: evidence outside a box leaves nothing of it.

        >>> Box.of({0: (0.0, 1.0), 1: (2.0, 3.0)}, 2).slice({0: 5.0}) is None
        True
        """
        if any(not self.low[i] <= value <= self.high[i] for i, value in given.items()):
            return None
        rest = [i for i in range(self.dimensions) if i not in given]
        return Box(self.low[rest], self.high[rest])
