"""Private linear regression."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from dperm.certificate.assumptions import DECLARED
from dperm.errors import InvalidInput
from dperm.estimators.base import Coding, PrivateLinearModel, Vector
from dperm.estimators.labels import encode_numbers, regression_loss, weighted
from dperm.estimators.rows import RowSource
from dperm.estimators.settings import RegressionSettings, documented
from dperm.losses import Loss
from dperm.mechanisms import Plan


@documented("coef_ : ndarray of shape (n_features,)\nintercept_ : float")
class PrivateLinearRegression(RegressionSettings, RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression with an (epsilon, delta) guarantee.

    Targets are cut off at the public ``y_range`` and moved to [-1, 1] for training; the coefficients are
    those of the targets as they came.

    {parameters}

    {attributes}

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLinearRegression
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 2))
    >>> y = 50 + 40 * X[:, 0]
    >>> model = PrivateLinearRegression(epsilon=2.0, delta=1e-6, y_range=(0, 100)).fit(X, y)
    >>> model.privacy_.guarantee
    {'epsilon': 2.0, 'delta': 1e-06}
    >>> bool(55 < model.predict([[0.5, 0.0]])[0] < 85)
    True
    """

    def plan(self, n_rows: int, n_features: int, *, n_persons: int | None = None) -> Plan:
        """What ``fit`` would do on a table of this shape: noise, price and settings, from public facts alone.

        Raises what ``fit`` would raise of the settings. No data is needed and nothing is spent.

        Parameters
        ----------
        n_rows, n_features : int
            The shape of the table. Under add-remove ``max_rows`` stands for the number of rows.
        n_persons : int, optional
            The number of persons, where ``fit`` will get ``groups``; the number of rows then does not matter.
        """
        self._scale()
        return self._planned(n_rows, n_features, self._loss(), n_persons)

    def _coding(self, source: RowSource, paying: bool) -> Coding:
        middle, half = self._scale()
        encode = partial(encode_numbers, low=middle - half, high=middle + half)
        return self._loss(), encode, self._keep

    def _keep(self, coefficients: Vector, intercept: Vector) -> None:
        middle, half = self._scale()
        self.coef_ = half * coefficients
        self.intercept_ = float(middle + half * intercept)

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The linear function of each row, not cut off at ``y_range``.

        With ``row_map_.linear``, as by default, that is ``X @ coef_.T + intercept_`` for rows of any length. Otherwise
        rows are mapped as in training: one longer than ``x_norm`` is scaled down to it.
        """
        return self._margins(X)

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """R squared on these rows. It is not private."""
        return self._scored(super().score, X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # at epsilon = 1 a few dozen rows teach little
        tags.non_deterministic = True
        return tags

    def _loss(self) -> Loss:
        loss = regression_loss(self.loss, self._number("residual_bound"))
        return weighted(loss, None, self.sample_weight_bound)

    def _targets(self, loss: Loss) -> dict[str, Any]:
        assert self.y_range is not None  # or fit had raised
        low, high = self.y_range
        return {"kind": "range", "low": float(low), "high": float(high), "origin": DECLARED}

    def _scale(self) -> tuple[float, float]:
        """Middle and half length of the targets' range; without an intercept a range around zero."""
        if self.y_range is None:
            raise InvalidInput(
                "y_range is needed: bounds on the target that are known without the data, for example y_range=(0, 100) "
                "for a percentage. Targets beyond it are cut off; a range taken from y would publish its extremes."
            )
        ends = self.y_range if isinstance(self.y_range, Sequence) else ()
        numeric = len(ends) == 2 and all(isinstance(end, numbers.Real) and math.isfinite(end) for end in ends)
        if not (numeric and ends[0] < ends[1]):
            raise InvalidInput(
                "y_range must be a pair of finite numbers, low < high, known without the data, for example "
                f"(0, 100); got {self.y_range!r}."
            )
        low, high = float(ends[0]), float(ends[1])
        middle = low / 2 + high / 2 if self.fit_intercept else 0.0
        return middle, half_range(low, high, bool(self.fit_intercept))


def half_range(low: float, high: float, fit_intercept: bool) -> float:
    """The unit in which targets are trained on: half their range; without an intercept that of one around zero."""
    return high / 2 - low / 2 if fit_intercept else max(abs(low), abs(high))
