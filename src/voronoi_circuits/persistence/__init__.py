"""Models on disk: a folder of JSON and safetensors whose every byte is accounted for."""

from voronoi_circuits.persistence.folders import DamagedModelError, check_place, read_folder, write_folder
from voronoi_circuits.persistence.structures import describe, rebuild
from voronoi_circuits.persistence.values import plain, restored

__all__ = [
    "DamagedModelError",
    "check_place",
    "describe",
    "plain",
    "read_folder",
    "rebuild",
    "restored",
    "write_folder",
]
