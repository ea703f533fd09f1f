"""The validation score of an epoch, and the best epoch by it.

# B rows, D variables
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from voronoi_circuits.certificates import Certificate, Status, certify
from voronoi_circuits.models.base import Interval, Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.training.schedules import Phase

Certifier = Callable[[Model], Interval]
_ROWS = 8192  # evaluated at once


class Scores(NamedTuple):
    """Means over rows of log f with soft and hard gates and of bounds of log p; bounds of log Z."""

    soft: float
    hard: float
    lower: float
    upper: float
    log_z_lower: float
    log_z_upper: float


def boxes(model: Model) -> Interval:
    """The default certificate of an epoch: boxes, without a limit in seconds."""
    return certify(model, "boxes", budget=None)


@torch.no_grad()
def validate(model: Model, x: Tensor, phase: Phase, certifier: Certifier) -> Scores:
    """Scores of the model as it is, with hard gates.

    ``lower`` chooses the epoch. An exact model's is the mean of log p, in the dtype of the rows; that of the
    others is proven, log f − log Z⁺ in float64, and limited by boxes, never by seconds.

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> scores = validate(VT(Circuit(units=2), cells=3).build(rows), rows, Phase(1.0), boxes)
    >>> scores.lower < scores.upper
    True
    """
    if isinstance(model, ExactModel):
        hard = _mean(model.log_unnormalized, x)
        log_z = float(model.log_partition())
        lower = upper = hard - log_z
        low = high = log_z
    else:
        certificate = certifier(model)
        if isinstance(certificate, Certificate) and certificate.status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        low, high = certificate.lower, min(certificate.upper, 0.0)
        both = _mean(lambda rows: torch.stack(model.log_prob_bounds(rows, certificate), -1), x.double())
        lower, upper = both.tolist()
        hard = lower + high
    soft = _mean(lambda rows: model.soft_log(rows, phase.alpha), x) if phase.soft else hard
    return Scores(float(soft), float(hard), float(lower), float(upper), low, high)


def _mean(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """The float64 mean of a function of rows, some rows at a time."""
    sums = [function(rows).double().sum(0) for rows in x.split(_ROWS)]
    return torch.stack(sums).sum(0) / len(x)


class Best:
    """The parameters of the epoch with the largest score; of equal ones the last."""

    def __init__(self) -> None:
        self.epoch = 0
        self.score = -float("inf")
        self._state: dict[str, Tensor] = {}

    def offer(self, model: Model, epoch: int, score: float) -> None:
        """Keeps a copy of the parameters if the score is as good as any before."""
        if score >= self.score:
            self.epoch, self.score = epoch, score
            self._state = {name: value.clone() for name, value in model.state_dict().items()}

    def restore(self, model: Model) -> None:
        """Gives the model the parameters that were kept, if any were."""
        if self._state:
            model.load_state_dict(self._state)
