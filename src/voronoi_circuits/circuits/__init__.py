"""Circuits: structures as data, folded layers, one pass up and one down. Knows nothing of geometry."""

from voronoi_circuits.circuits.chow_liu import chow_liu_tree, mutual_information
from voronoi_circuits.circuits.folded import FoldedCircuit
from voronoi_circuits.circuits.leaves import Leaf, UnanswerableQuestion, leaf_family
from voronoi_circuits.circuits.moments import flows, root_moments
from voronoi_circuits.circuits.properties import Property, decomposability, determinism, smoothness
from voronoi_circuits.circuits.questions import Gates, Question
from voronoi_circuits.circuits.region_graph import Region, RegionGraph, StructureError
from voronoi_circuits.circuits.sampling import Draws, draw
from voronoi_circuits.circuits.structures import binarise, hfv_graph, hidden_chow_liu, random_binary_tree

__all__ = [
    "Draws",
    "FoldedCircuit",
    "Gates",
    "Leaf",
    "Property",
    "Question",
    "Region",
    "RegionGraph",
    "StructureError",
    "UnanswerableQuestion",
    "binarise",
    "chow_liu_tree",
    "decomposability",
    "determinism",
    "draw",
    "flows",
    "hfv_graph",
    "hidden_chow_liu",
    "leaf_family",
    "mutual_information",
    "random_binary_tree",
    "root_moments",
    "smoothness",
]
