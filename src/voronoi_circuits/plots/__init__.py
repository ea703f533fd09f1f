"""Pictures of models in the plane and of plain tables, in one style."""

from voronoi_circuits.plots.plane import side_by_side
from voronoi_circuits.plots.tables import gap_curves, learning_curves, synthetic_figure

__all__ = ["gap_curves", "learning_curves", "side_by_side", "synthetic_figure"]
