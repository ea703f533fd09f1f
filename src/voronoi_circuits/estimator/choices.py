"""What a name or "auto" stands for: models by name, the default learner, the paper's protocol.

# n rows, K cells
"""

from __future__ import annotations

from voronoi_circuits.circuits.region_graph import valid_name
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture, Specification
from voronoi_circuits.training import Adam

MODELS = ("circuit", "mixture", "vt", "hfv")
ROWS_PER_CELL, MOST_CELLS = 20, 10


def chosen_model(model: object, n: int) -> Specification:
    """The specification itself, or the one that a name stands for; None is "vt".

    By name it takes min(10, n // 20) cells, at least one. A lone circuit has 40 units, experts of cells have
    16 each, and every cell of an HFV factor has 4.

    >>> chosen_model("vt", 100)
    VT(cells=5, expert=Circuit(units=16))
    """
    if isinstance(model, Specification):
        return model
    if not (model is None or isinstance(model, str)):
        names = ", ".join(map(repr, MODELS))
        raise ValueError(f"model must be a specification such as vc.VT(), or one of {names}, not {model!r}")
    cells = max(1, min(MOST_CELLS, n // ROWS_PER_CELL))
    match valid_name("model", model or "vt", MODELS):
        case "circuit":
            return Circuit()
        case "mixture":
            return Mixture(Circuit(units=16), components=cells)
        case "hfv":
            return HFV(Circuit(units=4), cells=cells, units_per_cell=4)
        case _:
            return VT(Circuit(units=16), cells=cells)


def chosen_learner(learner: object) -> Adam:
    """The learner itself, or the default one for "auto" and None."""
    if isinstance(learner, Adam):
        return learner
    if learner is None or learner == "auto":
        return Adam()
    raise ValueError(f"learner must be a learner such as vc.Adam(), or 'auto', not {learner!r}")


def paper_model(model: str, structure: str, units: int) -> Specification:
    """The paper's model: Tucker products, and gates in the place of sums, so as many cells as units.

    VT's experts are roots of one circuit, HFV has one unit a cell. The mixture, which the paper leaves out,
    has as many independent circuits.
    """
    expert = Circuit(structure, product="tucker", units=units)
    match valid_name("model", model, MODELS):
        case "circuit":
            return expert
        case "mixture":
            return Mixture(expert, components=units)
        case "hfv":
            return HFV(expert, cells=units, units_per_cell=1)
        case _:
            return VT(expert, cells=units, shared=True)


def paper_learner() -> Adam:
    """Adam at 0.01 on batches of 500 for 100 epochs, α from 1 to 50."""
    return Adam(epochs=100, batch_size=500, learning_rate=0.01, anneal=(1.0, 50.0))
