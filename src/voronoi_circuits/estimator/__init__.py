"""The scikit-learn face: fit, score, sample, save."""

from voronoi_circuits.estimator.density import VoronoiDensity, load

__all__ = ["VoronoiDensity", "load"]
