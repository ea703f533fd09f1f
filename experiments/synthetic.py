"""The paper's Figures "synthetic", "tessellation overlays" and "learning curves".

    python -m experiments.synthetic --out DIR [--quick] [--seeds N] [--workers N]

Runs the grid of synthetic.toml, writes DIR/results.jsonl run by run, and rebuilds the figures and report.md
from it. Stopped at any moment, the same command goes on where it stopped; the grid is run seed by seed, so
what is there is a whole grid of fewer seeds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from experiments import configuration, report, results
from experiments.configuration import Run
from experiments.runs import execute

CONFIGURATION = configuration.HERE / "synthetic.toml"


def main(
    out: Path, *, quick: bool = False, seeds: int = 3, workers: int = 2, settings: Path = CONFIGURATION
) -> None:
    """Runs what is not finished yet, then rebuilds the report.

    Args:
        out: the folder of the results.
        quick: a part of the grid, smaller, with one seed.
        seeds: runs of each model on each set.
        workers: processes, of one thread each.
        settings: the configuration.
    """
    for name, value in (("seeds", seeds), ("workers", workers)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, not {value}")
    file = out / "results.jsonl"
    runs = configuration.grid(configuration.read(settings, quick=quick), seeds)
    done = results.finished(results.read(file))
    left = sorted((run for run in runs if run.identity not in done), key=lambda run: run.seed)
    columns = (TextColumn("{task.description:42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as bar:
        task = bar.add_task("runs", total=len(runs), completed=len(runs) - len(left))
        for record in records(left, out / "kept", workers):
            results.append(file, record)
            bar.update(task, advance=1, description=results.run_of(record).key)
    report.write(out)


def records(runs: Sequence[Run], kept: Path, workers: int) -> Iterator[dict[str, Any]]:
    """Records of runs as they finish, each run in a process of one thread."""
    if not runs:
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(runs)), context, initializer=alone) as pool:
        try:
            for future in as_completed([pool.submit(execute, run, kept) for run in runs]):
                yield future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def alone() -> None:
    """One thread, and Ctrl-C left to the parent."""
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    parser.add_argument("--quick", action="store_true", help="a part of the grid, smaller, with one seed")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each model on each set")
    parser.add_argument("--workers", type=int, default=2, help="processes, of one thread each")
    try:
        main(**vars(parser.parse_args()))
    except KeyboardInterrupt:
        sys.exit("Stopped. The same command goes on from here.")
