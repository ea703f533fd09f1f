"""Time of a training step, ours against libcirkit's: forward, mean negative log-likelihood, backward, Adam.

# B rows, D variables, U units

Both libraries hold the same parameters on the same region graph, see the same rows and step by the same
optimiser. Before anything is timed their outputs agree in float64. Rounds are short and interleaved, so that
whatever else the machine does meets both alike; the time of a cell is the fastest of its rounds.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.libcirkit_peer import libcirkit_circuit, random_parameters, training_step
from benchmarks.ours import our_circuit, plain_regions
from voronoi_circuits.circuits.chow_liu import chow_liu_tree
from voronoi_circuits.circuits.region_graph import RegionGraph
from voronoi_circuits.circuits.structures import hidden_chow_liu, random_binary_tree

ROWS = 500
TOLERANCE = 1e-6
OPTIMISER: dict[str, Any] = {"lr": 0.01, "fused": True}  # both libraries', as our training has it
LIBRARIES: dict[str, Callable[..., nn.Module]] = {
    "ours": our_circuit,
    "libcirkit": lambda graph, parameters, dtype: libcirkit_circuit(plain_regions(graph), parameters, dtype),
}


@dataclass(frozen=True)
class Case:
    """One cell of the table: "einet" (Tucker) or "hclt" (CP), D variables, U units."""

    structure: str
    variables: int
    units: int

    def rows(self) -> Tensor:
        """Correlated rows of moderate size (B, D), float64: libcirkit clamps log-densities below -708."""
        steps = np.random.default_rng(0).normal(size=(ROWS, self.variables)).cumsum(1)
        return torch.from_numpy(steps / np.sqrt(self.variables))

    def graph(self) -> RegionGraph:
        """The region graph, the same at every call."""
        if self.structure == "einet":
            generator = torch.Generator().manual_seed(0)
            return random_binary_tree(self.variables, units=self.units, generator=generator)
        return hidden_chow_liu(chow_liu_tree(self.rows()).tolist(), units=self.units)

    def models(self, dtype: torch.dtype) -> dict[str, nn.Module]:
        """Both libraries' circuits on one draw of parameters, by library."""
        graph = self.graph()
        parameters = random_parameters(plain_regions(graph), np.random.default_rng(0))
        return {library: build(graph, parameters, dtype) for library, build in LIBRARIES.items()}

    def disagreement(self) -> float:
        """The largest difference of two float64 log-likelihoods; refused where it exceeds the tolerance."""
        rows = self.rows()
        with torch.no_grad():
            ours, theirs = (model(rows) for model in self.models(torch.float64).values())
        worst = float((ours - theirs).abs().max())
        if not worst <= TOLERANCE:
            raise ValueError(f"{self}: the libraries differ by {worst:.1e} nats, so their times mean nothing")
        return worst


CASES = [Case(s, d, u) for s in ("einet", "hclt") for d in (2, 3, 6) for u in (5, 10, 40)]


@dataclass(frozen=True)
class Timing:
    """What was measured of one case: seconds of one step, by library, and how far the outputs are apart."""

    case: Case
    seconds: dict[str, float]
    disagreement: float

    @property
    def ratio(self) -> float:
        """Our time in units of libcirkit's."""
        return self.seconds["ours"] / self.seconds["libcirkit"]


def measure(cases: Iterable[Case], rounds: int, steps: int, tick: Callable[[], None]) -> list[Timing]:
    """Times every case in every round; ``tick`` is called after each round."""
    contests = [(case, case.disagreement(), _trainers(case)) for case in cases]
    fastest = {(case, library): torch.inf for case, _, trainers in contests for library in trainers}
    for _ in range(rounds):
        for case, _, trainers in contests:
            for library, step in trainers.items():
                fastest[case, library] = min(fastest[case, library], seconds_a_step(step, steps))
        tick()
    return [
        Timing(case, {library: fastest[case, library] for library in trainers}, worst)
        for case, worst, trainers in contests
    ]


def _trainers(case: Case) -> dict[str, Callable[[], object]]:
    rows = case.rows().float()

    def trainer(model: nn.Module) -> Callable[[], object]:
        optimizer = torch.optim.Adam(model.parameters(), **OPTIMISER)
        return lambda: training_step(model, optimizer, rows)

    return {library: trainer(model) for library, model in case.models(torch.float32).items()}


def seconds_a_step(step: Callable[[], object], steps: int) -> float:
    """The mean over a few steps, after one that warms the caches."""
    step()
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return (time.perf_counter() - start) / steps
