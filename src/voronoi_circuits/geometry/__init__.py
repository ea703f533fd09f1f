"""Tessellations, half-spaces, boxes, soft and hard gates. Knows nothing of circuits."""

from voronoi_circuits.geometry.alignment import Alignment, alignment
from voronoi_circuits.geometry.boxes import Box
from voronoi_circuits.geometry.hierarchies import HierarchicalTessellation, Vtree, scope_of
from voronoi_circuits.geometry.intervals import IntervalPartition
from voronoi_circuits.geometry.kmeans import kmeans, kmeans_intervals
from voronoi_circuits.geometry.products import ProductTessellation
from voronoi_circuits.geometry.routing import grid_points, routes
from voronoi_circuits.geometry.tessellation import Tessellation

__all__ = [
    "Alignment",
    "Box",
    "HierarchicalTessellation",
    "IntervalPartition",
    "ProductTessellation",
    "Tessellation",
    "Vtree",
    "alignment",
    "grid_points",
    "kmeans",
    "kmeans_intervals",
    "routes",
    "scope_of",
]
