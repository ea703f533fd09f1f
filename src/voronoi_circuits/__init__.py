"""Geometry-aware probabilistic circuits via Voronoi tessellations, with certified likelihoods."""

from voronoi_circuits import datasets
from voronoi_circuits.certificates import Certificate, certify
from voronoi_circuits.estimator import VoronoiDensity, load
from voronoi_circuits.specs import HFV, VT, Circuit, Mixture
from voronoi_circuits.training import Adam

__version__ = "0.1.0.dev0"

__all__ = [
    "HFV",
    "VT",
    "Adam",
    "Certificate",
    "Circuit",
    "Mixture",
    "VoronoiDensity",
    "certify",
    "datasets",
    "load",
]
