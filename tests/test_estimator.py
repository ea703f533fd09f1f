"""The estimator: scikit-learn's rules, the data's own units, and bounds that hold against brute force."""

import math
import pickle
from copy import copy
from dataclasses import replace
from pathlib import Path

import mpmath
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import voronoi_circuits as vc
from voronoi_circuits.circuits.leaves import Leaf
from voronoi_circuits.circuits.region_graph import Region, RegionGraph
from voronoi_circuits.estimator.columns import ULP, Columns
from voronoi_circuits.estimator.intervals import shifted
from voronoi_circuits.specs import Specification
from voronoi_circuits.tables.frames import Rows
from voronoi_circuits.tables.standard import StandardTransform
from voronoi_circuits.training.loop import Training

EXPERT = vc.Circuit(units=2)
KINDS: dict[str, Specification] = {
    "circuit": EXPERT,
    "mixture": vc.Mixture(EXPERT, components=2),
    "vt": vc.VT(EXPERT, cells=2),
    "hfv": vc.HFV(EXPERT, cells=2),
}
WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
STARTS = "k-means starts the cells from rows, and repeated rows are other rows to it"

SHIFT, SCALE = np.array([50.0, -3.0]), np.array([8.0, 0.02])
PLANE = (np.random.default_rng(0).normal(size=(300, 2)) @ np.array([[1.0, 0.7], [0.0, 0.6]])) * SCALE + SHIFT


def small(model: Specification | str, epochs: int = 2, **settings: object) -> vc.VoronoiDensity:
    options = {"certify_budget": 5.0, "random_state": 0, **settings}
    return vc.VoronoiDensity(model, vc.Adam(epochs=epochs, batch_size=100), **options)


@pytest.fixture(scope="module")
def fitted() -> dict[str, vc.VoronoiDensity]:
    frame = pd.DataFrame(PLANE, columns=["pressure", "strain"])
    kinds = {**KINDS, "vt": vc.VT(EXPERT, cells=3), "hfv": vc.HFV(EXPERT, cells=3, units_per_cell=2)}
    return {name: small(kind).fit(frame) for name, kind in kinds.items()}


def grid(side: int = 300, deviations: float = 9.0) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Axes and points of a grid in the data's units, and the area of its cells."""
    steps = np.linspace(-deviations, deviations, side)
    spread = PLANE.std(axis=0)
    axes = [centre + s * steps for centre, s in zip(PLANE.mean(axis=0), spread, strict=True)]
    points = np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, 2)
    return axes, points, float(np.prod(spread) * (steps[1] - steps[0]) ** 2)


# scikit-learn's rules


@pytest.mark.parametrize("kind", [*KINDS, "default"])
def test_scikit_learn_accepts_every_kind(kind: str) -> None:
    density = vc.VoronoiDensity(KINDS.get(kind, "vt"), vc.Adam(epochs=1), certify_budget=0.05)
    several = kind in ("mixture", "vt", "hfv")
    results = check_estimator(
        density, on_skip=None, expected_failed_checks={WEIGHTS: STARTS} if several else None
    )
    assert {r["check_name"] for r in results if r["status"] == "skipped"} <= {"check_array_api_input"}
    assert {r["check_name"] for r in results if r["status"] == "xfail"} <= {WEIGHTS}


def test_it_is_a_density_that_takes_no_missing_values() -> None:
    tags = vc.VoronoiDensity().__sklearn_tags__()
    assert (tags.estimator_type, tags.input_tags.allow_nan) == ("density_estimator", False)


def test_parameters_reach_specification_and_learner() -> None:
    density = (
        small("vt").set_params(model=vc.VT(EXPERT)).set_params(model__expert__units=7, learner__epochs=9)
    )
    assert (density.model.expert.units, density.learner.epochs) == (7, 9)
    assert density.get_params()["transform"] == "standard"
    assert not hasattr(density, "transform")
    twin = clone(density)
    assert twin.model is not density.model
    assert repr(twin) == repr(density)


def test_grid_search_and_pipeline() -> None:
    search = GridSearchCV(small(vc.VT(EXPERT), epochs=1, certify_budget=0.1), {"model__cells": [1, 3]}, cv=2)
    search.fit(PLANE)
    assert search.best_params_["model__cells"] in (1, 3)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    pipeline = make_pipeline(StandardScaler(), small("circuit", epochs=1))
    assert np.isfinite(cross_val_score(pipeline, PLANE, cv=2)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_pickles_score_the_same(fitted: dict[str, vc.VoronoiDensity], kind: str) -> None:
    again = pickle.loads(pickle.dumps(fitted[kind]))
    np.testing.assert_array_equal(again.score_samples(PLANE), fitted[kind].score_samples(PLANE))


# densities in the data's own units


def test_one_gaussian_each_column_is_scipys_normal() -> None:
    density = small(vc.Circuit(units=1)).fit(PLANE)
    circuit = density.model_.experts.circuit
    centre, spread = PLANE.mean(axis=0), PLANE.std(axis=0)
    mean, deviation = np.empty(2), np.empty(2)
    for layer, fold in zip(circuit.layers, circuit.folds, strict=True):
        if isinstance(layer, Leaf):
            columns = [circuit.graph.regions[r].scope[0] for r in fold.regions]
            mean[columns] = layer.mean().detach()[0, :, 0]
            deviation[columns] = layer.variance().detach()[0, :, 0].sqrt()
    truth = stats.norm(centre + spread * mean, spread * deviation)
    np.testing.assert_allclose(density.score_samples(PLANE), truth.logpdf(PLANE).sum(axis=1), rtol=1e-10)
    hidden = PLANE.copy()
    hidden[:, 0] = np.nan
    np.testing.assert_allclose(density.score_samples(hidden), truth.logpdf(PLANE)[:, 1], rtol=1e-10)
    lower, upper = density.score_conditional(PLANE, given=[1])
    np.testing.assert_allclose(lower, truth.logpdf(PLANE)[:, 0], rtol=1e-9)
    assert lower.tobytes() == upper.tobytes()
    mass = truth.cdf([60.0, 0.0])[0] - truth.cdf([45.0, 0.0])[0]
    assert density.probability({0: (45.0, 60.0)}) == pytest.approx((mass, mass), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_densities_integrate_to_one_in_the_datas_units(
    fitted: dict[str, vc.VoronoiDensity], kind: str
) -> None:
    _, points, area = grid()
    lower, upper = (np.exp(side).sum() * area for side in fitted[kind].score_bounds(points))
    assert lower - 2e-3 <= 1 <= upper + 2e-3
    assert upper - lower < 3e-3
    if kind != "vt":
        assert lower == upper


@pytest.mark.parametrize("kind", KINDS)
def test_marginals_conditionals_and_boxes_hold_the_grids_truth(
    fitted: dict[str, vc.VoronoiDensity], kind: str
) -> None:
    density = fitted[kind]
    axes, points, area = grid()
    joint = np.exp(density.score_samples(points)).reshape(300, 300)
    step = axes[1][1] - axes[1][0]
    rows = [140, 150, 160]
    marginal = np.log(joint[rows].sum(axis=1) * step)
    asked = np.column_stack([axes[0][rows], np.full(3, np.nan)])
    lower, upper = density.score_bounds(asked)
    assert (lower <= marginal + 1e-2).all()
    assert (marginal <= upper + 1e-2).all()
    assert (upper - lower < 0.02).all()
    at = points.reshape(300, 300, 2)[rows, 155]
    lower, upper = density.score_conditional(at, given=["pressure"])
    truth = np.log(joint[rows, 155]) - marginal
    assert (lower <= truth + 1e-2).all()
    assert (truth <= upper + 1e-2).all()
    box = {"pressure": (axes[0][100], axes[0][150]), "strain": (-np.inf, axes[1][160])}
    least, most = density.probability(box)
    inside = joint[100:151, :161].copy()
    inside[[0, -1]] /= 2
    inside[:, -1] /= 2
    assert least - 2e-3 <= inside.sum() * area <= most + 2e-3
    assert most - least < 5e-3


@pytest.mark.parametrize("kind", KINDS)
def test_other_units_move_every_score_by_a_constant(kind: str) -> None:
    rows = PLANE[:100]
    power = np.array([2.0**7, 2.0**-9])  # exact in floating point, so that the standardised rows are the same
    plain = small(KINDS[kind], certify_budget=None).fit(rows).score_bounds(rows)
    moved = small(KINDS[kind], certify_budget=None).fit(rows * power).score_bounds(rows * power)
    for here, there in zip(plain, moved, strict=True):
        np.testing.assert_allclose(there, here - np.log(power).sum(), rtol=1e-12)


def test_scores_of_a_certified_model_lie_in_order(fitted: dict[str, vc.VoronoiDensity]) -> None:
    density = fitted["vt"]
    rows = np.vstack([PLANE, PLANE[:5]])
    rows[-5:, 1] = np.nan
    lower, upper = density.score_bounds(rows)
    assert (lower < upper).all()
    np.testing.assert_array_equal(density.score_samples(rows), lower)
    assert density.score(rows) == lower.mean()
    np.testing.assert_allclose((upper - lower)[:-5], density.certificate_.gap, atol=1e-9)
    assert density.aic(PLANE) == pytest.approx(-2 * lower[:-5].sum() + 2 * density.model_.n_parameters)
    assert density.bic(PLANE) == pytest.approx(
        -2 * lower[:-5].sum() + math.log(300) * density.model_.n_parameters
    )


def test_the_jacobians_own_rounding_goes_outward(fitted: dict[str, vc.VoronoiDensity]) -> None:
    half = 10.0 ** np.random.default_rng(0).uniform(100, 300, size=500)
    scale = np.stack([half, 1.001 / half], axis=1).flatten()  # the logarithms nearly cancel, two by two
    truth = -mpmath.fsum(mpmath.log(mpmath.mpf(float(side))) for side in scale)
    columns = Columns(None, "numpy", StandardTransform(np.zeros(1000), scale))
    zeros = torch.zeros(1, 1000, dtype=torch.float64)
    nothing = (zeros[:, 0], zeros[:, 0])
    lower, upper = (float(side) for side in shifted(fitted["vt"].model_, nothing, columns, zeros))
    assert lower <= truth <= upper
    assert upper - lower < 1e-6
    assert abs(float(columns.log_jacobian(zeros)) - truth) > 4 * ULP * abs(
        truth
    )  # one sum's rounding is less


def test_the_certificate_bounds_what_is_given_nothing(fitted: dict[str, vc.VoronoiDensity]) -> None:
    density = copy(fitted["vt"])
    everything = {"pressure": (-np.inf, np.inf)}
    density.certificate_ = vc.certify(density.model_, tolerance=1e-4, budget=None)
    lower, upper = density.score_conditional(PLANE[:20], given=[])
    np.testing.assert_allclose(upper - lower, density.certificate_.gap, atol=1e-9)
    least, most = density.probability(everything)
    density.certificate_ = replace(density.certificate_, lower=-10.0, upper=0.0)
    loose = density.probability(everything)
    assert loose[0] <= least <= most <= loose[1]
    assert most - least < loose[1] - loose[0]


# columns of codes

CODES = np.random.default_rng(3).choice(3, p=[0.2, 0.3, 0.5], size=400).astype(float)
CODED = np.column_stack([CODES, 100 + 20 * CODES + np.random.default_rng(4).normal(size=400)])
CODED_EXPERT = vc.Circuit(units=2, leaf={0: "categorical"})
OWN = vc.Circuit(
    RegionGraph(
        [
            Region((0,), 2, "leaf", leaf="categorical"),
            Region((1,), 2, "leaf", leaf="gaussian"),
            Region((0, 1), 2, "cp", (0, 1)),
            Region((0, 1), 1, "sum", (2,)),
        ]
    )
)


@pytest.mark.parametrize(
    "model",
    [
        CODED_EXPERT,
        OWN,
        vc.Mixture(CODED_EXPERT, components=2),
        vc.VT(CODED_EXPERT, cells=3),
        vc.HFV(CODED_EXPERT, cells=2),
    ],
)
def test_codes_stay_codes(model: Specification, tmp_path: Path) -> None:
    density = small(model, epochs=10, certify_budget=0.5).fit(CODED)
    bounds = np.array([density.probability({0: (code, code)}) for code in range(3)])
    assert (bounds[:, 0] <= [0.27, 0.37, 0.57]).all()
    assert (bounds[:, 1] >= [0.13, 0.23, 0.43]).all()
    assert bounds[:, 0].sum() - 1e-9 <= 1 <= bounds[:, 1].sum() + 1e-9
    masses = np.exp(density.score_bounds(np.column_stack([np.arange(3), np.full(3, np.nan)])))
    assert (masses[0] <= bounds[:, 1] + 1e-12).all()  # an atom's density is its mass
    assert (bounds[:, 0] <= masses[1] + 1e-12).all()
    line = np.column_stack([np.full(4000, 2.0), np.linspace(-100, 400, 4000)])
    lower, upper = (np.exp(side).sum() * 500 / 3999 for side in density.score_conditional(line, given=[0]))
    assert lower - 1e-3 <= 1 <= upper + 1e-3
    drawn = density.sample(50, given={0: 1.0}, random_state=0)
    assert (drawn[:, 0] == 1).all()
    assert set(density.sample(100, random_state=0)[:, 0]) == {0, 1, 2}
    assert density.predict(CODED).shape == (400,)
    density.save(tmp_path / "model")
    np.testing.assert_array_equal(
        vc.load(tmp_path / "model").score_samples(CODED), density.score_samples(CODED)
    )


def test_leaves_go_by_name_too() -> None:
    frame = pd.DataFrame(CODED, columns=["kind", "size"])
    model = vc.VT(vc.Circuit(units=2, leaf={"kind": "categorical"}), cells=3)
    named = small(model).fit(frame)
    assert named.model is model
    assert model.expert.leaf == {"kind": "categorical"}
    np.testing.assert_array_equal(
        named.score_samples(frame), small(vc.VT(CODED_EXPERT, cells=3)).fit(CODED).score_samples(CODED)
    )
    with pytest.raises(ValueError, match="leaf: there is no column 'kinds'; did you mean 'kind'"):
        small(vc.Circuit(leaf={"kinds": "categorical"})).fit(frame)
    with pytest.raises(ValueError, match="leaf: there is no column 'kind'; the columns are unnamed, 0 to 1"):
        small(model).fit(CODED)


def test_a_code_that_one_row_has_is_known_to_the_leaves() -> None:
    rare = CODED.copy()
    rare[7, 0] = 3.0
    for seed in range(6):  # some seeds hold the row out
        density = small(CODED_EXPERT, random_state=seed, validation_fraction=0.5).fit(rare)
        assert np.isfinite(density.score(rare))
    weights = np.ones(400)
    weights[7] = 1e-6
    assert np.isfinite(small(CODED_EXPERT).fit(rare, sample_weight=weights).score(rare))


# samples


@pytest.mark.parametrize("kind", KINDS)
def test_samples_follow_the_density(fitted: dict[str, vc.VoronoiDensity], kind: str) -> None:
    drawn = fitted[kind].sample(4000, random_state=1)
    assert list(drawn.columns) == ["pressure", "strain"]
    low, high = np.quantile(PLANE, 0.3, axis=0), np.quantile(PLANE, 0.8, axis=0)
    least, most = fitted[kind].probability({"pressure": (low[0], high[0]), 1: (low[1], high[1])})
    inside = int(((drawn.to_numpy() >= low) & (drawn.to_numpy() <= high)).all(axis=1).sum())
    seen = stats.binomtest(inside, 4000).proportion_ci(1 - 1e-6)
    assert seen.low <= most
    assert least <= seen.high


@pytest.mark.parametrize("kind", KINDS)
def test_samples_given_a_value_hold_it_and_follow_the_conditional(
    fitted: dict[str, vc.VoronoiDensity], kind: str
) -> None:
    density = fitted[kind]
    drawn = density.sample(2000, given={"pressure": 51.3}, random_state=2).to_numpy()
    assert (drawn[:, 0] == 51.3).all()
    middle = float(np.median(PLANE[:, 1]))
    least, most = density.probability({"strain": (-np.inf, middle)}, given={"pressure": 51.3})
    seen = stats.binomtest(int((drawn[:, 1] <= middle).sum()), 2000).proportion_ci(1 - 1e-6)
    assert seen.low <= most
    assert least <= seen.high


@pytest.mark.parametrize("kind", ["vt", "hfv"])
def test_samples_of_a_cell_lie_in_it(fitted: dict[str, vc.VoronoiDensity], kind: str) -> None:
    cell = int(np.bincount(fitted[kind].predict(PLANE)).argmax())
    drawn = fitted[kind].sample(50, cell=cell, random_state=0)
    assert (fitted[kind].predict(drawn) == cell).all()


def test_samples_of_a_component_follow_it() -> None:
    far = np.concatenate([PLANE[:150], PLANE[150:] + 100 * SCALE])
    density = small(KINDS["mixture"]).fit(far)
    cell = int(density.predict(far[:1])[0])
    drawn = density.sample(300, cell=cell, random_state=0)
    assert (drawn[:, 0] < SHIFT[0] + 50 * SCALE[0]).mean() > 0.95


@pytest.mark.parametrize(
    "container",
    [
        np.asarray,
        torch.tensor,
        lambda X: pd.DataFrame(X, columns=["a", "b"]),
        lambda X: pl.DataFrame(X, schema=["a", "b"]),
    ],
)
def test_every_container_scores_the_same_and_samples_come_in_kind(container: type) -> None:
    X = container(PLANE)
    density = small("circuit", epochs=1).fit(X)
    np.testing.assert_array_equal(
        density.score_samples(X), small("circuit", epochs=1).fit(PLANE).score_samples(PLANE)
    )
    assert type(density.sample(3, random_state=0)) is type(X)
    names = list(X.columns) if hasattr(X, "columns") else None
    assert (list(density.feature_names_in_) if names else None) == names
    assert names or not hasattr(density, "feature_names_in_")


# fitting


def test_one_seed_gives_one_result() -> None:
    densities = [small(KINDS["vt"], random_state=seed, certify_budget=None) for seed in (1, 1, 2)]
    first, again, other = (density.fit(PLANE[:100]).score_samples(PLANE) for density in densities)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_rows_without_weight_count_for_nothing() -> None:
    weights = np.arange(300) % 3
    weighted = small(KINDS["vt"], certify_budget=None).fit(PLANE, sample_weight=weights)
    without = small(KINDS["vt"], certify_budget=None).fit(
        PLANE[weights > 0], sample_weight=weights[weights > 0]
    )
    np.testing.assert_array_equal(weighted.score_samples(PLANE), without.score_samples(PLANE))
    unweighted = small(KINDS["vt"], certify_budget=None).fit(PLANE[weights > 0])
    assert (unweighted.score_samples(PLANE) != without.score_samples(PLANE)).any()


@pytest.mark.parametrize("size", [1e308, 1e-320])
def test_weights_count_by_their_shares(size: float) -> None:
    weighted = small("circuit").fit(PLANE, sample_weight=np.full(300, size))
    one = small("circuit").fit(PLANE, sample_weight=np.ones(300))
    np.testing.assert_array_equal(weighted.score_samples(PLANE), one.score_samples(PLANE))


def test_validation_rows_choose_the_epoch() -> None:
    held = small("circuit", validation_fraction=0.0).fit(PLANE)
    assert all(math.isnan(value) for value in held.history_["lower"])
    given = small("circuit", epochs=3).fit(PLANE[:200], X_val=PLANE[200:])
    best = max(given.history_["lower"])
    z_scale = np.log(PLANE[:200].std(axis=0)).sum()
    assert given.score(PLANE[200:]) == pytest.approx(best - z_scale, abs=1e-4)
    assert (len(given.history_), given.n_iter_) == (3, 3)


def test_an_interruption_leaves_a_model_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Training, "_epoch", interrupted)
    with pytest.warns(UserWarning, match="interrupted after 0 epochs") as found:
        density = small("circuit").fit(PLANE)
    assert found[0].filename == __file__
    assert np.isfinite(density.score(PLANE))


def test_progress_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    small("circuit", verbose=True).fit(PLANE)
    out, err = capsys.readouterr()
    assert out == ""
    assert "epoch 2/2" in err


@pytest.mark.parametrize(("rows", "cells"), [(15, 1), (100, 4), (400, 10)])
def test_a_model_by_name_has_cells_by_its_rows(rows: int, cells: int) -> None:
    X = np.random.default_rng(0).normal(size=(rows, 2))
    assert small("vt", epochs=1, certify_budget=0.05).fit(X).model_.n_cells == cells  # a tenth is held out
    assert small("hfv", epochs=1).fit(X).model_.n_cells == cells**2
    assert small("mixture", epochs=1).fit(X).model_.n_cells == cells


def test_the_papers_protocol() -> None:
    density = vc.VoronoiDensity.paper("vt", "einet", units=3, random_state=0, certify_budget=0.1)
    assert repr(density.learner) == "Adam(anneal=(1.0, 50.0))"
    assert (density.learner.epochs, density.learner.batch_size, density.learner.learning_rate) == (
        100,
        500,
        0.01,
    )
    model = density.set_params(learner__epochs=1).fit(PLANE).model_
    assert (model.experts.roots, model.n_cells, model.experts.circuit.n_experts) == (3, 3, 1)
    assert {region.kind for region in model.experts.circuit.graph.regions} == {"leaf", "tucker"}
    hfv = (
        vc.VoronoiDensity.paper("hfv", "hclt", units=3, random_state=0)
        .set_params(learner__epochs=1)
        .fit(PLANE)
    )
    assert hfv.model_.n_cells == 9


# bad input


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"learner": vc.Adam()}, "settings may not hold learner, which the paper's protocol fixes"),
        ({"structure": "hcl"}, "unknown structure 'hcl'"),
        ({"units": 0}, "units must be a whole number of at least 1, not 0"),
    ],
)
def test_the_papers_protocol_is_checked_at_once(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vc.VoronoiDensity.paper("vt", **settings)


@pytest.mark.parametrize(
    ("density", "settings", "message"),
    [
        (
            small("vt"),
            {"model__cells": 3},
            r"model is the name 'vt'; give the specification vc.VT\(\.\.\.\) to set",
        ),
        (small(None), {"model__cells": 3}, r"model is None; give the specification vc.VT"),
        (
            vc.VoronoiDensity(),
            {"learner__epochs": 3},
            r"learner is the name 'auto'; give the learner vc.Adam",
        ),
        (small(vc.VT()), {"model__expert__units": 3}, r"model__expert is None; give the expert vc.Circuit"),
        (small("vt"), {"model__expert__units": 3}, "model is the name 'vt'"),
        (small(vc.VT(EXPERT)), {"model__cell": 3}, "Invalid parameter 'cell' for estimator VT"),
    ],
)
def test_parameters_of_a_name_are_refused(
    density: vc.VoronoiDensity, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        density.set_params(**settings)
    density.set_params(model=vc.VT(), model__expert=EXPERT, model__cells=4)
    assert (density.model.cells, density.model.expert) == (4, EXPERT)


def test_cells_of_a_read_table_are_called_by_their_column(fitted: dict[str, vc.VoronoiDensity]) -> None:
    bad = np.where(np.arange(600).reshape(300, 2) == 5, np.inf, PLANE)
    for table, message in (
        (Rows(bad, ("pressure", "strain"), "numpy"), "column 'strain' holds inf, first in row 2"),
        (Rows(bad * np.nan, ("pressure", "strain"), "numpy"), "column 'pressure' holds NaN, first in row 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted["circuit"].predict(table)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": "vtt"}, r"unknown model 'vtt' \(did you mean 'vt'\?\)"),
        ({"model": 3}, "model must be a specification such as vc.VT"),
        ({"model": vc.VT(EXPERT, cells=1000)}, "cells=1000 is more than the 270 rows"),
        ({"model": vc.Circuit(units=0)}, "units must be a whole number of at least 1, not 0"),
        ({"learner": "sgd"}, r"learner must be a learner such as vc.Adam\(\), or 'auto', not 'sgd'"),
        ({"learner": vc.Adam(epochs=0)}, "epochs must be a whole number"),
        ({"transform": "standart"}, r"unknown transform 'standart' \(did you mean 'standard'\?\)"),
        ({"validation_fraction": 1.0}, "validation_fraction must be at least 0 and below 1, not 1.0"),
        ({"validation_fraction": "some"}, "validation_fraction must be at least 0 and below 1, not 'some'"),
        ({"certify_budget": 0}, "certify_budget must be a positive number of seconds or None, not 0"),
        ({"device": "gpu"}, "unknown device 'gpu'"),
    ],
)
def test_a_parameter_that_no_fit_can_use_is_named(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vc.VoronoiDensity(**{"random_state": 0, **settings}).fit(PLANE)


def test_missing_values_are_refused_where_nothing_learns_from_them(
    fitted: dict[str, vc.VoronoiDensity],
) -> None:
    hidden = pd.DataFrame(PLANE, columns=["pressure", "strain"])
    hidden.loc[4, "strain"] = np.nan
    for ask in (clone(fitted["vt"]).fit, fitted["vt"].predict, fitted["vt"].predict_proba):
        with pytest.raises(
            ValueError, match="column 'strain' holds NaN, first in row 4; missing values are not"
        ):
            ask(hidden)
    assert np.isfinite(fitted["vt"].score_samples(hidden)).all()


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (
            lambda d: d.score_samples(PLANE[:, :1]),
            "X has 1 features, but VoronoiDensity is expecting 2 features",
        ),
        (
            lambda d: d.score_conditional(PLANE, given=["presure"]),
            "no column 'presure'; did you mean 'pressure'",
        ),
        (lambda d: d.score_conditional(PLANE, given=[2]), "no column 2; columns go from 0 to 1"),
        (lambda d: d.score_conditional(PLANE, given=[0, "pressure"]), "given names column 'pressure' twice"),
        (lambda d: d.score_conditional(PLANE, given=[0, 1]), "given names every column"),
        (lambda d: d.score_conditional(PLANE * np.nan, given=[0]), "column 'pressure' is NaN in row 0"),
        (lambda d: d.probability({"strain": (1, 0)}), "interval of column 'strain' is empty"),
        (lambda d: d.probability({0: (0, 1)}, given={"pressure": 1}), "'pressure' is in the box and given"),
        (lambda d: d.probability({0: (0, 1)}, given={"strain": np.nan}), "value of column 'strain' is nan"),
        (lambda d: d.sample(0), "n must be a whole number of at least 1, not 0"),
        (lambda d: d.sample(2, cell=1.5), "cell must be a whole number or None, not 1.5"),
        (lambda d: d.sample(2, cell=True), "cell must be a whole number or None, not True"),
        (lambda d: d.sample(2, cell="a"), "cell must be a whole number or None, not 'a'"),
        (lambda d: d.sample(2, given={"strain": (0, 1)}), r"give one number: column 'strain' has \(0, 1\)"),
        (lambda d: d.sample(2, given={"strain": "x"}), "give one number: column 'strain' has 'x'"),
        (lambda d: d.sample(2, given={1: None}), "give one number: column 'strain' has None"),
        (lambda d: d.sample(2, given={1: True}), "give one number: column 'strain' has True"),
        (lambda d: d.sample(2, given=[0]), r"given must be \{column: value\}, not \[0\]"),
        (lambda d: d.sample(2, given="strain"), r"given must be \{column: value\}, not 'strain'"),
        (
            lambda d: d.sample(2, given={True: 0.0}),
            "given: there is no column True; give a name or a position",
        ),
        (
            lambda d: d.probability({"strain": 0}),
            r"give \(low, high\) for column 'strain', two numbers, not 0",
        ),
        (lambda d: d.probability({1: (0, 1, 2)}), r"give \(low, high\) for column 'strain'"),
        (lambda d: d.probability({1: (0, None)}), r"give \(low, high\) for column 'strain'"),
        (lambda d: d.probability({1: "ab"}), r"give \(low, high\) for column 'strain'"),
        (lambda d: d.probability([(0, 1)]), r"box must be \{column: \(low, high\)\}, not \[\(0, 1\)\]"),
        (lambda d: d.score_conditional(PLANE, given=0), "given must be a list of columns, .* not 0"),
        (lambda d: d.score_conditional(PLANE, given=None), "given must be a list of columns, .* not None"),
        (lambda d: d.score_conditional(PLANE, given=[1.5]), "given: there is no column 1.5"),
        (lambda d: d.score_conditional(PLANE, given=[True]), "given: there is no column True"),
        (lambda d: d.sample(2, cell=3), "cell 3 does not exist: the model has 3 cells"),
        (
            lambda d: d.sample(2, given={"length": 1.0}),
            "no column 'length'; the columns are 'pressure', 'strain'",
        ),
    ],
)
def test_a_question_that_has_no_answer_says_why(
    fitted: dict[str, vc.VoronoiDensity], ask: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ask(fitted["vt"])


@pytest.mark.parametrize(
    "method",
    [
        "score_samples",
        "score_bounds",
        "predict",
        "predict_proba",
        "score",
        "bic",
        "aic",
        "save",
        "sample",
        "probability",
    ],
)
def test_nothing_is_answered_before_fit(method: str) -> None:
    with pytest.raises(NotFittedError):
        getattr(vc.VoronoiDensity(), method)(
            {} if method == "probability" else 1 if method == "sample" else PLANE
        )


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(299), "one number for each of the 300 rows"),
        (np.full(300, np.nan), "finite and not negative"),
        (-np.ones(300), "finite and not negative"),
        (np.zeros(300), "not zero in every row"),
        (np.eye(300)[0], "n_samples=1"),
        (["heavy"] * 300, "sample_weight must be numbers, one for each row"),
    ],
)
def test_weights_that_say_nothing_are_refused(weights: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small("circuit").fit(PLANE, sample_weight=weights)


def test_the_held_out_rows_are_never_beyond_a_histogram():
    rows = np.random.default_rng(0).normal(size=(150, 3))
    for seed in range(12):
        density = vc.VoronoiDensity(
            vc.Circuit(units=2, leaf="histogram"), vc.Adam(epochs=1), random_state=seed
        )
        assert np.isfinite(density.fit(rows).score_samples(rows)).all()
