"""Learning: the learner's parameters, schedules, the loop, what it selects by and what it leaves behind."""

from voronoi_circuits.training.adam import Adam
from voronoi_circuits.training.diagnosis import TrainingError
from voronoi_circuits.training.history import History
from voronoi_circuits.training.loop import Fitted
from voronoi_circuits.training.progress import Progress, progress_bar

__all__ = ["Adam", "Fitted", "History", "Progress", "TrainingError", "progress_bar"]
