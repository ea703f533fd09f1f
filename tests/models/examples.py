"""Every kind of model on three variables, and the rows that they are built from."""

import numpy as np
import torch

from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.models.base import Model
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture, Specification


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def leaf(variable: int, units: int = 2) -> Region:
    return Region((variable,), units, "leaf", leaf="gaussian")


PAIRS = RegionGraph(
    (leaf(0), leaf(1), leaf(2), Region((0, 1), 3, "tucker", (0, 1)), Region((0, 1, 2), 1, "tucker", (3, 2)))
)
TRIPLE = RegionGraph(
    (leaf(0), leaf(1), leaf(2), Region((0, 1, 2), 2, "cp", (0, 1, 2)), Region((0, 1, 2), 1, "sum", (3,)))
)
PLAIN = Circuit(units=2)
DISCRETE = Circuit(units=2, leaf={1: "categorical"})

SPECS: dict[str, Specification] = {
    "circuit": Circuit(units=3),
    "circuit, tucker, repetitions": Circuit("einet", "tucker", 2, repetitions=2),
    "circuit, families": Circuit(units=2, leaf={1: "categorical", 2: "histogram"}),
    "mixture": Mixture(PLAIN, 3),
    "vt": VT(PLAIN, 4),
    "vt, shared": VT(Circuit(units=3, product="tucker"), 4, shared=True),
    "vt, one cell": VT(PLAIN, 1),
    "vt, internal": VT(Circuit(PAIRS), 3, gate_at=(0, 1)),
    "vt, nested": VT(Circuit(PAIRS), 3, gate_at=["root", (0, 1)]),
    "vt, nested, shared": VT(Circuit(PAIRS), 3, shared=True, gate_at=["root", (0, 1)]),
    "vt, discrete column": VT(DISCRETE, 3),
    "hfv": HFV(Circuit(units=3), 3, 2),
    "hfv, tree": HFV(Circuit("einet", "tucker", 2), 3, 2),
    "hfv, lower level": HFV(Circuit(PAIRS), 2, levels=[1]),
    "hfv, three factors": HFV(Circuit(TRIPLE), 2, 2),
    "hfv, cells by scope": HFV(Circuit(PAIRS), {0: 3, 1: 2, 2: 2, (0, 1): 4}),
    "hfv, discrete column": HFV(DISCRETE, 3),
}


def rows(n: int = 200, seed: int = 0, discrete: bool = False) -> torch.Tensor:
    """Two clumps with correlated columns; the second column is a code where asked."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 3)) * 0.6 + rng.choice([-1.0, 1.0], (n, 1))
    x[:, 2] += 0.5 * x[:, 0]
    if discrete:
        x[:, 1] = rng.integers(0, 3, n)
    return torch.tensor(x, dtype=torch.float32)


def is_discrete(name: str) -> bool:
    return "discrete" in name or "families" in name


def build(name: str, seed: int = 0, scale: float = 1.0) -> Model:
    """The model, its cells k-means', its weights random and unequal."""
    spec = SPECS[name.removesuffix(", soft")]
    model = spec.build(rows(discrete=is_discrete(name)), seeded(seed))
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if key == "experts.logits":
                parameter.normal_(generator=seeded(seed)).mul_(scale)
    return model.soften(2.0) if name.endswith(", soft") else model


def points(name: str, n: int = 40, seed: int = 1, dtype=torch.float64) -> torch.Tensor:
    return rows(n, seed, is_discrete(name)).to(dtype)


HARD = list(SPECS)
SOFT = [name + ", soft" for name in SPECS if name.startswith(("vt", "hfv"))]
EXACT = [name for name in SPECS if not name.startswith("vt")]
VTS = [name for name in SPECS if name.startswith("vt")]
HFVS = [name for name in SPECS if name.startswith("hfv")]
