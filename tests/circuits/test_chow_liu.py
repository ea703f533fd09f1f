import time
from itertools import product

import numpy as np
import pytest
import torch
from scipy.stats import entropy
from sklearn.metrics import mutual_info_score

from voronoi_circuits.circuits.chow_liu import chow_liu_tree, mutual_information


def edges(parents: np.ndarray) -> set[frozenset[int]]:
    return {frozenset((variable, int(parent))) for variable, parent in enumerate(parents) if parent >= 0}


def trees(d: int) -> list[set[frozenset[int]]]:
    """Every tree over d variables, by its Prüfer sequence."""
    found = []
    for sequence in product(range(d), repeat=d - 2):
        degree = [1 + sequence.count(v) for v in range(d)]
        tree = set()
        for v in sequence:
            leaf = degree.index(1)
            tree.add(frozenset((leaf, v)))
            degree[leaf] -= 1
            degree[v] -= 1
        found.append(tree | {frozenset(v for v in range(d) if degree[v] == 1)})
    return found


def normal(seed: int, rows: int, d: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, d))


def test_discrete_columns_have_the_plug_in_value_with_the_stated_correction():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, size=(2000, 3))
    x[:, 1] = (x[:, 0] + rng.integers(0, 2, size=2000)) % 7
    information = mutual_information(x)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        bins = [len(np.unique(x[:, columns], axis=0)) for columns in ([i], [j], [i, j])]
        correction = (bins[0] + bins[1] - bins[2] - 1) / (2 * len(x))
        expected = mutual_info_score(x[:, i], x[:, j]) + correction
        assert information[i, j] == pytest.approx(expected, abs=1e-12)
        assert information[j, i] == information[i, j]
    assert np.all(np.diag(information) == 0)


def test_gaussian_columns_come_near_the_truth_from_below():
    """I = -log(1 - ρ²) / 2; sixteen bins of equal mass lose a few hundredths."""
    x = normal(1, 20_000, 2)
    for rho in (0.3, 0.6, 0.9):
        pair = np.stack([x[:, 0], rho * x[:, 0] + np.sqrt(1 - rho**2) * x[:, 1]], axis=1)
        truth = -0.5 * np.log(1 - rho**2)
        assert truth - 0.1 < mutual_information(pair)[0, 1] < truth + 0.01


def test_independent_columns_tell_nothing_whatever_their_values():
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.normal(size=(3000, 3)), rng.integers(0, 12, size=(3000, 3))], axis=1)
    information = mutual_information(x)
    assert np.abs(information).max() < 0.015  # without the correction (r - 1)(s - 1) / 2B is 0.02 to 0.04
    assert mutual_info_score(x[:, 3], x[:, 4]) > 0.015


def test_categories_are_kept_where_the_column_says_so():
    """The parity of a category is lost in quantile bins, and a binary column that holds it is not."""
    rng = np.random.default_rng(3)
    category = rng.integers(0, 40, size=5000)
    x = np.stack([category, category % 2], axis=1)
    assert mutual_information(x, categorical=[0])[0, 1] == pytest.approx(np.log(2), abs=0.01)
    assert mutual_information(x)[0, 1] < 0.1


def test_monotone_changes_of_a_column_change_nothing():
    x = normal(4, 1500, 4).cumsum(axis=1)
    assert np.allclose(mutual_information(x), mutual_information(np.arcsinh(x) * 3 + 1), atol=1e-12)


def test_dependence_without_correlation_is_seen():
    rng = np.random.default_rng(5)
    angle = rng.uniform(0, 2 * np.pi, 4000)
    x = np.stack([np.cos(angle), rng.normal(size=4000), np.sin(angle)], axis=1)
    assert frozenset((0, 2)) in edges(chow_liu_tree(x))


def test_an_atom_at_an_end_keeps_what_it_tells():
    x = np.maximum(normal(6, 4000, 1), 0.5)  # an atom of mass 0.69 at the lower end
    pair = np.concatenate([x, x == 0.5], axis=1)
    share = (x == 0.5).mean()
    assert mutual_information(pair)[0, 1] == pytest.approx(entropy([share, 1 - share]), abs=0.01)
    assert mutual_information(-pair)[0, 1] == pytest.approx(entropy([share, 1 - share]), abs=0.01)


def test_the_tree_has_the_most_information_of_all_trees():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = normal(seed, 500, 5) @ rng.normal(size=(5, 5))
        information = mutual_information(x)

        def total(tree, information=information) -> float:
            return sum(information[tuple(edge)] for edge in tree)

        assert len(trees(5)) == 125
        assert edges(chow_liu_tree(x)) == max(trees(5), key=total)


def test_a_tree_of_gaussians_is_found_again():
    rng = np.random.default_rng(7)
    truth = [-1, *(int(rng.integers(0, v)) for v in range(1, 30))]
    x = normal(7, 4000, 30)
    for variable, parent in enumerate(truth):
        if parent >= 0:
            x[:, variable] = 0.8 * x[:, parent] + 0.6 * x[:, variable]
    assert edges(chow_liu_tree(x)) == edges(np.array(truth))


def test_the_root_is_the_centre_or_the_one_asked_for():
    chain = normal(8, 3000, 7).cumsum(axis=1)
    assert chow_liu_tree(chain).tolist() == [1, 2, 3, -1, 3, 4, 5]
    assert chow_liu_tree(chain, root=0).tolist() == [-1, 0, 1, 2, 3, 4, 5]
    assert chow_liu_tree(chain[:, :4]).tolist() == [1, -1, 1, 2]  # of two centres the first
    with pytest.raises(ValueError, match="root is 7; name one of the columns 0 to 6"):
        chow_liu_tree(chain, root=7)


def test_constant_columns_single_columns_and_single_rows_have_trees():
    x = normal(9, 200, 4)
    x[:, [1, 3]] = 2.0
    assert len(edges(chow_liu_tree(x))) == 3
    assert len(edges(chow_liu_tree(np.ones((50, 6))))) == 5
    assert len(edges(chow_liu_tree(np.ones((1, 4))))) == 3
    assert chow_liu_tree(x[:, :1]).tolist() == [-1]


def test_tensors_and_arrays_of_any_kind_give_one_tree():
    x = normal(10, 300, 5).cumsum(axis=1)
    parents = chow_liu_tree(x)
    assert parents.dtype == np.int64
    assert np.array_equal(parents, chow_liu_tree(torch.tensor(x, requires_grad=True)))
    assert np.array_equal(parents, chow_liu_tree(x))


def test_two_hundred_columns_take_seconds():
    start = time.perf_counter()
    parents = chow_liu_tree(normal(11, 4000, 200))
    assert time.perf_counter() - start < 15
    assert len(edges(parents)) == 199


@pytest.mark.parametrize(
    "x, message",
    [
        (np.zeros(3), r"X has shape \(3,\); give rows by columns"),
        (np.zeros((0, 3)), r"X has shape \(0, 3\)"),
        (np.zeros((3, 0)), r"X has shape \(3, 0\)"),
        (np.array([[0.0, 1.0], [2.0, np.nan]]), "X has missing or infinite values in column 1"),
        (np.array([[np.inf, 1.0], [2.0, 0.0]]), "X has missing or infinite values in column 0"),
    ],
)
def test_unusable_rows_are_refused(x, message):
    with pytest.raises(ValueError, match=message):
        chow_liu_tree(x)
