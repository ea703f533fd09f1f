"""Exact draws from any model: all of it, one cell, or given the values of some variables.

# n draws, D variables, K cells
"""

from __future__ import annotations

import numbers

import numpy as np
import torch
from sklearn.utils.validation import check_random_state
from torch import Tensor

from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.models.rejection import rejection
from voronoi_circuits.models.vt import VTModel
from voronoi_circuits.specs import positive


def draw(model: Model, n: int, cell: int | None, evidence: Tensor, generator: torch.Generator) -> Tensor:
    """n rows (n, D), given the numbers of ``evidence`` (D,), and of one cell or component if it is named.

    A draw is kept with the probability that it belongs to the cell, so what is kept is distributed as the
    cell's rows are.
    """
    positive("n", n)
    if cell is not None and (isinstance(cell, bool) or not isinstance(cell, numbers.Integral)):
        raise ValueError(f"cell must be a whole number or None, not {cell!r}")
    if cell is not None and not 0 <= cell < model.n_cells:
        raise ValueError(f"cell {cell} does not exist: the model has {model.n_cells} cells, counted from 0")
    given = None if bool(torch.isnan(evidence).all()) else evidence
    with torch.no_grad():
        if cell is None:
            return _all(model, n, given, generator)
        if isinstance(model, VTModel) and model.root_gate is not None:
            return model.draw(n, cell=cell, given=given, generator=generator).rows

        def attempt(m: int) -> tuple[Tensor, Tensor]:
            rows = _all(model, m, given, generator)
            chance = model.responsibilities(rows)[:, cell]
            return rows, torch.rand(m, generator=generator, dtype=torch.float64) < chance

        return rejection(attempt, n, f"cell {cell}").rows


def _all(model: Model, n: int, given: Tensor | None, generator: torch.Generator) -> Tensor:
    if given is None:
        return model.sample(n, generator)
    if isinstance(model, VTModel):
        return model.draw(n, given=given, generator=generator).rows
    assert isinstance(model, ExactModel)
    return model.sample_given(given.unsqueeze(0), n, generator)[0]


def seeded(random_state: int | np.random.RandomState | None) -> torch.Generator:
    """A generator seeded as scikit-learn seeds: by a number, a ``RandomState``, or at random.

    >>> seeded(0).initial_seed() == seeded(0).initial_seed()
    True
    """
    return torch.Generator().manual_seed(int(check_random_state(random_state).randint(2**31 - 1)))
