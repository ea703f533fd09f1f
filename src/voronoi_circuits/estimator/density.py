"""``VoronoiDensity``: a density model with the face of a scikit-learn estimator.

# B rows, D columns, K cells
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_is_fitted

from voronoi_circuits.certificates import Certificate
from voronoi_circuits.estimator.choices import check_reached, paper_learner, paper_model
from voronoi_circuits.estimator.columns import Column, Columns
from voronoi_circuits.estimator.draws import draw, seeded
from voronoi_circuits.estimator.fitting import Fit, fit
from voronoi_circuits.estimator.intervals import Bounds, conditional, in_batches, probability, scores
from voronoi_circuits.estimator.saving import read, write
from voronoi_circuits.models.base import Model
from voronoi_circuits.persistence import DamagedModelError
from voronoi_circuits.specs import Specification
from voronoi_circuits.training import Adam, History

FloatArray = NDArray[np.float64]


class VoronoiDensity(DensityMixin, BaseEstimator):
    """A density over the columns of a table, with a proof of how far each reported likelihood can be off.

    Columns are standardised; densities are in the data's own units, in nats. VT models report proven lower
    and upper bounds, exact models the same number twice.

    Args:
        model: a specification, such as ``vc.VT(...)``; or the name "circuit", "mixture", "vt" or "hfv", which
            takes min(10, rows // 20) cells, at least one.
        learner: ``vc.Adam(...)``; "auto" is its defaults.
        transform: "standard", mean 0 and deviation 1 in every column.
        validation_fraction: rows held out to choose the best epoch where ``fit`` is given no ``X_val``.
        certify_budget: seconds that ``fit`` spends at most on the final certificate; None for no limit.
        device: "auto" or "cpu".
        random_state: seed or ``RandomState`` of ``fit``.
        verbose: whether ``fit`` shows its progress on standard error.

    Attributes:
        model_: the torch module, over standardised columns.
        certificate_: bounds of log Z.
        history_: what happened in each epoch.
        n_iter_: epochs run.
        n_features_in_: columns at fit.
        feature_names_in_: their names, where they had any.

    >>> from voronoi_circuits import VT, Adam, Circuit, datasets
    >>> rows = datasets.load("pinwheel", n=(500, 10, 100)).train
    >>> density = VoronoiDensity(VT(Circuit(units=2), cells=5), Adam(epochs=2), random_state=0).fit(rows)
    >>> lower, upper = density.score_bounds(rows[:3])
    >>> bool((lower <= upper).all()), density.predict(rows[:3]).shape
    (True, (3,))
    """

    model_: Model
    certificate_: Certificate
    history_: History
    n_iter_: int
    n_features_in_: int
    _columns: Columns
    feature_names_in_: NDArray[np.object_]

    def __init__(
        self,
        model: Specification | str | None = "vt",
        learner: Adam | str | None = "auto",
        transform: str = "standard",
        validation_fraction: float = 0.1,
        certify_budget: float | None = 10.0,
        device: str = "auto",
        random_state: int | np.random.RandomState | None = None,
        verbose: bool = False,
    ) -> None:
        self.model = model
        self.learner = learner
        self.transform = transform
        self.validation_fraction = validation_fraction
        self.certify_budget = certify_budget
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # scikit-learn takes whatever has an attribute ``transform`` for a transformer: the parameter is none.

    @property
    def transform(self) -> str:
        """Not to be read: the parameter is ``get_params()["transform"]``."""
        raise AttributeError('a density transforms no rows; its parameter is get_params()["transform"]')

    @transform.setter
    def transform(self, value: str) -> None:
        self._transform = value

    @classmethod
    def _get_param_names(cls) -> list[str]:
        return [name for name in super()._get_param_names() if name != "transform"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters by name, and with ``deep`` those of the model and the learner too."""
        return {**super().get_params(deep), "transform": self._transform}

    def set_params(self, **params: Any) -> Self:
        """Sets parameters by name, those of the model and the learner with ``__`` (``model__cells``)."""
        check_reached(self, params)
        return super().set_params(**params)

    @classmethod
    def paper(cls, model: str = "vt", structure: str = "hclt", units: int = 40, **settings: Any) -> Self:
        """The paper's protocol, whole; ``settings`` are other parameters, such as ``random_state``.

        The learner is the protocol's own.

        >>> VoronoiDensity.paper("vt", "einet").model
        VT(cells=40, expert=Circuit(product='tucker', structure='einet'), shared=True)
        """
        if "learner" in settings:
            raise ValueError(
                "settings may not hold learner, which the paper's protocol fixes; change it with "
                "set_params(learner=...) or set_params(learner__epochs=...)"
            )
        return cls(paper_model(model, structure, units), paper_learner(), **settings)

    def fit(self, X: Any, y: Any = None, *, X_val: Any = None, sample_weight: Any = None) -> Self:
        """Fits the model to complete rows; ``y`` is ignored.

        ``X_val`` are rows that choose the best epoch; without them ``validation_fraction`` of the rows do.
        """
        found = fit(self.get_params(deep=False), X, X_val, sample_weight)
        vars(self).pop("feature_names_in_", None)
        vars(self).update(found.attributes())
        return self

    def _read(self, X: Any, *, allow_missing: bool = False) -> torch.Tensor:
        return self._fitted_columns().read(X, allow_missing=allow_missing)

    def _fitted_columns(self) -> Columns:
        check_is_fitted(self)
        return self._columns

    def score_bounds(self, X: Any) -> tuple[FloatArray, FloatArray]:
        """Lower and upper bounds of the log density of each row; of an exact model the same number twice.

        NaN is a missing value: the row gets the bounds of its marginal.
        """
        z = self._read(X, allow_missing=True)
        return _arrays(scores(self.model_, z, self._columns, self.certificate_))

    def score_samples(self, X: Any) -> FloatArray:
        """The log density of each row: exact, or the certified lower bound. NaN is a missing value."""
        return self.score_bounds(X)[0]

    def score(self, X: Any, y: Any = None) -> Any:
        """The mean of ``score_samples``."""
        return float(self.score_samples(X).mean())

    def score_conditional(self, X: Any, given: Sequence[Column]) -> tuple[FloatArray, FloatArray]:
        """Bounds of log p(the other columns | the given ones), row by row; NaN elsewhere is missing."""
        z = self._read(X, allow_missing=True)
        return _arrays(conditional(self.model_, z, self._columns, given, self.certificate_))

    def probability(
        self, box: Mapping[Column, tuple[float, float]], given: Mapping[Column, float] | None = None
    ) -> tuple[float, float]:
        """Lower and upper bounds of P(box | given), in the data's own units.

        ``box`` is {column: (low, high)}, ``given`` {column: value}; columns go by name or position.
        """
        columns = self._fitted_columns()
        return probability(self.model_, columns, box, given, self.certificate_)

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The cell (for a mixture: the most probable component) of each complete row."""
        return self.predict_proba(X).argmax(axis=1)

    def predict_proba(self, X: Any) -> FloatArray:
        """The probability of each cell or component, (B, K); hard gates leave no doubt."""
        z = self._read(X)
        return in_batches(self.model_.responsibilities, z).numpy()

    def bic(self, X: Any) -> float:
        """-2 log-likelihood + parameters · log rows; of a certified model an upper bound."""
        lower = self.score_samples(X)
        return float(-2 * lower.sum() + self.model_.n_parameters * math.log(len(lower)))

    def aic(self, X: Any) -> float:
        """-2 log-likelihood + 2 parameters; of a certified model an upper bound."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.model_.n_parameters)

    def sample(
        self,
        n: int = 1,
        cell: int | None = None,
        given: Mapping[Column, float] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> Any:
        """n exact draws, of one cell or given values of some columns, in the container that was fitted."""
        columns = self._fitted_columns()
        z = draw(self.model_, n, cell, columns.evidence(given), seeded(random_state))
        return columns.container(z, given)

    def save(self, path: str | Path) -> None:
        """Writes the fitted estimator as a folder of JSON and safetensors, which ``vc.load`` reads."""
        columns = self._fitted_columns()
        fitted = Fit(self.model_, self.certificate_, self.history_, self.n_iter_, columns)
        write(path, self.get_params(deep=False), fitted)


def load(path: str | Path) -> VoronoiDensity:
    """The estimator that ``save`` wrote; a changed, missing or added byte is an error that names the file.

    >>> import tempfile
    >>> rows = np.random.default_rng(0).normal(size=(100, 2))
    >>> density = VoronoiDensity("circuit", Adam(epochs=1), random_state=0).fit(rows)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     density.save(Path(folder, "model"))
    ...     bool((load(Path(folder, "model")).score_samples(rows) == density.score_samples(rows)).all())
    True
    """
    settings, fitted = read(path)
    try:
        estimator = VoronoiDensity(**settings)
    except TypeError as error:
        raise DamagedModelError(
            f"{path}: model.json holds settings that this version does not know ({error})"
        ) from error
    vars(estimator).update(fitted.attributes())
    return estimator


def _arrays(bounds: Bounds) -> tuple[FloatArray, FloatArray]:
    lower, upper = bounds
    return lower.numpy(), upper.numpy()
