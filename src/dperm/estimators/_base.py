"""The one private fit behind every estimator."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from dperm.engine import Table
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.report import PrivacyReport
from dperm.losses import Loss
from dperm.mechanisms import Job, Mechanism, Outcome, Plan, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, entropy_from
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem

INTERCEPT_SCALE = 0.3  # the intercept column as a share of x_norm: it grows the row norm by 4.4 % only


class PrivateBinaryClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier of two classes, trained with differential privacy.

    Parameters
    ----------
    epsilon, delta : float, default=1.0 and 1e-6
        The privacy budget that this one fit spends. Smaller is more private and noisier; delta should be
        well below one over the number of rows.
    mechanism : str or mechanism object, default="rsgd-ar"
        How to train: a name that ``dperm account --help`` lists, or an object such as
        ``RSGDAR(epochs=20, batch_size=4000)`` to choose its settings.
    l2 : float, default=1e-3
        Weight of half the squared norm of all coefficients, the intercept's too, against the mean loss.
    x_norm : float, default=1.0
        Public bound on the Euclidean norm of a row of features. Longer rows are scaled down to it.
    classes : pair of labels, default=None
        The two labels that may occur, the positive one second. None takes them from y, and the report
        lists that among its assumptions.
    fit_intercept : bool, default=True
        Add a constant column inside the bounded row. Like every coefficient it is penalised and noised.
    neighbours : {"replace-one", "add-remove"}, default="replace-one"
        What the guarantee hides: the content of one row, or also whether it is there.
    max_rows : int, default=None
        For add-remove: a public number of rows that the table never exceeds.
    random_state : int, Generator or RandomState, default=None
        None draws all randomness from the operating system. Anything else makes the fit repeatable and
        therefore NOT private; the report then says so.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
    classes_ : ndarray of shape (2,)
    n_features_in_ : int
    feature_names_in_ : ndarray of str, when X has column names
    privacy_ : PrivacyReport
        What is guaranteed, how, and under which assumptions. Print it, or use ``to_dict()``.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        mechanism: str | Mechanism = "rsgd-ar",
        l2: float = 1e-3,
        x_norm: float = 1.0,
        classes: Sequence[Any] | None = None,
        fit_intercept: bool = True,
        neighbours: str = "replace-one",
        max_rows: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.mechanism = mechanism
        self.l2 = l2
        self.x_norm = x_norm
        self.classes = classes
        self.fit_intercept = fit_intercept
        self.neighbours = neighbours
        self.max_rows = max_rows
        self.random_state = random_state

    def _loss(self) -> Loss:
        raise NotImplementedError

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateBinaryClassifier:
        """Plan from public facts, then train on the rows and release the weights once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows with a Euclidean norm above ``x_norm`` are scaled down to it.
        y : array-like of shape (n_samples,)
            Labels, all of them in ``classes``.
        """
        budget = Budget(self.epsilon, self.delta)
        mechanism = resolve(self.mechanism)
        entropy = entropy_from(self.random_state)
        rows, labels = validate_data(self, X, y, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        self.classes_ = self._label_set(labels)
        signs = _encode(labels, self.classes_)
        problem = self._problem(*rows.shape)
        plan = mechanism.plan(problem, budget)
        table = Table(rows, signs, x_norm=problem.x_norm, intercept=problem.intercept, n_rows=problem.n_rows)
        (outcome,) = mechanism.run([Job(plan=plan)], table, entropy)
        features, intercept = np.split(outcome.weights, [problem.n_features])
        self.coef_ = features[None, :]
        self.intercept_ = problem.intercept * intercept if self.fit_intercept else np.zeros(1)
        self.privacy_ = self._report(plan, outcome, entropy)
        return self

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Signed margin of each row: positive speaks for ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return np.asarray(X @ self.coef_[0] + self.intercept_[0])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label on the side of each row's margin."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # at epsilon = 1 a few dozen rows teach little
        tags.non_deterministic = True
        return tags

    def _problem(self, n_samples: int, n_features: int) -> Problem:
        neighbours = Neighbours.parse(self.neighbours)
        if neighbours is Neighbours.ADD_REMOVE and self.max_rows is None:
            raise InvalidInput(
                "neighbours='add-remove' keeps the number of rows private, so it needs max_rows, a public number "
                f"that the table never exceeds; or use neighbours={Neighbours.REPLACE_ONE.value!r}."
            )
        if neighbours is Neighbours.REPLACE_ONE and self.max_rows is not None:
            raise InvalidInput(
                "max_rows belongs to neighbours='add-remove'; under replace-one the row count is public."
            )
        for name in ("l2", "x_norm"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Real):
                raise InvalidInput(f"{name} must be a number; got {value!r}.")
        return Problem(
            loss=self._loss(),
            l2=float(self.l2),
            x_norm=float(self.x_norm),
            n_rows=n_samples if self.max_rows is None else self.max_rows,
            n_features=n_features,
            intercept=INTERCEPT_SCALE * float(self.x_norm) if self.fit_intercept else 0.0,
            neighbours=neighbours,
        )

    def _label_set(self, y: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            labels = np.unique(y)
            if len(labels) > 2:
                raise Unsupported(
                    "Only binary classification is supported. The type of the target is multiclass: "
                    f"y holds {len(labels)} classes."
                )
            if len(labels) < 2:
                raise InvalidInput(
                    "y holds 1 class and two are needed; if the other class may occur, declare both with classes=."
                )
            return labels
        labels = np.asarray(self.classes)
        if labels.shape != (2,) or labels[0] == labels[1]:
            raise InvalidInput(
                f"classes must hold two different labels; got an array of shape {labels.shape}."
            )
        return labels

    def _report(self, plan: Plan, outcome: Outcome, entropy: Entropy) -> PrivacyReport:
        problem, record = plan.problem, outcome.record
        reason = None
        if not plan.private:
            reason = f"mechanism {plan.mechanism.name!r} is a baseline without noise."
        elif not entropy.secure:
            reason = "random_state makes the noise predictable; leave it at None for a release."
        elif not outcome.certified:
            reason = "the arithmetic was not the one that the plan accounts for."
        return PrivacyReport(
            guarantee=None if reason else {"epsilon": plan.budget.epsilon, "delta": plan.budget.delta},
            reason=reason,
            mechanism=plan.mechanism.name,
            accounting=plan.mechanism.accounting,
            accountant=plan.accountant,
            settings=plan.settings,
            epsilon=plan.budget.epsilon,
            delta=plan.budget.delta,
            neighbours=problem.neighbours.value,
            n_rows=problem.n_rows,
            n_coefficients=problem.dimension,
            loss=problem.loss.name,
            l2=problem.l2,
            x_norm=problem.x_norm,
            row_norm=problem.row_norm,
            lipschitz=problem.loss.lipschitz,
            smoothness=problem.smoothness,
            sensitivity=None if record is None else record.sensitivity,
            noise_scale=None if record is None else record.noise_scale,
            grid_exponent=None if record is None else record.grid_exponent,
            entropy=entropy.name,
            assumptions=(*self._assumptions(problem), *plan.assumptions),
        )

    def _assumptions(self, problem: Problem) -> tuple[str, ...]:
        rows = (
            f"The number of rows, {problem.n_rows}, is public."
            if problem.neighbours is Neighbours.REPLACE_ONE
            else f"max_rows = {problem.n_rows} was chosen without looking at the data, and no table exceeds it."
        )
        labels = (
            "The label set was taken from y; it is public knowledge."
            if self.classes is None
            else "classes was chosen without looking at the data."
        )
        return (
            "One person contributes one row.",
            rows,
            labels,
            "x_norm, l2 and every other setting were chosen without looking at the data.",
            "Features were computed row by row, with nothing learned from other rows.",
        )


def _encode(y: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
    positive = y == classes[1]
    if not (positive | (y == classes[0])).all():
        raise InvalidInput(
            "y holds labels outside classes; declare every label that may occur, with the positive class second."
        )
    return np.where(positive, 1.0, -1.0)
