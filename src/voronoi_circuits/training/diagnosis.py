"""Why a loss stopped being a number.

# B rows, D variables
"""

from __future__ import annotations

import torch
from torch import Tensor

from voronoi_circuits.circuits.leaves.categorical import Parts
from voronoi_circuits.circuits.leaves.gaussian import Gaussian
from voronoi_circuits.models.base import Model


class TrainingError(ValueError):
    """Training met a loss or a parameter that is no number."""


def broken_parameters(model: Model) -> list[str]:
    """The names of parameters that hold NaN or infinities.

    >>> from voronoi_circuits.specs import Circuit
    >>> rows = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    >>> broken_parameters(Circuit(units=2).build(rows))
    []
    """
    return [name for name, parameter in model.named_parameters() if not bool(parameter.isfinite().all())]


def likely_cause(model: Model, x: Tensor, values: Tensor, learning_rate: float) -> str:
    """The likely cause of a loss that is no number, given the last batch (B, D) and its log f (B,)."""
    broken = broken_parameters(model)
    if broken:
        return (
            f"parameter {broken[0]} is no longer finite: the step was too long; "
            f"lower learning_rate={learning_rate:g}, and look for rows far from all others"
        )
    impossible = torch.nonzero(values.detach() == -torch.inf).flatten()
    if len(impossible) and any(isinstance(module, Parts) for module in model.modules()):
        row = [round(value, 4) for value in x[impossible[0]].tolist()]
        return (
            f"the row {row} has density 0 under every expert: histogram and categorical leaves reach no "
            "farther than the rows that they were started from; start the model from all training rows"
        )
    collapsed = sum(_collapsed(module) for module in model.modules() if isinstance(module, Gaussian))
    if collapsed:
        return (
            f"{collapsed} deviations have collapsed to their floor: a column repeats a value, or a unit owns "
            f"one row; lower learning_rate={learning_rate:g}, or take fewer units"
        )
    return f"lower learning_rate={learning_rate:g}, and look for rows far from all others"


def _collapsed(leaf: Gaussian) -> int:
    """How many deviations of a leaf are within 1% of its floor."""
    return int((leaf.deviation() < 1.01 * leaf.floor).sum())
