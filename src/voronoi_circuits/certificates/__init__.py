"""Proven bounds of what an oblique gate makes intractable."""

from voronoi_circuits.certificates.certificate import Certificate, Status, Step
from voronoi_circuits.certificates.certify import certify
from voronoi_circuits.certificates.rows import (
    conditional_bounds,
    integral_bounds,
    marginal_bounds,
    probability_bounds,
)

__all__ = [
    "Certificate",
    "Status",
    "Step",
    "certify",
    "conditional_bounds",
    "integral_bounds",
    "marginal_bounds",
    "probability_bounds",
]
