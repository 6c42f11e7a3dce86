"""Private linear regression."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.statement import DECLARED
from dperm.errors import InvalidInput
from dperm.estimators._base import PrivateLinearModel
from dperm.estimators._rows import checked, unquoted
from dperm.estimators._weights import refuse_weights
from dperm.ledger import Ledger
from dperm.losses import ClippedSquared, Loss
from dperm.mechanisms import Mechanism


class PrivateLinearRegression(RegressorMixin, PrivateLinearModel):  # type: ignore[misc]
    """Linear regression with an (epsilon, delta) guarantee.

    Targets are cut off at the public ``y_range`` and moved to [-1, 1] for training; the coefficients are
    those of the targets as they came.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The privacy budget that this one fit spends. Smaller is more private and noisier; delta should be
        well below one over the number of rows.
    mechanism : str or mechanism object, default="auto"
        How to train. "auto" follows noisy gradients; "adassp" solves from noisy moments; the mechanisms that
        follow gradients or perturb the minimiser train with the squared loss and clipped residuals.
    l2 : float, default=1e-3
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean of half
        the squared residuals, with targets in [-1, 1].
    x_norm : float, default=1.0
        Public bound on the Euclidean norm of a row of features. Longer rows are scaled down to it.
    y_range : (low, high), default=None
        Public bounds on the target, from what is known without the data. Targets beyond are cut off. ``fit`` raises
        without it: no range would suit every target, and a wrong one ruins the model without a word.
    residual_bound : float, default=1.0
        Residuals count squared up to this size and linearly beyond it, in units of half the range. A
        smaller bound means less noise and less influence of outliers. "adassp" does not use it.
    fit_intercept : bool, default=True
        Add a constant column inside the bounded row. Like every coefficient it is penalised and noised; the
        middle of ``y_range`` is added without cost. Without it predictions are 0 where the features are.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        What the guarantee hides: the content of one row, or also whether it is there.
    max_rows : int, default=None
        For add-remove: a public number of rows that the table never exceeds; one that does is refused. Any
        smaller number fits, also none at all.
    random_state : int, Generator or RandomState, default=None
        None draws all randomness from the operating system. Anything else makes the fit repeatable and
        therefore NOT private; the report then says so, and a ledger refuses it.
    ledger : Ledger, default=None
        Where this fit is charged, before a row is read. A fit that would exceed the cap raises ``BudgetExceeded``.
    dataset : str, default=None
        Which dataset of the ledger the rows belong to; None is its default one.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
    n_features_in_ : int
    feature_names_in_ : ndarray of str, when X has column names
    privacy_ : PrivacyReport
        What is guaranteed, how, and under which assumptions. Print it, or use ``to_dict()``.
    ledger_entry_ : str or None
        The ledger, the charge that paid for this fit and the head of the ledger's history after it.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        mechanism: str | Mechanism = "auto",
        l2: float = 1e-3,
        x_norm: float = 1.0,
        y_range: tuple[float, float] | None = None,
        residual_bound: float = 1.0,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        max_rows: int | None = None,
        random_state: Any = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        super().__init__(
            epsilon=epsilon,
            delta=delta,
            mechanism=mechanism,
            l2=l2,
            x_norm=x_norm,
            fit_intercept=fit_intercept,
            neighbours=neighbours,
            max_rows=max_rows,
            random_state=random_state,
            ledger=ledger,
            dataset=dataset,
        )
        self.y_range = y_range
        self.residual_bound = residual_bound

    def fit(self, X: ArrayLike, y: ArrayLike, **unsupported: Any) -> PrivateLinearRegression:
        """Plan from public facts, then train on the rows and release.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows with a Euclidean norm above ``x_norm`` are scaled down to it. Under add-remove there may be none.
        y : array-like of shape (n_samples,)
            Numbers; those outside ``y_range`` are cut off at its ends.
        **unsupported
            Refused: ``sample_weight`` with the reason why.
        """
        refuse_weights(unsupported)
        middle, half = self._scale()
        loss = ClippedSquared(self._number("residual_bound"))
        n_samples, n_features = self._table_shape(X, y, self.ledger is not None)
        problem = self._problem(n_samples, n_features, loss)

        def read() -> tuple[NDArray[Any], NDArray[Any]]:
            form = {"dtype": [np.float64, np.float32], "ensure_min_samples": self._fewest_rows()}
            rows, values = checked(self, X, y, y_numeric=True, **form)
            with unquoted():
                return rows, np.clip((values.astype(np.float64) - middle) / half, -1.0, 1.0)

        coefficients, intercept = self._fit_weights(problem, read)
        self.coef_ = half * coefficients
        self.intercept_ = float(middle + half * intercept)
        self._bind()
        return self

    def predict(self, X: ArrayLike) -> NDArray[np.float64]:
        """The linear function of each row, not cut off at ``y_range``."""
        check_is_fitted(self)
        rows = checked(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(rows @ self.coef_ + self.intercept_)

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """R squared on these rows. It is not private."""
        check_is_fitted(self)
        with unquoted():
            return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # at epsilon = 1 a few dozen rows teach little
        tags.non_deterministic = True
        return tags

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
        if not self.fit_intercept:
            return 0.0, max(abs(low), abs(high))
        return low / 2 + high / 2, high / 2 - low / 2
