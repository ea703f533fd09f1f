"""What a record says, read the way the tables and figures need it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from statistics import fmean, stdev
from typing import NamedTuple

from experiments.results import Record

Score = Callable[[Record], float | None]


class Summary(NamedTuple):
    """Mean and deviation over so many seeds."""

    mean: float
    deviation: float
    seeds: int


def headline(record: Record) -> float | None:
    """The exact log-likelihood; of a VT model the certified lower bound, refined where the setting is ours.

    None stands for a bound that proves nothing, here and below.
    """
    scores = record["scores"]
    if "exact" in scores:
        return scores["exact"]
    return scores["refined" if record["shown"].get("ours") else "boxes"]["lower"]


def best_known(record: Record) -> float | None:
    """The exact log-likelihood, or the refined lower bound."""
    scores = record["scores"]
    return scores["exact"] if "exact" in scores else scores["refined"]["lower"]


def certified(name: str, side: str) -> Score:
    """A side of the interval by one of the certificates."""
    return lambda record: record["scores"][name][side]


def ungated(record: Record) -> float | None:
    """The log-likelihood of the ungated twin."""
    return record["scores"].get("ungated")


def log_z(side: int) -> Score:
    """A side of the refined interval of log Z."""
    return lambda record: record["scores"]["refined"]["log_z"][side]


def true_gap(record: Record) -> float | None:
    """How far the paper's lower bound lies below the log-likelihood, which the refined one stands for."""
    low, high = certified("boxes", "lower")(record), certified("refined", "lower")(record)
    return None if low is None or high is None else high - low


def is_vt(record: Record) -> bool:
    """Whether the model has bounds only."""
    return "boxes" in record["scores"]


def summary(records: Iterable[Record], score: Score) -> Summary | None:
    """Mean and deviation over seeds; None where one of them proves nothing.

    >>> summary([{"x": 1.0}, {"x": 3.0}], lambda record: record["x"])
    Summary(mean=2.0, deviation=1.4142135623730951, seeds=2)
    """
    values = [score(record) for record in records]
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    return Summary(fmean(numbers), stdev(numbers) if len(numbers) > 1 else 0.0, len(numbers))


def groups(records: Iterable[Record]) -> dict[tuple[str, str, str], list[Record]]:
    """Records of all seeds, by set, structure and model."""
    found: dict[tuple[str, str, str], list[Record]] = {}
    for record in records:
        found.setdefault((record["name"], record["structure"], record["model"]), []).append(record)
    return found
