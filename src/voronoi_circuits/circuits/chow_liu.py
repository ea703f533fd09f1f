"""The Chow-Liu tree: the maximum spanning tree of the mutual information between columns."""

# B rows, D variables.

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree, shortest_path
from scipy.special import xlogy
from torch import Tensor

ROWS = 20_000  # of longer data, this many evenly spaced rows are read
BINS, CATEGORIES = 16, 256


def chow_liu_tree(
    X: Tensor | NDArray[Any], *, root: int | None = None, categorical: Collection[int] = ()
) -> NDArray[np.int64]:
    """The parents, (D,), in the tree whose edges hold the most mutual information; -1 at the root.

    The root is the one given, or the centre of the tree: the variable with the fewest steps to the farthest
    other, the first of them. The same columns give the same tree.

    >>> rows = np.random.default_rng(0).normal(size=(1000, 3)).cumsum(axis=1)  # X_0 -> X_1 -> X_2
    >>> chow_liu_tree(rows), chow_liu_tree(rows, root=0)
    (array([ 1, -1,  1]), array([-1,  0,  1]))
    """
    information = mutual_information(X, categorical=categorical)
    d = len(information)
    if root is not None and not 0 <= root < d:
        raise ValueError(f"root is {root}; name one of the columns 0 to {d - 1}")
    cost = information.max() - information + 1.0  # no edge may cost 0, which csgraph reads as no edge
    np.fill_diagonal(cost, 0.0)
    tree = minimum_spanning_tree(cost)
    if root is None:
        hops = shortest_path(tree, directed=False, unweighted=True)
        root = int(hops.max(axis=1).argmin())
    parents = breadth_first_order(tree, root, directed=False)[1].astype(np.int64)
    parents[root] = -1
    return parents


def mutual_information(X: Tensor | NDArray[Any], *, categorical: Collection[int] = ()) -> NDArray[np.float64]:
    """The mutual information I(X_i; X_j) of every pair of columns in nats, (D, D), with 0 on the diagonal.

    A column is cut at its quantiles into at most 16 bins, and into fewer where a pair of bins would hold less
    than ten rows. A column of no more distinct values than bins keeps them, and so does a categorical one of
    up to 256. Entropies are those of the counts, corrected for their bias (Miller and Madow),

        I = H(X_i) + H(X_j) - H(X_i, X_j),    H = -Σ_c p_c log p_c + (nonempty bins - 1) / 2B,

    so that a column gains nothing by its number of values; independent columns may come out a little below 0.

    >>> mutual_information(np.repeat([[0, 0, 3], [1, 1, 3]], 500, axis=0)).round(2)
    array([[0.  , 0.69, 0.  ],
           [0.69, 0.  , 0.  ],
           [0.  , 0.  , 0.  ]])
    """
    rows = _rows(X)
    n, d = rows.shape
    bins = int(np.clip(np.sqrt(n / 10), 2, BINS))
    codes = np.stack([_codes(rows[:, i], CATEGORIES if i in categorical else bins) for i in range(d)], axis=1)
    sizes = codes.max(axis=0) + 1
    alone = _entropies(codes, sizes)
    information = np.zeros((d, d))
    for i in range(d - 1):
        pairs = codes[:, i, None] * sizes[i + 1 :] + codes[:, i + 1 :]
        information[i, i + 1 :] = alone[i] + alone[i + 1 :] - _entropies(pairs, sizes[i] * sizes[i + 1 :])
    return information + information.T


def _rows(X: Tensor | NDArray[Any]) -> NDArray[np.float64]:
    """The rows to read as float64, or an error that names what is wrong with them."""
    data = X.detach().cpu().numpy() if isinstance(X, Tensor) else np.asarray(X)
    if data.ndim != 2 or 0 in data.shape:
        raise ValueError(f"X has shape {data.shape}; give rows by columns, at least one of each")
    chosen = np.linspace(0, len(data) - 1, min(len(data), ROWS)).round().astype(np.int64)
    rows = data[chosen].astype(np.float64)
    if unusable := np.flatnonzero(~np.isfinite(rows).all(axis=0)).tolist():
        raise ValueError(f"X has missing or infinite values in column {unusable[0]}; fill or drop them")
    return rows


def _codes(column: NDArray[np.float64], bins: int) -> NDArray[np.int64]:
    """The bin of each row, (B,), numbered from 0 without a gap."""
    values, codes = np.unique(column, return_inverse=True)
    if len(values) > bins:
        edges = np.unique(np.quantile(column, np.arange(1, bins) / bins))
        codes = np.unique(np.searchsorted(edges, column, side="right"), return_inverse=True)[1]
    return codes.astype(np.int64)


def _entropies(codes: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.float64]:
    """The corrected entropy of each column of codes; all their histograms are counted as one long one."""
    n = len(codes)
    starts = np.cumsum(sizes) - sizes
    counts = np.bincount((codes + starts).ravel(), minlength=int(sizes.sum()))
    nonempty = np.add.reduceat(counts > 0, starts, dtype=np.int64)
    return np.log(n) - np.add.reduceat(xlogy(counts, counts), starts) / n + (nonempty - 1) / (2 * n)
