"""Models: a circuit, its gates and root weights. The only room that knows both circuits and geometry."""

from voronoi_circuits.models.base import BoxLike, Exactness, Interval, Kind, Model, NotExactError
from voronoi_circuits.models.exact import CircuitModel, ExactModel, MixtureModel
from voronoi_circuits.models.experts import Experts
from voronoi_circuits.models.gates import VoronoiGate
from voronoi_circuits.models.hfv import HFVModel
from voronoi_circuits.models.rejection import Accepted, RareCellError
from voronoi_circuits.models.soft import GatedModel, SampledPartition, SoftModel
from voronoi_circuits.models.vt import VTModel

__all__ = [
    "Accepted",
    "BoxLike",
    "CircuitModel",
    "ExactModel",
    "Exactness",
    "Experts",
    "GatedModel",
    "HFVModel",
    "Interval",
    "Kind",
    "MixtureModel",
    "Model",
    "NotExactError",
    "RareCellError",
    "SampledPartition",
    "SoftModel",
    "VTModel",
    "VoronoiGate",
]
