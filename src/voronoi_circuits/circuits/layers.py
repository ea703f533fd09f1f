"""Folded layers: all regions of one height, kind and size as one tensor operation.

# E experts, F regions of the layer, U units, I units of a child, B rows; values (E, F, U, B)

Each layer holds the logits of its weights (the weights of a unit are their softmax) and turns the values of
its children into its own. ``children[s]`` are the values of the children in slot ``s`` of every region,
already gathered. ``outward`` is 0, or the direction (+1, -1) in which every result is moved by a bound on its
rounding error (docs/bounds.md).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from voronoi_circuits.circuits.logspace import log_mix, log_sum, log_tucker
from voronoi_circuits.circuits.rounding import UNIT, finite, largest, widen


def _start(*shape: int) -> nn.Parameter:
    """Logits of zero: equal weights, until ``start`` draws logits that tell units apart."""
    return nn.Parameter(torch.zeros(*shape))


def _pick(parameter: Tensor, experts: Tensor | None, like: Tensor) -> Tensor:
    """The parameters of the experts asked for, in the dtype of the values."""
    chosen = parameter if experts is None else parameter[experts]
    return chosen.to(like.dtype)


class Layer(nn.Module, ABC):
    """What every inner layer does: logits, their start, and ``forward`` over gathered children."""

    def logits(self) -> list[nn.Parameter]:
        """The weight logits of the layer."""
        return list(self.parameters())

    def start(self, generator: torch.Generator | None) -> None:
        """Standard normal logits, as libcirkit starts them."""
        with torch.no_grad():
            for logits in self.logits():
                logits.normal_(generator=generator)

    @abstractmethod
    def forward(
        self,
        children: Sequence[Tensor],
        experts: Tensor | None,
        routes: Sequence[Tensor | None],
        outward: int,
    ) -> Tensor:
        """Children's values by slot, (E, F, I, B) each -> (E, F, U, B)."""


class SumLayer(Layer):
    """v_o = Σ_{(child, i)} W_{o,(child, i)} v_{child, i}: a mixture of regions of one scope.

    >>> layer = SumLayer(experts=1, regions=1, units=1, child_units=[2])  # weights 1/2
    >>> children = [torch.tensor([0.2, 0.6]).log().view(1, 1, 2, 1)]
    >>> round(layer(children, None, [None], 0).exp().item(), 6)
    0.4
    """

    def __init__(self, experts: int, regions: int, units: int, child_units: Sequence[int]) -> None:
        super().__init__()
        self.weight = _start(experts, regions, units, sum(child_units))

    def forward(
        self,
        children: Sequence[Tensor],
        experts: Tensor | None,
        routes: Sequence[Tensor | None],
        outward: int,
    ) -> Tensor:
        inputs = children[0] if len(children) == 1 else torch.cat(list(children), -2)
        out = log_mix(_pick(self.weight, experts, inputs), inputs)
        return widen(out, [largest(inputs)], inputs.shape[2], outward)


class CPLayer(Layer):
    """v_o = Π_child Σ_i W^child_{o,i} v_{child, i}: children mixed, then multiplied unit by unit.

    Slots whose children have equally many units share one tensor of logits (E, slots * F, U, I).

    >>> layer = CPLayer(experts=1, regions=1, units=1, child_units=[2, 1])  # weights 1/2, and 1
    >>> children = [torch.tensor(v).log().view(1, 1, -1, 1) for v in ([0.2, 0.6], [0.5])]
    >>> round(layer(children, None, [None], 0).exp().item(), 6)
    0.2
    """

    def __init__(self, experts: int, regions: int, units: int, child_units: Sequence[int]) -> None:
        super().__init__()
        sizes = sorted(set(child_units))
        self.slots = [[s for s, n in enumerate(child_units) if n == size] for size in sizes]
        self.weights = nn.ParameterList(
            _start(experts, len(slots) * regions, units, child_units[slots[0]]) for slots in self.slots
        )

    def forward(
        self,
        children: Sequence[Tensor],
        experts: Tensor | None,
        routes: Sequence[Tensor | None],
        outward: int,
    ) -> Tensor:
        total = size = torch.zeros(())
        for slots, weight in zip(self.slots, self.weights, strict=True):
            inputs = children[slots[0]] if len(slots) == 1 else torch.cat([children[s] for s in slots], 1)
            mixed = log_mix(_pick(weight, experts, inputs), inputs)
            mixed = widen(mixed, [largest(inputs)], inputs.shape[2], outward).unflatten(1, (len(slots), -1))
            part = mixed[:, 0] + mixed[:, 1] if len(slots) == 2 else mixed.sum(1)
            total = part if len(self.slots) == 1 else total + part
            size = size + mixed.detach().abs().sum(1) if outward else size
        return total + outward * len(children) * UNIT * finite(size) if outward else total

    def edge(self, slot: int, position: int, regions: int) -> Tensor:
        """The logits (E, U, I) of one edge: the child in ``slot`` of the region at ``position``."""
        group = next(g for g, slots in enumerate(self.slots) if slot in slots)
        return self.weights[group][:, self.slots[group].index(slot) * regions + position]


class TuckerLayer(Layer):
    """v_o = Σ_ij W_{o,ij} a_i b_j: a sum over the pairs of units of two children.

    >>> layer = TuckerLayer(experts=1, regions=1, units=1, child_units=[2, 2])  # weights 1/4
    >>> children = [torch.tensor(v).log().view(1, 1, 2, 1) for v in ([0.2, 0.6], [0.5, 1.0])]
    >>> round(layer(children, None, [None], 0).exp().item(), 6)
    0.3
    """

    def __init__(self, experts: int, regions: int, units: int, child_units: Sequence[int]) -> None:
        super().__init__()
        self.weight = _start(experts, regions, units, *child_units)

    def forward(
        self,
        children: Sequence[Tensor],
        experts: Tensor | None,
        routes: Sequence[Tensor | None],
        outward: int,
    ) -> Tensor:
        out = log_tucker(_pick(self.weight, experts, children[0]), children[0], children[1])
        terms = children[0].shape[2] * children[1].shape[2]
        return widen(out, [largest(child) for child in children], terms, outward)


class JointLayer(Layer):
    """HFV's gated sum: joint cells of two or three factors, grouped into the region's own cells.

    With l[i, a] unit a of cell i of the first factor and r[j, b] of the second, unit u of cell c is

        v[c, u] = Σ_ij A[c, ij] Σ_ab W[u, ij, ab] l[i, a] r[j, b] / Σ_ij A[c, ij] Σ_ab W[u, ij, ab],

    where the route A[c, ij] is the share of joint cell ij that belongs to cell c: 0 or 1 once cells are hard,
    so that all sums together meet each of the K^m joint cells once. A region without cells of its own has one
    that all joint cells belong to. A cell that no joint cell leads to has no mass: its units are -inf, and so
    is a unit whose weights are zero on all joint cells that lead to its cell.

    >>> layer = JointLayer(1, 1, units=1, child_units=[2, 2], cells=1, child_cells=[2, 2])  # weights 1/4
    >>> children = [torch.tensor(v).log().view(1, 1, 2, 1) for v in ([0.2, 0.6], [0.5, 1.0])]
    >>> round(layer(children, None, [None], 0).exp().item(), 6)
    0.3

    # P joint cells, K own cells, u units per cell, n_i units per cell of factor i; logits (E, F, u, P, n_1,
    ..., n_m)
    """

    def __init__(
        self,
        experts: int,
        regions: int,
        units: int,
        child_units: Sequence[int],
        cells: int,
        child_cells: Sequence[int],
    ) -> None:
        super().__init__()
        self.cells, self.child_cells = cells, tuple(child_cells)
        per_cell = [n // k for n, k in zip(child_units, child_cells, strict=True)]
        self.weight = _start(experts, regions, units // cells, math.prod(child_cells), *per_cell)

    def forward(
        self,
        children: Sequence[Tensor],
        experts: Tensor | None,
        routes: Sequence[Tensor | None],
        outward: int,
    ) -> Tensor:
        logits = _pick(self.weight, experts, children[0])
        joint = self.joint_values(logits, children)
        weights = joint_weights(logits)
        regions = [route_cells(joint[:, f], weights[:, f], route) for f, route in enumerate(routes)]
        out = torch.stack(regions, 1)
        if outward == 0:
            return out
        terms = math.prod(child.shape[2] for child in children)
        step = widen(out, [largest(child) for child in children], terms, outward) - out
        slack = 16 * UNIT * (finite(logits.detach()).abs().max() + math.log(terms))  # of the log weights
        return out + 3 * finite(step) + outward * slack

    def joint_values(self, logits: Tensor, children: Sequence[Tensor]) -> Tensor:
        """log Σ_ab W[u, ab | ij] l[i, a] r[j, b] for every joint cell: (E, F, u, P, B).

        In a joint cell of weight zero W[u, ab | ij] is 0/0 and counts for nothing: it is taken as uniform.
        """
        nothing = (logits == -torch.inf).flatten(4).all(-1).view(*logits.shape[:4], *[1] * len(children))
        logits = torch.where(nothing, 0.0, logits)
        factors = [_spread(child, slot, self.child_cells) for slot, child in enumerate(children)]
        inner = logits.movedim(3, 2).flatten(1, 2)
        last = factors[1]
        if len(factors) == 3:
            last = (factors[1].unsqueeze(3) + factors[2].unsqueeze(2)).flatten(2, 3)
            inner = inner.flatten(-2)
        values = log_tucker(inner, factors[0], last)
        return values.unflatten(1, (-1, logits.shape[3])).movedim(2, 3)


def joint_weights(logits: Tensor) -> Tensor:
    """log Σ_ab W[u, ij, ab], the weight of each joint cell: (E, F, u, P, ...) -> (E, F, u, P).

    >>> joint_weights(torch.tensor([0.0, 0.0, -torch.inf, -torch.inf]).view(1, 1, 1, 2, 2)).flatten().tolist()
    [0.0, -inf]
    """
    return torch.log_softmax(log_sum(logits.flatten(4), -1), -1)


def _spread(values: Tensor, slot: int, cells: Sequence[int]) -> Tensor:
    """Repeats a factor's cells over all joint cells: (E, F, K * n, B) -> (E, F * P, n, B)."""
    experts, regions, units, rows = values.shape
    shape = [1] * len(cells)
    shape[slot] = cells[slot]
    shaped = values.reshape(experts, regions, *shape, units // cells[slot], rows)
    return shaped.expand(experts, regions, *cells, -1, rows).flatten(1, 1 + len(cells))


def route_cells(joint: Tensor, weights: Tensor, route: Tensor | None) -> Tensor:
    """Joint cells (E, u, P, B) of log weights (E, u, P) -> the units of the own cells (E, K * u, B).

    >>> joint, weights = torch.tensor([0.2, 0.6]).log().view(1, 1, 2, 1), torch.tensor([[[0.5, 0.5]]]).log()
    >>> route = torch.tensor([[1.0, 1.0], [0.0, 0.0]]).log()  # both to the first cell, none to the second
    >>> [round(value, 6) for value in route_cells(joint, weights, route).exp().flatten().tolist()]
    [0.4, 0.0]
    """
    if route is None:
        return log_sum(joint + weights.unsqueeze(-1), 2)
    cells: list[Tensor] = []
    for log_share in route.to(joint.dtype):
        members = torch.nonzero(log_share > -torch.inf).squeeze(-1)
        if len(members) == 0:
            cells.append(torch.full_like(joint[:, :, 0], -torch.inf))
            continue
        shares = weights[..., members] + log_share[members]
        nothing = (shares == -torch.inf).all(-1, keepdim=True)
        shares = torch.log_softmax(torch.where(nothing, 0.0, shares), -1).masked_fill(nothing, -torch.inf)
        cells.append(log_sum(joint[:, :, members] + shares.unsqueeze(-1), 2))
    return torch.cat(cells, 1)
