"""Tables: rows in and out of arrays, frames and files, and standardised columns."""

from voronoi_circuits.tables.files import read_csv, write_csv
from voronoi_circuits.tables.frames import Rows, column_label, read_rows, to_container
from voronoi_circuits.tables.standard import StandardTransform

__all__ = ["Rows", "StandardTransform", "column_label", "read_csv", "read_rows", "to_container", "write_csv"]
