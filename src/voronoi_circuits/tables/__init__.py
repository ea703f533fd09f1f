"""Tables: rows in and out of arrays, frames and files, and standardised columns."""

from voronoi_circuits.tables.files import check_file_place, check_folder_of, read_csv, write_csv
from voronoi_circuits.tables.frames import Rows, column_label, read_rows, to_container
from voronoi_circuits.tables.standard import StandardTransform

__all__ = [
    "Rows",
    "StandardTransform",
    "check_file_place",
    "check_folder_of",
    "column_label",
    "read_csv",
    "read_rows",
    "to_container",
    "write_csv",
]
