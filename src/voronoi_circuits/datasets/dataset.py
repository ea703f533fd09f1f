"""A dataset as the rest of the library sees it: three splits of standardised rows."""

# n rows, d columns

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Dataset:
    """Three splits of standardised rows, and what undoes the standardisation.

    `train`, `val` and `test` are float32 of shape (n, d); `mean` and `deviation` are float64 of shape (d,),
    taken over all rows before the split, so that `raw = standardised * deviation + mean`.

    >>> rows = np.array([[0.0, 1.0], [2.0, 5.0], [4.0, 3.0]])
    >>> data = standardised("three", ("a", "b"), rows, (1, 1, 1))
    >>> data.mean, data.unstandardise(data.val).round(6)
    (array([2., 3.]), array([[2., 5.]]))
    """

    name: str
    columns: tuple[str, ...]
    train: NDArray[np.float32]
    val: NDArray[np.float32]
    test: NDArray[np.float32]
    mean: NDArray[np.float64]
    deviation: NDArray[np.float64]

    def unstandardise(self, rows: NDArray[np.floating]) -> NDArray[np.float64]:
        """Rows (n, d) in the set's own units: z * deviation + mean.

        >>> data = standardised("two", ("a",), np.array([[1.0], [3.0], [2.0]]), (1, 1, 1))
        >>> data.unstandardise(np.zeros((1, 1)))
        array([[2.]])
        """
        return np.asarray(rows, dtype=np.float64) * self.deviation + self.mean


def standardised(
    name: str, columns: tuple[str, ...], rows: NDArray[np.float64], n: tuple[int, int, int]
) -> Dataset:
    """Standardise rows (sum(n), d) to mean 0 and variance 1 in each column, then split them in order.

    >>> standardised("toy", ("a",), np.array([[1.0], [3.0], [5.0]]), (1, 1, 1)).mean
    array([3.])
    """
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    scaled = ((rows - mean) / deviation).astype(np.float32)
    train, val, test = np.split(scaled, np.cumsum(n)[:2])
    return Dataset(name, columns, train, val, test, mean, deviation)
