"""Gaussian leaves.

# E experts, F folded regions, U units, B rows, n draws
# mean, raw (E, F, U); x (E|1, F, 1, B)
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, cast

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from voronoi_circuits.circuits.leaves.base import Leaf, picked, refuse_empty, starting_rows
from voronoi_circuits.circuits.leaves.interval_mass import gaussian_interval_quantile, log_gaussian_interval
from voronoi_circuits.circuits.rounding import UNIT, finite

_LOG_ROOT_TAU = 0.5 * math.log(2 * math.pi)
_JITTER = 0.1


class _LogDensity(Function):
    """-z²/2 - log s - ½ log 2π, z = (x - m)/s, in three elementwise operations.

    Forward and back it takes 0.8 (5 units) to 0.5 (40 units) of the time of plain autograd.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
        precision = deviation.reciprocal()
        z = (x - mean).mul_(precision)
        ctx.save_for_backward(z, precision)
        ctx.rows = x.shape
        return torch.addcmul(-deviation.log() - _LOG_ROOT_TAU, z, z, value=-0.5)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        return _density_gradient(ctx, grads[0])


@once_differentiable
def _density_gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
    """Σ g z/s to the mean, Σ g(z² - 1)/s to the deviation, -g z/s to the rows."""
    z, precision = ctx.saved_tensors
    pull = grad * z
    to_mean = pull.sum(-1, keepdim=True).mul_(precision)
    to_x = (pull * -precision).sum_to_size(ctx.rows) if ctx.needs_input_grad[0] else None
    to_deviation = torch.addcmul(grad, pull, z, value=-1).sum(-1, keepdim=True).mul_(-precision)
    return to_x, to_mean, to_deviation


class Gaussian(Leaf):
    """N(m, s²) with s = floor + exp(raw).

    >>> leaf = Gaussian(experts=1, regions=1, units=1, floor=1e-9)
    >>> round(leaf.log_density(torch.tensor([[[[1000.0]]]], dtype=torch.float64)).item(), 3)
    -500000.918
    """

    family: ClassVar[str] = "gaussian"

    def __init__(self, experts: int, regions: int, units: int, floor: float = 1e-4, **options: Any) -> None:
        super().__init__(experts, regions, units, **options)
        if not 0 <= floor < math.inf:
            raise ValueError(f"floor must be a deviation of at least 0, not {floor}")
        self.floor = floor
        self.location = nn.Parameter(torch.zeros(experts, regions, units))
        self.raw = nn.Parameter(torch.zeros(experts, regions, units))

    def deviation(self, dtype: torch.dtype = torch.float64, experts: Tensor | None = None) -> Tensor:
        """s = floor + exp(raw), (E, F, U)."""
        return picked(self.raw, experts, dtype).exp() + self.floor

    def log_density(self, x: Tensor, experts: Tensor | None = None) -> Tensor:
        """-((x - m)/s)²/2 - log s - ½ log 2π."""
        mean = picked(self.location, experts, x.dtype).unsqueeze(-1)
        return cast(Tensor, _LogDensity.apply(x, mean, self.deviation(x.dtype, experts).unsqueeze(-1)))

    def log_mass(self, low: Tensor, high: Tensor, experts: Tensor | None = None) -> Tensor:
        """log(Φ((high - m)/s) - Φ((low - m)/s))."""
        mean = picked(self.location, experts, low.dtype).unsqueeze(-1)
        deviation = self.deviation(low.dtype, experts).unsqueeze(-1)
        sides = (_standardised(side, mean, deviation) for side in (low, high))
        return log_gaussian_interval(*sides, width=(high - low) / deviation)

    def mean(self, experts: Tensor | None = None) -> Tensor:
        """m."""
        return picked(self.location, experts, torch.float64)

    def variance(self, experts: Tensor | None = None) -> Tensor:
        """s²."""
        return self.deviation(experts=experts).square()

    @torch.no_grad()
    def draw(
        self,
        expert: Tensor,
        region: Tensor,
        unit: Tensor,
        low: Tensor,
        high: Tensor,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """The quantile of a uniform number, in log space: exact in every tail."""
        refuse_empty(self, ~(low < high), region, unit, low, high)
        low, high = low.double(), high.double()
        mean = self.location[expert, region, unit].double()
        deviation = self.raw[expert, region, unit].double().exp() + self.floor
        q = torch.rand(low.shape, generator=generator, dtype=torch.float64, device=low.device)
        q = q * (1 - 2 * UNIT) + UNIT
        z = gaussian_interval_quantile(q, (low - mean) / deviation, (high - mean) / deviation)
        return torch.minimum(torch.maximum(mean + deviation * z, low), high)

    @torch.no_grad()
    def start(
        self, columns: Tensor, generator: torch.Generator | None = None, weights: Tensor | None = None
    ) -> None:
        """Means at random rows, deviations σ U^(-1/5), both with a jitter of 10% of the deviation.

        The deviations are those of a kernel density on U points (Silverman's rule).
        """
        rows, shares = starting_rows(self, columns, weights)
        shape = self.location.shape
        each = self.regions * self.units * (self.experts // shares.shape[0])
        chosen = torch.multinomial(shares, each, replacement=True, generator=generator).view(shape)
        centred = rows - rows.mean(0)
        variance = shares @ centred.square() - (shares @ centred).square()
        spread = variance.clamp(min=0).sqrt().unsqueeze(-1) * self.units**-0.2
        noise = torch.randn(2, *shape, generator=generator, dtype=torch.float64, device=rows.device) * _JITTER
        deviation = spread * noise[0].exp()
        means = rows[chosen, torch.arange(self.regions, device=rows.device).view(1, -1, 1)]
        self.location.copy_(means + deviation * noise[1])
        self.raw.copy_((deviation - self.floor).clamp(min=max(self.floor, 1e-12)).log())

    def rounding(self, value: Tensor) -> Tensor:
        """(160 |value| + 40 |log s| + 128) u, with the largest |log s| of the experts; densities and masses.

        The computed s is off by 3u (exp 2u, sum u), z, the standardised sides and the width by 5u.
        Density: z²/2 by 12u, log s by 3u + 2u|log s|, three sums by 3u. As z²/2 <= |value| + |log s| + 1,
        at most (15|value| + 20|log s| + 20)u, taken more than twice.
        Mass P: in the tail and in the centre log P moves by φ(a)|a|/P and φ(b)|b|/P, together at most
        12.4|log P| + 5, times 5u; where the interval is narrow by 2|log P| + 1 times 6u, 5u for the width.
        Taken twice, with ``LOG_MASS_ERROR``, at most (140|log P| + 114)u.
        """
        scale = self.deviation().detach().log().abs().amax(0).unsqueeze(-1)
        bound = UNIT * (160 * finite(value).abs() + 40 * scale + 128)
        return torch.where(value == -torch.inf, 0.0, bound)


def _standardised(side: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """(side - m)/s with infinite sides left alone, so that they send no NaN back."""
    infinite = torch.isinf(side)
    return torch.where(infinite, side, (torch.where(infinite, 0.0, side) - mean) / deviation)
