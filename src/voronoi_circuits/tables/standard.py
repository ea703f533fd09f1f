"""Columns moved to mean 0 and deviation 1, and what that does to a density."""

# n rows, D columns

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StandardTransform:
    """z = (x - mean) / deviation, column by column; NaN stays NaN.

    A column that is constant where it is observed keeps deviation 1: it is moved and not stretched.

    >>> transform = StandardTransform.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> transform.mean, transform.deviation
    (array([2., 5.]), array([1., 1.]))
    """

    mean: FloatArray
    deviation: FloatArray

    @classmethod
    def fit(cls, values: FloatArray, weights: FloatArray | None = None) -> "StandardTransform":
        """Mean and deviation of the observed values (n, D), rows weighted by `weights` (n,).

        A row of weight 2 counts as two rows, one of weight 0 as none. Every column is measured in its own
        half range, so that neither tiny nor huge values underflow or overflow when squared.

        >>> StandardTransform.fit(np.array([[0.0], [3.0]]), weights=np.array([2.0, 1.0])).mean
        array([1.])
        """
        row_weights = np.ones(len(values)) if weights is None else weights
        if (
            row_weights.shape != (len(values),)
            or not np.isfinite(row_weights).all()
            or (row_weights < 0).any()
        ):
            raise ValueError(f"weights: pass {len(values)} finite numbers, one for each row, none below zero")
        used = ~np.isnan(values) & (row_weights > 0)[:, None]
        if not used.any(axis=0).all():
            empty = int(np.argmin(used.any(axis=0)))
            raise ValueError(
                f"column {empty} has no value in a row of weight above zero; leave the column out"
            )
        high = np.where(used, values, -np.inf).max(axis=0)
        low = np.where(used, values, np.inf).min(axis=0)
        middle, half_range = low / 2 + high / 2, high / 2 - low / 2
        unit = np.where(half_range > 0, half_range, 1.0)
        offset = np.where(used, values - middle, 0.0) / unit
        share = np.where(used, (row_weights / row_weights.max())[:, None], 0.0)
        share /= share.sum(axis=0)
        centre = (share * offset).sum(axis=0)
        spread = np.sqrt((share * (offset - centre) ** 2).sum(axis=0))
        return cls(middle + unit * centre, np.where(half_range > 0, unit * spread, 1.0))

    def forward(self, values: FloatArray) -> FloatArray:
        """Data units (n, D) -> standardised units.

        >>> StandardTransform(np.array([2.0]), np.array([4.0])).forward(np.array([[10.0]]))
        array([[2.]])
        """
        return (values - self.mean) / self.deviation

    def inverse(self, values: FloatArray) -> FloatArray:
        """Standardised units (n, D) -> data units.

        >>> StandardTransform(np.array([2.0]), np.array([4.0])).inverse(np.array([[2.0]]))
        array([[10.]])
        """
        return values * self.deviation + self.mean

    def log_jacobian(self, values: FloatArray) -> FloatArray:
        """log |dz/dx| of each row (n,): -Σ log deviation over its observed columns.

        log p(x) in data units is log p(z) in standardised units plus this. For complete rows it is one
        constant; a missing value (NaN) has no density, so its column does not count.

        >>> transform = StandardTransform(np.zeros(2), np.array([np.e, np.e]))
        >>> transform.log_jacobian(np.array([[0.0, 1.0], [0.0, np.nan]]))
        array([-2., -1.])
        """
        return -np.where(np.isnan(values), 0.0, np.log(self.deviation)).sum(axis=1)
