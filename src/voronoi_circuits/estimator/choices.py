"""What a name or "auto" stands for: models by name, the default learner, the paper's protocol.

# n rows, D columns, K cells
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sklearn.base import clone

from voronoi_circuits.circuits.region_graph import RegionGraph, valid_name
from voronoi_circuits.specs import (
    HFV,
    VT,
    Circuit,
    Mixture,
    Specification,
    default_expert,
    positive,
)
from voronoi_circuits.training import Adam

MODELS = ("circuit", "mixture", "vt", "hfv")
REMEDIES = {"model": "vc.VT(...)", "learner": "vc.Adam(...)", "expert": "vc.Circuit(...)"}
"""What to give in the place of a name or None, so that it has parameters."""
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


def leaves_by_position(
    model: Specification, positions: Callable[[Iterable[Any]], list[int]]
) -> Specification:
    """The specification, its leaves that are given by column name given by position instead.

    >>> leaves_by_position(Circuit(leaf={"b": "histogram"}), lambda names: [1]).leaf
    {1: 'histogram'}
    """
    expert = _expert(model)
    leaf: Any = None if expert is None else expert.leaf
    if not isinstance(leaf, Mapping) or not any(isinstance(column, str) for column in leaf):
        return model
    moved = dict(zip(positions(leaf), leaf.values(), strict=True))
    copy: Any = clone(model)
    return copy.set_params(**{"leaf" if isinstance(model, Circuit) else "expert__leaf": moved})


def leaf_columns(model: Specification, n_columns: int, family: str) -> list[int]:
    """The columns with leaves of a family.

    >>> leaf_columns(VT(Circuit(leaf={1: "categorical"})), 3, "categorical")
    [1]
    """
    expert = _expert(model)
    if expert is None:
        return []
    if isinstance(expert.structure, RegionGraph):
        leaves = {region.scope[0] for region in expert.structure.regions if region.leaf == family}
        return sorted(column for column in leaves if column < n_columns)
    return [column for column, leaf in enumerate(expert.families(n_columns)) if leaf == family]


def _expert(model: Specification) -> Circuit | None:
    """The circuit of the experts, of one's own specification None."""
    if isinstance(model, Circuit):
        return model
    return default_expert(model.expert) if isinstance(model, Mixture | VT | HFV) else None


def check_reached(estimator: Any, settings: Mapping[str, Any]) -> None:
    """Refuses parameters of what is a name or None, such as ``model__cells`` of the model "vt"."""
    for path in settings:
        holder, parts = estimator, path.split("__")
        for depth, part in enumerate(parts[:-1], 1):
            name = "__".join(parts[:depth])
            if part not in REMEDIES or part not in (own := holder.get_params(deep=False)):
                break
            holder = settings.get(name, own[part])
            if holder is None or isinstance(holder, str):
                what = f"the name {holder!r}" if holder else "None"
                kind = "specification" if part == "model" else part
                raise ValueError(f"{name} is {what}; give the {kind} {REMEDIES[part]} to set its parameters")


def paper_model(model: str, structure: str, units: int) -> Specification:
    """The paper's model: Tucker products, and gates in the place of sums, so as many cells as units.

    VT's experts are roots of one circuit, HFV has one unit a cell. The mixture, which the paper leaves out,
    has as many independent circuits.
    """
    structure = valid_name("structure", structure, ("hclt", "einet"))
    expert = Circuit(structure, product="tucker", units=positive("units", units))
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
