"""The paper's synthetic datasets."""

from voronoi_circuits.datasets.dataset import Dataset
from voronoi_circuits.datasets.loading import available, load

__all__ = ["Dataset", "available", "load"]
