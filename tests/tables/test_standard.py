"""Standardised columns, against numpy's own moments and change of variables by scipy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from voronoi_circuits.tables import StandardTransform

ROWS = np.random.default_rng(0).normal([1.0, -200.0, 3e6], [2.0, 0.5, 1e4], (500, 3))


def test_moments_are_numpys() -> None:
    transform = StandardTransform.fit(ROWS)
    np.testing.assert_allclose(transform.mean, ROWS.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(transform.deviation, ROWS.std(axis=0), rtol=1e-12)
    scaled = transform.forward(ROWS)
    np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(scaled.std(axis=0), 1.0, rtol=1e-12)


def test_weights_count_rows() -> None:
    counts = np.random.default_rng(1).integers(0, 4, len(ROWS))
    weighted, repeated = (
        StandardTransform.fit(ROWS, 0.3 * counts),
        StandardTransform.fit(np.repeat(ROWS, counts, axis=0)),
    )
    np.testing.assert_allclose(weighted.mean, repeated.mean, rtol=1e-13)
    np.testing.assert_allclose(weighted.deviation, repeated.deviation, rtol=1e-12)


def test_a_row_of_weight_zero_does_not_make_a_column_vary() -> None:
    values = np.array([[0.1, 1.0], [0.1, 2.0], [7.0, 3.0]])
    assert StandardTransform.fit(values, np.array([1.0, 1.0, 0.0])).deviation[0] == 1.0


def test_missing_values_are_left_out_and_stay_missing() -> None:
    values = ROWS.copy()
    values[::3, 1] = np.nan
    transform = StandardTransform.fit(values)
    np.testing.assert_allclose(transform.mean, np.nanmean(values, axis=0), rtol=1e-13)
    np.testing.assert_allclose(transform.deviation, np.nanstd(values, axis=0), rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(transform.forward(values)), np.isnan(values))


def test_a_constant_column_is_moved_and_not_stretched() -> None:
    """0.1 cannot be written exactly: numpy's own deviation of 7 of them is not 0."""
    values = np.full((7, 1), 0.1)
    transform = StandardTransform.fit(values)
    assert values.std() > 0
    assert transform.deviation[0] == 1.0
    np.testing.assert_array_equal(transform.forward(values), 0.0)
    np.testing.assert_array_equal(transform.log_jacobian(values), 0.0)


@pytest.mark.parametrize("scale", [1e-300, 1e-170, 1e170, 1.7e308])
def test_extreme_columns_neither_overflow_nor_vanish(scale: float) -> None:
    transform = StandardTransform.fit(scale * np.array([[-1.0], [1.0], [-1.0], [1.0]]))
    np.testing.assert_allclose(transform.deviation, scale, rtol=1e-15)
    assert transform.mean[0] == 0.0


def test_density_in_data_units() -> None:
    """X ~ N(μ, Σ) in data units is N((μ - m)/s, Σ/(s sᵀ)) in standardised ones."""
    mean, covariance = np.array([1.0, -2.0]), np.array([[2.0, 0.6], [0.6, 0.5]])
    x = np.random.default_rng(2).multivariate_normal(mean, covariance, 50)
    transform = StandardTransform.fit(x)
    s = transform.deviation
    inside = stats.multivariate_normal((mean - transform.mean) / s, covariance / np.outer(s, s))
    ours = inside.logpdf(transform.forward(x)) + transform.log_jacobian(x)
    np.testing.assert_allclose(ours, stats.multivariate_normal(mean, covariance).logpdf(x), rtol=1e-12)
    x[:, 1] = np.nan  # the marginal of the first column: only its own deviation counts
    marginal = stats.norm((mean[0] - transform.mean[0]) / s[0], np.sqrt(2.0) / s[0])
    ours = marginal.logpdf(transform.forward(x)[:, 0]) + transform.log_jacobian(x)
    np.testing.assert_allclose(ours, stats.norm(mean[0], np.sqrt(2.0)).logpdf(x[:, 0]), rtol=1e-12)


@settings(deadline=None, max_examples=50)
@given(arrays(np.float64, (5, 2), elements=st.floats(-1e100, 1e100)))
def test_inverse_undoes_forward(values: np.ndarray) -> None:
    transform = StandardTransform.fit(values)
    back = transform.inverse(transform.forward(values))
    np.testing.assert_allclose(back, values, rtol=1e-12, atol=1e-12 * (np.abs(values).max() + 1e-300))


@pytest.mark.parametrize("weights", [np.ones(3), np.full(500, -1.0), np.full(500, np.nan), np.ones((500, 1))])
def test_bad_weights_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(ValueError, match="weights: pass 500 finite numbers"):
        StandardTransform.fit(ROWS, weights)


def test_a_column_without_a_value_is_named() -> None:
    with pytest.raises(ValueError, match="column 1 has no value in a row of weight above zero"):
        StandardTransform.fit(np.array([[1.0, np.nan], [2.0, np.nan]]))
    with pytest.raises(ValueError, match="column 0 has no value in a row of weight above zero"):
        StandardTransform.fit(ROWS, np.zeros(500))
