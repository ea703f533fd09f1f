"""What a certificate says: an interval that holds log Z, how sure it is, why it stopped and what it cost."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass
from typing import NamedTuple


class Status(enum.Enum):
    """Why a certificate stopped."""

    EXACT = "exact"
    TOLERANCE = "tolerance met"
    BOXES = "boxes spent"
    SECONDS = "seconds spent"
    INITIAL = "initial boxes"
    INTERRUPTED = "interrupted"
    VACUOUS = "vacuous"

    @property
    def message(self) -> str:
        """A sentence for a person."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.EXACT: "The model integrates exactly; there is nothing to bound.",
    Status.TOLERANCE: "The bounds are as close as was asked for.",
    Status.BOXES: "All boxes that were allowed have been used; allow more max_boxes for a tighter interval.",
    Status.SECONDS: "The time that was allowed ran out; give a larger budget for a tighter interval.",
    Status.INITIAL: "One inner and one outer box a cell, without refinement.",
    Status.INTERRUPTED: "Interrupted; the bounds hold as far as they got.",
    Status.VACUOUS: "Nothing was proven beyond Z <= 1; allow more boxes or another method.",
}


class Step(NamedTuple):
    """The bounds of log Z after so many boxes and seconds."""

    boxes: int
    seconds: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Certificate:
    """lower <= log Z <= upper, at ``confidence`` (1 is a proof).

    >>> print(Certificate(-0.11, -0.1, "refine", Status.TOLERANCE, boxes=900, seconds=0.5))
    log Z is proven to lie in [-0.1100, -0.1000] (gap 0.01 nats) by refine, 900 boxes, 0.5 s: tolerance met.
    """

    lower: float
    upper: float
    method: str
    status: Status
    confidence: float = 1.0
    boxes: int = 0
    seconds: float = 0.0
    history: tuple[Step, ...] = ()

    @property
    def gap(self) -> float:
        """upper - lower, in nats: how far a reported likelihood can be from the truth."""
        return self.upper - self.lower if self.lower > -math.inf else math.inf

    def intersect(self, other: Certificate) -> Certificate:
        """What two proofs say together; method, status and history are those of the smaller gap."""
        if self.confidence < 1 or other.confidence < 1:
            raise ValueError("only proofs (confidence 1) intersect without losing confidence")
        best = self if self.gap <= other.gap else other
        return Certificate(
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            best.method,
            best.status,
            1.0,
            self.boxes + other.boxes,
            self.seconds + other.seconds,
            best.history,
        )

    def __str__(self) -> str:
        """One sentence."""
        if self.status is Status.EXACT:
            return f"log Z = {self.upper:.6f}, exactly."
        return (
            f"log Z is proven to lie in [{self.lower:.4f}, {self.upper:.4f}] (gap {self.gap:.2g} nats) "
            f"by {self.method}, {self.boxes} boxes, {self.seconds:.2g} s: {self.status.value}."
        )
