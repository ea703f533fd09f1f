"""What a model is made of, without its learned numbers: enough to build it again and load them.

# K cells, d variables of a gate
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.geometry.boxes import Box
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.tessellation import Tessellation
from voronoi_circuits.models.base import Model
from voronoi_circuits.models.exact import CircuitModel, MixtureModel
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.vt import VTModel


def describe(model: Model) -> dict[str, Any]:
    """The structure of a plain circuit, mixture, VT or HFV model, as what ``plain`` turns into JSON.

    >>> from voronoi_circuits.specs import Circuit
    >>> model = Circuit(units=2).build(torch.randn(50, 2, generator=torch.Generator().manual_seed(0)))
    >>> describe(model)["kind"]
    'CircuitModel'
    """
    gates: dict[str, Any]
    match model:
        case VTModel():
            gates = {"gates": [(gate.region, gate.variables, gate.n_cells) for gate in model.placed]}
        case HFVModel():
            intervals = {int(key): model.interval_cells(int(key)).n_cells for key in model.intervals}
            coarse = {int(key): tuple(model.coarse_cells(int(key)).centroids.shape) for key in model.coarse}
            gates = {"intervals": intervals, "coarse": coarse}
        case _ if type(model) in (CircuitModel, MixtureModel):
            gates = {}
        case _:
            raise ValueError(
                f"a {type(model).__name__} cannot be saved: save the estimator or model that it was made from"
            )
    assert isinstance(model, MixtureModel | VTModel | HFVModel)
    circuit = model.experts.circuit
    domain = None if model.domain is None else [model.domain.low.tolist(), model.domain.high.tolist()]
    return {
        "kind": type(model).__name__,
        "graph": circuit.graph,
        "experts": circuit.n_experts,
        "leaves": circuit.leaf_options,
        "domain": domain,
        **gates,
    }


def rebuild(structure: Mapping[str, Any], state: Mapping[str, torch.Tensor]) -> Model:
    """The model of a description, with the parameters and buffers of its ``state_dict``.

    >>> from voronoi_circuits.specs import VT, Circuit
    >>> rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))
    >>> model = VT(Circuit(units=2), cells=3).build(rows, torch.Generator().manual_seed(0))
    >>> twin = rebuild(describe(model), model.state_dict())
    >>> bool((twin.log_unnormalized(rows) == model.log_unnormalized(rows)).all())
    True
    """
    circuit = FoldedCircuit(structure["graph"], structure["experts"], structure["leaves"])
    model: Model
    match structure["kind"]:
        case "CircuitModel":
            model = CircuitModel(circuit)
        case "MixtureModel":
            model = MixtureModel(circuit)
        case "VTModel":
            gates = [
                VoronoiGate(r, v, Tessellation(torch.zeros(k, len(v)))) for r, v, k in structure["gates"]
            ]
            model = VTModel(circuit, gates)
        case "HFVModel":
            intervals = {r: IntervalPartition(torch.zeros(1, k)) for r, k in structure["intervals"].items()}
            coarse = {r: Tessellation(torch.zeros(*shape)) for r, shape in structure["coarse"].items()}
            model = HFVModel(circuit, intervals, coarse)
        case kind:
            raise ValueError(
                f"this version knows no model of kind {kind!r}: read it with the version that saved it"
            )
    model.load_state_dict(dict(state), strict=True)
    if structure["domain"] is not None:
        low, high = (torch.tensor(side, dtype=torch.float64) for side in structure["domain"])
        model.domain = Box(low, high)
    return model
