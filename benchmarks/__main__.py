"""`python -m benchmarks`: a training step of ours against libcirkit's, in one interleaved run."""

import argparse
import sys
from pathlib import Path

import torch

from benchmarks.report import machine, table, write
from benchmarks.training_step import CASES, measure

RESULTS = Path(__file__).parent / "results"


def main() -> int:
    """Measures, prints, writes; 1 where a cell is slower than libcirkit."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="interleaved rounds (%(default)s)")
    parser.add_argument("--steps", type=int, default=10, help="steps timed in a round (%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="PyTorch's threads (%(default)s)")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results (%(default)s)")
    asked = parser.parse_args()
    for name in ("rounds", "steps", "threads"):
        if getattr(asked, name) < 1:
            parser.error(f"--{name} must be at least 1")
    torch.set_num_threads(asked.threads)
    where = machine()
    timings = measure(
        CASES, asked.rounds, asked.steps, lambda: print(".", end="", file=sys.stderr, flush=True)
    )
    print(file=sys.stderr)
    print(table(timings))
    write(asked.out, timings, {"rounds": asked.rounds, "steps": asked.steps}, where)
    slower = [timing.case for timing in timings if timing.ratio > 1]
    for case in slower:
        print(f"slower than libcirkit: {case}", file=sys.stderr)
    return int(bool(slower))


def _dot() -> None:
    print(".", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
