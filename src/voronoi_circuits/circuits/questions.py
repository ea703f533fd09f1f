"""What a pass asks of each variable, row by row: a density at a point, or the mass of an interval.

# B rows, D variables, E experts
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class Question:
    """Density at ``x`` where ``x`` is a number, mass of ``[low, high]`` where it is NaN.

    The tensors are (B, D), or (E, B, D) where every expert is asked something of its own. Without ``low`` and
    ``high`` the mass is that of the whole line, so NaN alone means a missing variable. ``complete`` says that
    no mass is asked for anywhere.

    >>> Question.density(torch.tensor([[0.5, torch.nan]])).complete
    False
    """

    x: Tensor | None
    low: Tensor | None = None
    high: Tensor | None = None
    complete: bool = False

    @classmethod
    def density(cls, x: Tensor) -> Question:
        """Density at ``x``; NaN is a missing variable."""
        return cls(x, complete=not bool(torch.isnan(x).any()))

    @classmethod
    def mass(cls, low: Tensor, high: Tensor) -> Question:
        """Mass of the boxes ``[low, high]``; sides may be infinite."""
        return cls(None, low, high)

    @classmethod
    def everything(cls, n_variables: int, dtype: torch.dtype = torch.float64, rows: int = 1) -> Question:
        """The whole mass: every variable missing, in ``rows`` equal rows."""
        return cls(torch.full((rows, n_variables), torch.nan, dtype=dtype))

    @property
    def template(self) -> Tensor:
        """A tensor of the question's shape, dtype and device."""
        for tensor in (self.x, self.low):
            if tensor is not None:
                return tensor
        raise ValueError("a question needs a point or an interval: give x, or low and high")


ValueGate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Gates:
    """What gates do to a pass; the only way in for geometry.

    ``values``: region -> a function on its log values (E, U, B): it adds the log of a gate, or replaces them
    by an integral.
    ``supports``: leaf region -> the interval (low, high], each (U,), that each unit is restricted to.
    ``routes``: joint region -> log A (cells, joint cells): which joint cells make up each of the region's own
    cells.

    >>> Gates().values
    {}
    """

    values: Mapping[int, ValueGate] = field(default_factory=dict[int, ValueGate])
    supports: Mapping[int, tuple[Tensor, Tensor]] = field(default_factory=dict[int, tuple[Tensor, Tensor]])
    routes: Mapping[int, Tensor] = field(default_factory=dict[int, Tensor])


OPEN = Gates()
