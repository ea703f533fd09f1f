"""Why HFV falls short of the plain circuit of its size on the spiral, and what helps.

    python -m experiments.hfv_spiral [--seeds 3]

HCLT in two dimensions: a plain circuit of 6 units (60 parameters) against HFV models of about as many, by
several ways of learning; mean and deviation of the test log-likelihood over seeds, as a table.
"""

from __future__ import annotations

import argparse
import statistics
import sys

import torch

from voronoi_circuits import datasets
from voronoi_circuits.models.exact import ExactModel
from voronoi_circuits.specs import HFV, Circuit, Specification
from voronoi_circuits.training import Adam

BASE = Circuit("hclt", product="tucker", units=6)
PAPER = {"anneal": (1.0, 50.0)}
OURS = {"anneal": "auto", "objective": "normalized"}
TRIALS: dict[str, tuple[Specification, Adam]] = {
    "plain circuit, 6 units": (BASE, Adam(**PAPER)),
    "plain circuit, 6 units, 200 epochs": (BASE, Adam(epochs=200, **PAPER)),
    "HFV 2 x 3, the paper's learner": (HFV(BASE, cells=2, units_per_cell=3), Adam(**PAPER)),
    "HFV 2 x 3, ours": (HFV(BASE, cells=2, units_per_cell=3), Adam(**OURS)),
    "HFV 2 x 3, ours, 200 epochs": (HFV(BASE, cells=2, units_per_cell=3), Adam(epochs=200, **OURS)),
    "HFV 2 x 3, slow annealing": (
        HFV(BASE, cells=2, units_per_cell=3),
        Adam(anneal=(0.2, 20.0), objective="normalized"),
    ),
    "HFV 3 x 2, ours": (HFV(BASE, cells=3, units_per_cell=2), Adam(**OURS)),
    "HFV 2 x 4, ours": (HFV(BASE, cells=2, units_per_cell=4), Adam(**OURS)),
}


def score(specification: Specification, learner: Adam, seed: int) -> tuple[float, int]:
    """The test log-likelihood of one run, and the model's parameters."""
    data = datasets.load("spiral", seed=0)
    train, val, test = (torch.from_numpy(rows) for rows in (data.train, data.val, data.test))
    generator = torch.Generator().manual_seed(seed)
    model = specification.build(train, generator)
    learner.fit(model, train, val, generator=generator)
    assert isinstance(model, ExactModel)
    with torch.no_grad():
        return float(model.log_prob(test.double()).mean()), model.n_parameters


def main(seeds: int) -> None:
    """Prints the table."""
    torch.set_num_threads(1)
    sys.stdout.write("| model | parameters | test log-likelihood |\n|---|---:|---:|\n")
    for name, (specification, learner) in TRIALS.items():
        runs = [score(specification, learner, seed) for seed in range(seeds)]
        values = [value for value, _ in runs]
        spread = statistics.stdev(values) if seeds > 1 else 0.0
        sys.stdout.write(f"| {name} | {runs[0][1]} | {statistics.mean(values):.3f} ± {spread:.3f} |\n")
        sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="runs of each model")
    main(parser.parse_args().seeds)
