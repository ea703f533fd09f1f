"""Small models on small data, for tests of training."""

import torch
from torch import Tensor

from voronoi_circuits import datasets
from voronoi_circuits.models.base import Model
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture, Specification

EXPERT = Circuit("einet", "tucker", units=3)
SPECS: dict[str, Specification] = {
    "circuit": EXPERT,
    "mixture": Mixture(EXPERT, components=3),
    "vt": VT(EXPERT, cells=4),
    "vt-shared": VT(EXPERT, cells=4, shared=True),
    "hfv": HFV(EXPERT, cells=3, units_per_cell=2),
}


def pinwheel(n: int = 1000) -> tuple[Tensor, Tensor]:
    """Training and validation rows, (n, 2) and (500, 2)."""
    data = datasets.load("pinwheel", seed=0)
    return torch.from_numpy(data.train[:n]), torch.from_numpy(data.val[:500])


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def built(name: str, rows: Tensor, seed: int = 0) -> Model:
    return SPECS[name].build(rows, seeded(seed))


def state(model: Model) -> dict[str, Tensor]:
    """A copy of all parameters."""
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(first: dict[str, Tensor], second: dict[str, Tensor]) -> bool:
    """Whether two states are bit-identical."""
    return first.keys() == second.keys() and all(torch.equal(first[name], second[name]) for name in first)
