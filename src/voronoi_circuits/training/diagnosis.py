"""Why a loss stopped being a number."""

from __future__ import annotations

from torch import Tensor

from voronoi_circuits.circuits.leaves.gaussian import Gaussian
from voronoi_circuits.models.base import Model


class TrainingError(ValueError):
    """Training met a loss or a parameter that is no number."""


def broken_parameters(model: Model) -> list[str]:
    """The names of parameters that hold NaN or infinities, or logarithms of deviations beyond all numbers.

    >>> import torch
    >>> from voronoi_circuits.specs import Circuit
    >>> rows = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    >>> broken_parameters(Circuit(units=2).build(rows))
    []
    """
    broken = [name for name, parameter in model.named_parameters() if not bool(parameter.isfinite().all())]
    leaves = [(name, module) for name, module in model.named_modules() if isinstance(module, Gaussian)]
    return broken + [f"{name}.raw" for name, leaf in leaves if not bool(_deviation(leaf).isfinite().all())]


def likely_cause(model: Model, learning_rate: float) -> str:
    """The likely cause of a loss that is no number."""
    broken = broken_parameters(model)
    if broken:
        return (
            f"parameter {broken[0]} is no longer in the range of numbers: the step was too long; "
            f"lower learning_rate={learning_rate:g}, and look for rows far from all others"
        )
    collapsed = sum(_collapsed(module) for module in model.modules() if isinstance(module, Gaussian))
    if collapsed:
        return (
            f"{collapsed} deviations have collapsed to their floor: a column repeats a value, or a unit owns "
            f"one row; lower learning_rate={learning_rate:g}, or take fewer units"
        )
    return f"lower learning_rate={learning_rate:g}, and look for rows far from all others"


def _deviation(leaf: Gaussian) -> Tensor:
    """The deviations of a leaf in the dtype of its parameters, in which it is trained."""
    return leaf.deviation(leaf.raw.dtype)


def _collapsed(leaf: Gaussian) -> int:
    """How many deviations of a leaf are within 1% of its floor."""
    return int((leaf.deviation() < 1.01 * leaf.floor).sum())
