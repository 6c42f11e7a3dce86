"""Private choice of settings: the scikit-learn search whose cost is counted."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.model_selection import ParameterGrid, cross_val_score
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.cautions import Caution, cautions
from dperm.certificate.statement import SETTINGS_ASSUMED, assumptions
from dperm.errors import DpermError, InvalidInput, NotCertified, Unsupported
from dperm.estimators._base import PrivateLinearModel
from dperm.estimators._classifier import PrivateClassifier, _encode
from dperm.estimators._paying import check_purse, check_shape, paid
from dperm.estimators._rows import checked, unquoted
from dperm.estimators._surroundings import surroundings
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.report import PrivacyReport
from dperm.ledger import Ledger
from dperm.losses import ClippedSquared
from dperm.mechanisms import Outcome, Plan, mechanism_names, resolve
from dperm.neighbours import Neighbours
from dperm.privacy import (
    Budget,
    Gate,
    GaussianNoise,
    GaussianProfile,
    entropy_from,
    gaussian_mu,
    grid_exponent,
    padded,
)
from dperm.privacy.budget import EPSILON_RANGE
from dperm.privacy.cost import Cost
from dperm.privacy.entropy import SeededEntropy, SystemEntropy
from dperm.privacy.search import smallest_safe
from dperm.privacy.selection import (
    SHAPES,
    RunCount,
    SelectionPlan,
    cheapest_selection,
    plan_selection,
)
from dperm.problem import Problem

NAME = "private search"
ACCOUNTANT = "Renyi price of the best of a random number of candidates (Papernot & Steinke 2022)"
FIXED = (
    "epsilon",
    "delta",
    "classes",
    "y_range",
    "neighbours",
    "max_rows",
    "random_state",
    "ledger",
    "dataset",
)
_NEEDS_MAX_ROWS = "neighbours='add-remove' needs max_rows, a public number that the table never exceeds."


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """One setting of the grid: the estimator with its share of the budget, and the plan that it will follow."""

    params: Mapping[str, Any]
    estimator: PrivateLinearModel
    plan: Plan


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """The public facts of a search."""

    n_rows: int  # or the capacity
    n_training: int
    n_features: int
    classes: NDArray[Any] | None
    neighbours: Neighbours

    @property
    def n_validation(self) -> int:
        return self.n_rows - self.n_training


class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose settings of a private estimator privately, with one (epsilon, delta) guarantee for the whole.

    The rows are parted once into training and validation rows. A random number of candidates is drawn from the
    grid with replacement; each is fitted on the training rows, and its score on the validation rows is noised. Only
    the best candidate leaves: its model, its settings and its noisy score.

    Parameters
    ----------
    estimator : PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression
        Its epsilon and delta are overwritten by what one candidate may cost.
    param_grid : dict or list of dicts
        Settings to choose from, as in scikit-learn. They must be chosen without looking at the data.
    epsilon, delta : float
        The privacy budget of everything that ``fit`` does.
    mean_candidates : float, default=10
        Mean number of candidates. The number itself is random and must stay secret.
    runs : {"auto", "logarithmic", "geometric", "poisson"} or float, default="auto"
        The law of the number of candidates; a number is the shape of a truncated negative binomial. "auto" takes
        the one that leaves a candidate most budget, of those that draw two or more with a chance of 80 %. A
        Poisson number, which "auto" takes up to a mean of about 15, may be 0, with a chance of exp(-mean); then a
        model with all coefficients 0, which tells nothing of the rows, is released.
    validation : float, default=0.2
        Share of the rows held out for scoring.
    refit_share : float, default=None
        Share of epsilon and delta kept back to fit the chosen settings on all rows. None releases the best
        candidate itself, which has seen the training rows.
    public_data : tuple (X, y), default=None
        Public rows. Settings are then chosen on them by cross-validation, which costs nothing, and one fit on the
        private rows takes the whole budget.
    cv : int or splitter, default=5
        Cross-validation on ``public_data``. Not used otherwise: every fold would have to be paid for.
    random_state : int, Generator or RandomState, default=None
        None draws all randomness from the operating system. Anything else makes the search repeatable and
        therefore NOT private; the report then says so, and a ledger refuses it.
    ledger : Ledger, default=None
        Charged once for the whole, before a row is read; needs ``classes`` on a classifier.
    dataset : str, default=None
        Which of the ledger's datasets the rows belong to.

    Attributes
    ----------
    best_estimator_ : estimator
        The fitted model. Its ``privacy_`` is that of the whole search.
    best_params_ : dict
    best_score_ : float or None
        Noisy accuracy on the validation rows; for regression 1 minus the mean absolute error in units of
        ``y_range``. None if there was no candidate. With ``public_data`` the cross-validated score there.
    privacy_ : PrivacyReport
        The guarantee of the whole.

    Guarantee
    ---------
    Everything stored is (epsilon, delta)-differentially private: docs/proofs/selection.md. A row is either a training
    or a validation row, so a candidate costs the larger of its fit and its score, not both.

    Assumes
    -------
    The number of candidates stays secret; the time that ``fit`` takes betrays it.
    """

    privacy_: PrivacyReport

    def __init__(
        self,
        estimator: PrivateLinearModel,
        param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]],
        *,
        epsilon: float,
        delta: float,
        mean_candidates: float = 10.0,
        runs: str | float = "auto",
        validation: float = 0.2,
        refit_share: float | None = None,
        public_data: tuple[ArrayLike, ArrayLike] | None = None,
        cv: Any = 5,
        random_state: Any = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.param_grid = param_grid
        self.epsilon = epsilon
        self.delta = delta
        self.mean_candidates = mean_candidates
        self.runs = runs
        self.validation = validation
        self.refit_share = refit_share
        self.public_data = public_data
        self.cv = cv
        self.random_state = random_state
        self.ledger = ledger
        self.dataset = dataset

    def fit(self, X: ArrayLike, y: ArrayLike) -> PrivateSearchCV:
        """Plan from public facts, then search on the rows and release the best candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        """
        grid = self._grid()
        entropy = entropy_from(self.random_state)
        task = self._task(X, y)
        if self.public_data is not None:
            return self._fit_after_public(grid, task, X, y, entropy)
        whole = Budget(self.epsilon, self.delta)
        search_budget, refit_budget = self._shares(whole)
        selection = self._selection(search_budget)
        candidates = [self._candidate(params, task, selection) for params in grid]
        noise = _score_noise(task.n_validation, selection.mu)
        self._warn(candidates[0].estimator, task, whole)

        def train(
            data: tuple[NDArray[Any], NDArray[Any]],
        ) -> tuple[Mapping[str, Any], PrivateLinearModel, float | None]:
            best, model, score = _best_of(candidates, selection, noise, task, *data, entropy)
            params = (best or candidates[0]).params
            if refit_budget is not None:
                model = self._configured(params, task, refit_budget, task.n_rows)
                model.set_params(random_state=_stream(entropy)).fit(*data)
            elif model is None:
                model = _constant_model(candidates[0], task, entropy)
            return params, model, score

        cost = Cost.point(whole.epsilon, whole.delta)
        entry, (params, model, score) = paid(
            self, cost, task.neighbours, NAME, lambda: self._read(X, y, task), train
        )
        settings = {
            "candidates": len(grid),
            "runs": f"{selection.runs.name}, {selection.runs.mean:g} on average",
            "candidate_mu": selection.mu,
            "training_rows": task.n_training,
            "validation_rows": task.n_validation,
            "score_noise": noise.scale,
            "refit_share": self.refit_share,
        }
        return self._store(model, params, score, self._search_report(model, task, params, settings), entry)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """What the best estimator predicts."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The best estimator's own score (accuracy, or R squared) on these rows. It is not private."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))

    @available_if(lambda self: hasattr(self.estimator, "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margins of the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(lambda self: hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities of the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict_proba(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.target_tags, tags.non_deterministic = inner.target_tags, True
        return tags

    def _grid(self) -> list[dict[str, Any]]:
        """The settings to choose from, checked without data."""
        if not isinstance(self.estimator, PrivateClassifier | PrivateLinearRegression):
            raise Unsupported(
                "estimator must be a PrivateLogisticRegression, PrivateLinearSVC or PrivateLinearRegression; got a "
                f"{type(self.estimator).__name__}. To use it behind an encoder, put the search into the pipeline."
            )
        if getattr(self.estimator, "ledger", None) is not None and self.ledger is None:
            raise InvalidInput(
                "give the ledger to PrivateSearchCV and not to the estimator: the search pays once for all."
            )
        if isinstance(self.estimator, PrivateLinearRegression):
            self.estimator._scale()  # a range that is missing is told of before anything is spent
        grid: list[dict[str, Any]] = list(ParameterGrid(self.param_grid))
        names = {name for params in grid for name in params}
        fixed = sorted(names.intersection(FIXED))
        if fixed:
            raise InvalidInput(
                f"param_grid may not vary {', '.join(fixed)}: the search sets it, or all candidates share it. Set "
                "it on the search or on the estimator."
            )
        unknown = sorted(names.difference(self.estimator.get_params(deep=False)))
        if unknown:
            raise InvalidInput(f"{type(self.estimator).__name__} has no parameter {', '.join(unknown)}.")
        if not 0 < len(grid) <= 10_000:
            raise InvalidInput(f"param_grid must hold between 1 and 10,000 settings; got {len(grid)}.")
        return grid

    def _classifies(self) -> bool:
        return isinstance(self.estimator, PrivateClassifier)

    def _task(self, X: ArrayLike, y: ArrayLike) -> Task:
        """The public facts, found without a look at a value; only ``classes=None`` without a ledger looks at y."""
        paying = self.ledger is not None
        neighbours = Neighbours.parse(self.estimator.neighbours)
        n_rows, n_features = self.estimator._table_shape(X, y, paying)
        if neighbours is Neighbours.ADD_REMOVE:
            if self.estimator.max_rows is None:
                raise InvalidInput(_NEEDS_MAX_ROWS)
            n_rows = self.estimator.max_rows
        share = self.validation
        if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
            raise InvalidInput(f"validation must be a share of the rows between 0 and 1; got {share!r}.")
        n_validation = max(1, round(share * n_rows))
        if n_validation >= n_rows:
            raise InvalidInput(f"validation={share:g} leaves no training row of {n_rows}.")
        return Task(
            n_rows=n_rows,
            n_training=n_rows - n_validation,
            n_features=n_features,
            classes=self.estimator._label_set(y, paying) if self._classifies() else None,
            neighbours=neighbours,
        )

    def _read(self, X: ArrayLike, y: ArrayLike, task: Task) -> tuple[NDArray[Any], NDArray[Any]]:
        """Rows and targets, once their form is known to be that of the task."""
        form = {"dtype": [np.float64, np.float32], "ensure_min_samples": self.estimator._fewest_rows()}
        rows, targets = checked(self, X, y, y_numeric=not self._classifies(), **form)
        n_told = task.n_rows if task.neighbours is Neighbours.REPLACE_ONE else None
        check_shape(rows, n_told, task.n_features)
        if len(rows) > task.n_rows:
            raise InvalidInput(_NEEDS_MAX_ROWS)
        if task.classes is not None:
            with unquoted():
                check_classification_targets(targets)
                _encode(targets, task.classes)
        return rows, targets

    def _shares(self, whole: Budget) -> tuple[Budget, Budget | None]:
        """What the search and the last fit may spend; epsilons and deltas add up."""
        share = self.refit_share
        if share is None:
            return whole, None
        if isinstance(share, bool) or not isinstance(share, numbers.Real) or not 0 < share < 1:
            raise InvalidInput(f"refit_share must be None or lie between 0 and 1; got {share!r}.")
        refit = Budget(whole.epsilon * share, whole.delta * share)
        return Budget(whole.epsilon - refit.epsilon, whole.delta - refit.delta), refit

    def _selection(self, budget: Budget) -> SelectionPlan:
        mean = self.mean_candidates
        if isinstance(mean, bool) or not isinstance(mean, numbers.Real):
            raise InvalidInput(f"mean_candidates must be a number; got {mean!r}.")
        if isinstance(self.runs, str) and self.runs == "auto":
            return cheapest_selection(budget, float(mean))
        if isinstance(self.runs, str) and self.runs in SHAPES:
            return plan_selection(budget, RunCount(SHAPES[self.runs], float(mean)))
        if isinstance(self.runs, numbers.Real) and not isinstance(self.runs, bool):
            return plan_selection(budget, RunCount(float(self.runs), float(mean)))
        raise InvalidInput(
            f"runs must be 'auto', {', '.join(map(repr, SHAPES))} or a shape; got {self.runs!r}."
        )

    def _configured(
        self, params: Mapping[str, Any], task: Task, budget: Budget, n_rows: int
    ) -> PrivateLinearModel:
        """A fresh estimator with these settings, for so many of the rows."""
        model: PrivateLinearModel = clone(self.estimator).set_params(
            **params, epsilon=budget.epsilon, delta=budget.delta, random_state=None
        )
        known = model.get_params(deep=False)
        model.set_params(**{name: None for name in ("ledger", "dataset") if name in known})  # the search pays
        if task.classes is not None:
            model.set_params(classes=task.classes)
        if task.neighbours is Neighbours.ADD_REMOVE:
            model.set_params(max_rows=n_rows)
        return model

    def _candidate(self, params: Mapping[str, Any], task: Task, selection: SelectionPlan) -> Candidate:
        """The setting with about the largest epsilon at which the selection admits its cost."""

        def at(epsilon: float) -> Candidate:
            if epsilon < EPSILON_RANGE[0]:
                raise NotCertified(
                    f"no budget is left for a candidate with {_in_words(params)}; raise epsilon or lower "
                    "mean_candidates."
                )
            budget = Budget(epsilon, selection.budget.delta)
            model = self._configured(params, task, budget, task.n_training)
            plan = resolve(model.mechanism).plan(_problem(model, task), budget)
            return Candidate(params=params, estimator=model, plan=plan)

        def excess(inverse: float) -> float:
            return selection.excess(_admissible(at(1 / inverse).plan))

        gaussian = 1 / min(
            EPSILON_RANGE[1], GaussianProfile.gaussian(selection.mu).epsilon(selection.budget.delta)
        )
        start = gaussian * (1 + 1e-9)
        if -1e-6 <= excess(start) <= 0:
            return at(1 / start)
        return at(1 / smallest_safe(excess, start, tolerance=1e-3, lowest=1 / EPSILON_RANGE[1]))

    def _fit_after_public(
        self,
        grid: Sequence[Mapping[str, Any]],
        task: Task,
        X: ArrayLike,
        y: ArrayLike,
        entropy: SystemEntropy | SeededEntropy,
    ) -> PrivateSearchCV:
        """Choose on the public rows, then fit once on the private ones."""
        if not isinstance(self.public_data, tuple) or len(self.public_data) != 2:
            raise InvalidInput("public_data must be a pair (X, y) of public rows and their targets.")
        with unquoted():
            public_rows, public_targets = (np.asarray(part) for part in self.public_data)
        if public_rows.ndim != 2 or len(public_rows) == 0 or public_targets.shape != public_rows.shape[:1]:
            raise InvalidInput(
                "public_data must be a pair (X, y): a table of at least one row, and one target for each; got shapes "
                f"{public_rows.shape} and {public_targets.shape}."
            )
        whole = Budget(self.epsilon, self.delta)
        alike = _alike(whole, task.n_rows / len(public_rows))
        scores = []
        for params in grid:
            model = self._configured(params, task, alike, len(public_rows))
            model.set_params(random_state=_stream(entropy))
            scores.append(float(np.mean(cross_val_score(model, public_rows, public_targets, cv=self.cv))))
        best = int(np.argmax(scores))
        model = self._configured(grid[best], task, whole, task.n_rows)
        problem = replace(_problem(model, task), n_rows=task.n_rows)
        self._warn(model, task, whole)
        cost = resolve(model.mechanism).plan(problem, whole).cost
        model.set_params(random_state=_stream(entropy))
        entry, _ = paid(
            self, cost, task.neighbours, NAME, lambda: self._read(X, y, task), lambda data: model.fit(*data)
        )
        chosen = (
            f"{_in_words(grid[best])} was chosen by cross-validation on {len(public_rows)} rows of public_data, which "
            "are public and not protected; every other setting was chosen without looking at the data."
        )
        report = PrivacyReport.of(self._statement(model, task, chosen))
        return self._store(model, grid[best], scores[best], report, entry)

    def _statement(self, model: PrivateLinearModel, task: Task, settings_assumed: str) -> dict[str, Any]:
        """The model's own statement, with the labels as the user declared them and how the settings came about."""
        stated = model.privacy_.statement
        problem = replace(_problem(model, task), n_rows=stated["problem"]["n_rows"])
        plan = resolve(model.mechanism).plan(problem, Budget(model.epsilon, model.delta))
        targets = self.estimator._targets(problem.loss)
        around = [settings_assumed if line == SETTINGS_ASSUMED else line for line in stated["around"]]
        lines = list(assumptions(plan, targets, around))
        return {**stated, "targets": targets, "around": around, "assumptions": lines}

    def _search_report(
        self, model: PrivateLinearModel, task: Task, params: Mapping[str, Any], settings: Mapping[str, Any]
    ) -> PrivacyReport:
        """The guarantee of the whole; what concerns the training itself is that of the released model.

        The model's statement for machines is that of one fit, so it claims nothing and points to the whole.
        """
        grid_assumed = "x_norm, param_grid and every other setting were chosen without looking at the data."
        inner = PrivacyReport.of(self._statement(model, task, grid_assumed))
        epsilon, delta = float(self.epsilon), float(self.delta)
        pointer = (
            "this statement of one fit claims nothing by itself: the model was chosen by a private search, whose "
            f"guarantee for the whole is epsilon = {epsilon:g}, delta = {delta:g}."
        )
        statement = {**inner.statement, "guarantee": None, "reason": inner.reason or pointer}
        return replace(
            inner,
            guarantee=None if inner.guarantee is None else {"epsilon": epsilon, "delta": delta},
            epsilon=epsilon,
            delta=delta,
            mechanism=NAME,
            accountant=ACCOUNTANT
            if self.refit_share is None
            else f"{ACCOUNTANT}, and the last fit, added up",
            settings={
                "best": _in_words(params),
                "trained_by": inner.settings.get("mechanism", inner.mechanism),
                **settings,
                "model_epsilon": inner.epsilon,
                "model_delta": inner.delta,
            },
            n_rows=task.n_rows,
            noise_on=f"{inner.noise_on}; and on the score of every candidate",
            assumptions=(
                *(
                    line.replace(f"{inner.n_rows}", f"{task.n_rows}")
                    for line in inner.assumptions
                    if not line.startswith("CAUTION")
                ),
                "The number of candidates, and so the time of the search, is kept secret.",
                *map(str, _cautions(model, task, Budget(epsilon, delta))),
            ),
            statement=statement,
        )

    def _warn(self, model: PrivateLinearModel, task: Task, whole: Budget) -> None:
        """Of what surrounds the search and of its public facts, once and before anything is spent."""
        around, depth = surroundings(self)
        around.warn(depth, _cautions(model, task, whole))
        check_purse(self)

    def _store(
        self,
        model: PrivateLinearModel,
        params: Mapping[str, Any],
        score: float | None,
        report: PrivacyReport,
        entry: str | None,
    ) -> PrivateSearchCV:
        if isinstance(model, PrivateClassifier):
            model.set_params(classes=self.estimator.classes)
            self.classes_ = model.classes_
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        model.privacy_ = report
        if entry is not None:
            model.ledger_entry_ = self.ledger_entry_ = entry
        model._bind()
        self.best_estimator_, self.best_params_, self.best_score_ = model, dict(params), score
        self.privacy_ = report
        return self


def _problem(model: PrivateLinearModel, task: Task) -> Problem:
    """The public facts of a candidate's fit, as its own ``fit`` will find them."""
    n_rows = task.n_training
    if isinstance(model, PrivateClassifier):
        assert task.classes is not None
        return model._problem(n_rows, task.n_features, model._loss(len(task.classes)))
    return model._problem(n_rows, task.n_features, ClippedSquared(model._number("residual_bound")))


def _cautions(model: PrivateLinearModel, task: Task, whole: Budget) -> tuple[Caution, ...]:
    """Those of the whole search: all rows, and the whole delta."""
    return cautions(replace(_problem(model, task), n_rows=task.n_rows), whole)


def _admissible(plan: Plan) -> GaussianProfile:
    """The plan's price, if it is one that a search can be built on."""
    name = plan.mechanism.name
    if not plan.private:
        raise Unsupported(
            f"mechanism {name!r} is a baseline without noise; a search needs a private mechanism."
        )
    if plan.not_certified is not None:
        raise NotCertified(f"mechanism {name!r} cannot be searched over: {plan.not_certified}")
    if plan.profile is None:
        raise Unsupported(
            f"mechanism {name!r} cannot be searched over: its price ({plan.accountant}) gives no Renyi divergence. "
            f"Those that can be here: {', '.join(_searchable(plan))}. Or use public_data."
        )
    return plan.profile


def _searchable(plan: Plan) -> list[str]:
    """Names of the mechanisms that fit the same task and have a profile."""
    names = []
    for name in mechanism_names():
        try:
            other = resolve(name).plan(plan.problem, plan.budget)
        except DpermError:
            continue
        if other.profile is not None and other.not_certified is None:
            names.append(name)
    return names


def _score_noise(n_validation: int, mu: float) -> GaussianNoise:
    """Noise for a mean over the validation rows of numbers from 0 to 1, at Gaussian parameter ``mu``.

    One row changes its own number only, whether it is replaced or, under add-remove, counts 0 when absent.
    """
    sensitivity = 1 / n_validation
    scale = padded(sensitivity, 1, grid_exponent(sensitivity, 1)) / mu
    return GaussianNoise(sensitivity=sensitivity, scale=scale, dimension=1)


def _score(model: PrivateLinearModel, rows: NDArray[Any], targets: NDArray[Any], n_validation: int) -> float:
    """The sum over the rows of a number from 0 to 1 each, over the public number of validation rows."""
    if len(rows) == 0:
        return 0.0
    with np.errstate(all="ignore"):  # a warning would tell of a row
        predicted = model.predict(rows)
    if not isinstance(model, PrivateLinearRegression):
        return float(np.count_nonzero(predicted == targets)) / n_validation
    assert model.y_range is not None
    low, high = (float(end) for end in model.y_range)
    predicted = np.clip(np.nan_to_num(predicted, nan=low), low, high)
    errors = np.abs(predicted - np.clip(targets, low, high)) / (high - low)
    return math.fsum(1 - errors) / n_validation


def _best_of(
    candidates: Sequence[Candidate],
    selection: SelectionPlan,
    noise: GaussianNoise,
    task: Task,
    rows: NDArray[Any],
    targets: NDArray[Any],
    entropy: SystemEntropy | SeededEntropy,
) -> tuple[Candidate | None, PrivateLinearModel | None, float | None]:
    """The best of a random number of candidates, its model and noisy score; nothing if the number is 0.

    Which rows validate is drawn here, without looking at them; it need not be secret, but nobody needs it.
    Of equal scores the first wins: candidates are drawn alike, so that is a choice at random.
    """
    held = np.zeros(task.n_rows, dtype=bool)
    gate = Gate(entropy)
    held[gate.permutation(task.n_rows)[: task.n_validation]] = True
    held = held[: len(rows)]
    best: tuple[Candidate | None, PrivateLinearModel | None, float | None] = (None, None, None)
    for _ in range(selection.runs.draw(gate)):
        candidate = candidates[gate.integer() % len(candidates)]
        model = clone(candidate.estimator).set_params(random_state=_stream(entropy))
        model.fit(rows[~held], targets[~held])
        _check_followed(model, candidate.plan)
        exact = _score(model, rows[held], targets[held], task.n_validation)
        (noisy,) = gate.release_one(np.array([exact]), noise, "score of a candidate")
        if best[2] is None or noisy > best[2]:
            best = candidate, model, float(noisy)
    return best


def _check_followed(model: PrivateLinearModel, plan: Plan) -> None:
    """The fit must have used the very noise that the search was priced for."""
    planned = (plan.noise and plan.noise.scale, plan.noise and plan.noise.sensitivity, plan.releases)
    used = (model.privacy_.noise_scale, model.privacy_.sensitivity, model.privacy_.releases)
    if planned != used:
        raise NotCertified("a candidate was not trained as planned, so nothing is released.")


def _constant_model(
    candidate: Candidate, task: Task, entropy: SystemEntropy | SeededEntropy
) -> PrivateLinearModel:
    """A model that tells nothing of the rows: all coefficients 0."""
    model, plan = candidate.estimator, candidate.plan
    if isinstance(model, PrivateClassifier):
        assert task.classes is not None
        outputs = 1 if len(task.classes) == 2 else len(task.classes)
        model.classes_ = task.classes
        model.coef_, model.intercept_ = np.zeros((outputs, task.n_features)), np.zeros(outputs)
    else:
        model.coef_, model.intercept_ = np.zeros(task.n_features), model._scale()[0]
    model.n_features_in_ = task.n_features
    model.privacy_ = model._report(
        plan,
        Outcome(
            weights=np.zeros(plan.problem.dimension), records=(), certified=True, row_map=plan.problem.row_map
        ),
        Gate(entropy),
    )
    model.row_map_ = plan.problem.row_map
    return model


def _stream(entropy: SystemEntropy | SeededEntropy) -> np.random.Generator | None:
    """The ``random_state`` of one fit: the operating system, or a stream of its own."""
    return entropy.spawn(1)[0].generator if isinstance(entropy, SeededEntropy) else None


def _alike(budget: Budget, rows_ratio: float) -> Budget:
    """The budget at which a smaller public table is as noisy as the private one, within the certified range."""
    mu = min(gaussian_mu(budget) * rows_ratio, gaussian_mu(Budget(EPSILON_RANGE[1], budget.delta)))
    epsilon = GaussianProfile.gaussian(mu).epsilon(budget.delta)
    return Budget(min(max(epsilon, EPSILON_RANGE[0]), EPSILON_RANGE[1]), budget.delta)


def _in_words(params: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in params.items()) or "as given"
