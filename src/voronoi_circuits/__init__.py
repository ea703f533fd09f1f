"""Geometry-aware probabilistic circuits via Voronoi tessellations, with certified likelihoods."""

__version__ = "0.1.0.dev0"
