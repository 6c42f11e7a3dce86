"""The search itself: plan from public facts, pay once, then choose and release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, MetaEstimatorMixin, is_classifier
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.assumptions import (
    Assumption,
    Code,
    assumptions,
    cautions,
    of_plan,
    read_assumptions,
    taken_for_granted,
)
from dperm.counting.query import Account, check_count
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.classifier import PrivateClassifier
from dperm.estimators.fit_context import fit_context
from dperm.estimators.labels import encode_labels
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.persons import GroupedRows
from dperm.estimators.report import PrivacyReport
from dperm.estimators.rows import RowSource, check_shape, redact_errors
from dperm.estimators.search.scoring import scorer_for
from dperm.estimators.search.selection import (
    Source,
    Task,
    best_of,
    best_on_public_rows,
    configured,
    constant_model,
    in_words,
    priced_candidate,
    refuse,
    rows_of,
    selection_plan,
    settings_of,
    shares,
    stream,
    training_rows,
)
from dperm.ledger import Ledger
from dperm.mechanisms import Plan
from dperm.privacy import Budget, entropy_from
from dperm.privacy.cost import Cost
from dperm.problem import Problem
from dperm.unit import Neighbours

Read = tuple[NDArray[Any], NDArray[Any]]
Result = TypeVar("Result")

NAME = "private search"
ACCOUNTANT = "Renyi price of the best of a random number of candidates (Papernot & Steinke 2022)"


@dataclass(eq=False, repr=False)
class PrivateSearchCV(MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Choose settings of a private estimator privately, with one (epsilon, delta) guarantee for the whole.

    The rows are parted once into training and validation rows. A random number of candidates is drawn from the
    grid with replacement; each is fitted on the training rows, and its score on the validation rows is noised. Only
    the best candidate leaves: its model, its settings and its noisy score.

    Parameters
    ----------
    estimator : private linear estimator
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
    scoring : str, default=None
        By what candidates are compared: "accuracy", "balanced_accuracy", "roc_auc" or "neg_log_loss", for regression
        "neg_mean_absolute_error" or "neg_mean_squared_error". None is accuracy; for regression 1 minus the mean
        absolute error in units of ``y_range``.
    refit_share : float, default=None
        Share of epsilon and delta kept back to fit the chosen settings on all rows. None releases the best
        candidate itself, which has seen the training rows.
    public_data : tuple (X, y) or (X, y, groups), default=None
        Public rows. Settings are then chosen on them by cross-validation, which costs nothing, and one fit on the
        private rows takes the whole budget. Where ``fit`` gets groups, public rows without ids are a person each.
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
        Noisy score on the validation rows, by ``scoring``. None if there was no candidate. With ``public_data`` the
        cross-validated score there.
    privacy_ : PrivacyReport
        The guarantee of the whole.

    Notes
    -----
    **Guarantee.** Everything stored is (epsilon, delta)-differentially private: docs/proofs/selection.md. A row is
    either a training or a validation row, so a candidate costs the larger of its fit and its score, not both.

    **Assumes.** The number of candidates stays secret; the time that ``fit`` takes betrays it.

    Examples
    --------
    >>> import numpy as np
    >>> from dperm import PrivateLogisticRegression, PrivateSearchCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(5000, 2))
    >>> model = PrivateLogisticRegression(mechanism="output", classes=[0, 1])
    >>> search = PrivateSearchCV(model, {"l2": [1e-2, 1e-1]}, epsilon=2.0, delta=1e-6)
    >>> search = search.fit(X, (X[:, 0] > 0).astype(int))
    >>> search.privacy_.guarantee
    {'epsilon': 2.0, 'delta': 1e-06}
    >>> search.best_params_["l2"] in (1e-2, 1e-1)
    True
    """

    estimator: PrivateLinearModel
    param_grid: Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]
    _: KW_ONLY
    epsilon: float
    delta: float
    mean_candidates: float = 10.0
    runs: str | float = "auto"
    validation: float = 0.2
    scoring: str | None = None
    refit_share: float | None = None
    public_data: tuple[ArrayLike, ArrayLike] | None = None
    cv: Any = 5
    random_state: Any = None
    ledger: Ledger | None = None
    dataset: str | None = None

    def fit(self, X: ArrayLike, y: ArrayLike, *, groups: Any = None, **unfit: Any) -> PrivateSearchCV:
        """Plan from public facts, then search on the rows and release the best candidate.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : array-like of shape (n_samples,)
        groups : array-like of shape (n_samples,), optional
            The id of the person of each row. The guarantee is then for a person with all rows: persons are parted into
            those that train and those that validate, and ``max_rows`` bounds their number.
        **unfit
            ``sample_weight`` is refused: a score would have to count rows by it.
        """
        refuse(X, unfit)
        grid = self._grid()
        entropy = entropy_from(self.random_state)
        task, grouped = self._task(X, y, groups)
        ids = {} if grouped is None else {"groups": grouped.numbers}
        n_classes = None if task.classes is None else len(task.classes)
        scorer = scorer_for(self.scoring, self.estimator, n_classes, task.n_validation)
        if self.public_data is not None:
            return self._fit_after_public(grid, task, X, y, grouped, entropy)
        whole = Budget(self.epsilon, self.delta)
        search_budget, refit_budget = shares(whole, self.refit_share)
        selection = selection_plan(search_budget, self.runs, self.mean_candidates)
        candidates = [priced_candidate(self.estimator, params, task, selection) for params in grid]
        noise = scorer.noise(selection.mu, task.neighbours)
        account = self._account(candidates[0].plan, task, whole)

        def train(data: Read) -> tuple[Mapping[str, Any], PrivateLinearModel, float | None]:
            best, model, score = best_of(candidates, selection, scorer, noise, task, *data, entropy, grouped)
            params = (best or candidates[0]).params
            if refit_budget is not None:
                model = configured(self.estimator, params, task, refit_budget, task.n_rows)
                model.set_params(random_state=stream(entropy)).fit(*data, **ids)
            elif model is None:
                model = constant_model(candidates[0], task, entropy)
            return params, model, score

        cost, read = Cost.point(whole.epsilon, whole.delta), partial(self._read, X, y, task, grouped)
        entry, (params, model, score) = self._charge(account, lambda: cost, task, read, train)
        settings = {
            "candidates": len(grid),
            "runs": f"{selection.runs.name}, {selection.runs.mean:g} on average",
            "candidate_mu": selection.mu,
            f"training_{task.unit}s": task.n_training,
            f"validation_{task.unit}s": task.n_validation,
            "scoring": self.scoring,
            "score_noise": noise.scale,
            "refit_share": self.refit_share,
        }
        plan = task.plan(model, model.privacy_.n_rows)  # as many as it was told of
        targets = self.estimator._targets(plan.problem.loss)
        report = search_report(model, plan, targets, task, whole, params, settings)
        return self._store(model, params, score, report, entry)

    @property
    def privacy_(self) -> PrivacyReport:
        """That of the best estimator: the whole search, and what was released after it."""
        return self.best_estimator_.privacy_

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """What the best estimator predicts."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.predict(X))

    def score(self, X: ArrayLike, y: ArrayLike) -> float:
        """The best estimator's own score (accuracy, or R squared) on these rows. It is not private."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))

    @available_if(lambda self: hasattr(_judging(self), "decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margins of the best estimator."""
        check_is_fitted(self)
        return np.asarray(self.best_estimator_.decision_function(X))

    @available_if(lambda self: hasattr(_judging(self), "predict_proba"))  # type: ignore[untyped-decorator]
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
        tags.input_tags.sparse = inner.input_tags.sparse
        return tags

    def _grid(self) -> list[dict[str, Any]]:
        """The settings to choose from, checked without data."""
        if not isinstance(self.estimator, PrivateClassifier | PrivateLinearRegression):
            raise Unsupported(
                "estimator must be one of dperm's private linear models, such as PrivateLogisticRegression; got a "
                f"{type(self.estimator).__name__}. To use it behind an encoder, put the search into the pipeline."
            )
        if getattr(self.estimator, "ledger", None) is not None and self.ledger is None:
            raise InvalidInput(
                "give the ledger to PrivateSearchCV and not to the estimator: the search pays once for all."
            )
        if self.estimator.sample_weight_bound is not None:
            raise Unsupported("a search takes no sample_weight; leave sample_weight_bound at None.")
        if self.estimator.inference:
            raise Unsupported(
                "a search gives no intervals: they would not know that the model was chosen. Leave inference at False, "
                "and fit the settings that you want intervals for by themselves."
            )
        if isinstance(self.estimator, PrivateLinearRegression):
            self.estimator._scale()  # a range that is missing is told of before anything is spent
        return settings_of(self.estimator, self.param_grid)

    def _task(self, X: ArrayLike, y: ArrayLike, groups: Any) -> tuple[Task, GroupedRows | None]:
        """The public facts, found without a look at a value; only ``classes=None`` without a ledger looks at y."""
        paying = self.ledger is not None
        neighbours = Neighbours.parse(self.estimator.neighbours)
        source = RowSource(X, y)
        n_rows, n_features = source.table_shape(self.estimator, paying, self.estimator._fewest_rows())
        grouped = source.persons(groups, n_rows, paying)
        n_present = n_rows if grouped is None else grouped.n_persons
        n_units = neighbours.public_count(n_present, self.estimator.max_rows)
        task = Task(
            n_rows=n_units,
            n_training=training_rows(self.validation, n_units),
            n_features=n_features,
            classes=self.estimator._label_set(source, paying) if is_classifier(self) else None,
            neighbours=neighbours,
            by_person=grouped is not None,
        )
        return task, grouped

    def _charge(
        self,
        account: Account,
        cost: Callable[[], Cost],
        task: Task,
        read: Callable[[], Read],
        train: Callable[[Read], Result],
    ) -> tuple[str | None, Result]:
        words = {"kind": "search", "label": type(self).__name__, "mechanism": NAME}
        return account.charge(cost, read, train, neighbours=task.neighbours, unit=task.unit, **words)

    def _read(self, X: ArrayLike, y: ArrayLike, task: Task, grouped: GroupedRows | None) -> Read:
        """Rows and targets, once their form is known to be that of the task."""
        form = {"ensure_min_samples": self.estimator._fewest_rows()}
        rows, targets = RowSource(X, y).read(self, y_numeric=not is_classifier(self), **form)
        told = task.neighbours is Neighbours.REPLACE_ONE and grouped is None
        check_shape(rows, task.n_rows if told else None, task.n_features)
        if grouped is not None:
            grouped.check_rows(rows.shape[0])
            grouped.check_ids()
        n_read = rows.shape[0] if grouped is None else grouped.n_persons
        check_count(n_read, None, task.n_rows, task.unit)
        if task.classes is not None:
            with redact_errors():
                check_classification_targets(targets)
                encode_labels(targets, task.classes.classes)
        return rows, targets

    def _fit_after_public(
        self,
        grid: Sequence[Mapping[str, Any]],
        task: Task,
        X: ArrayLike,
        y: ArrayLike,
        grouped: GroupedRows | None,
        entropy: Source,
    ) -> PrivateSearchCV:
        """Choose on the public rows, then fit once on the private ones."""
        public, whole = rows_of(self.public_data, task.by_person), Budget(self.epsilon, self.delta)
        ids = {} if grouped is None else {"groups": grouped.numbers}
        params, score = best_on_public_rows(
            self.estimator, grid, task, whole, public, self.cv, self.scoring, entropy
        )
        model = configured(self.estimator, params, task, whole, task.n_rows)
        plan = task.plan(model, task.n_rows)
        account = self._account(plan, task, whole)
        model.set_params(random_state=stream(entropy))
        read = partial(self._read, X, y, task, grouped)
        entry, _ = self._charge(account, lambda: plan.cost, task, read, lambda data: model.fit(*data, **ids))
        targets = self.estimator._targets(plan.problem.loss)
        chosen = Assumption.of(Code.PUBLIC_CHOICE, settings=in_words(params), rows=public[0].shape[0])
        report = PrivacyReport.of(statement_of_fit(model, plan, targets, chosen))
        return self._store(model, params, score, report, entry)

    def _account(self, plan: Plan, task: Task, whole: Budget) -> Account:
        """Who is charged, after warnings of the context of the search and of its public facts."""
        context, depth = fit_context(self)
        context.check_persons(task.by_person)
        context.warn(depth, cautions(whole_problem(plan, task), whole))
        return Account.of_fit(self)

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
        return self


def _judging(search: PrivateSearchCV) -> Any:
    """What predicts: the best estimator, once there is one."""
    return getattr(search, "best_estimator_", search.estimator)


def whole_problem(plan: Plan, task: Task) -> Problem:
    """The public facts of a candidate's fit, said of all rows."""
    return replace(plan.problem, n_rows=task.n_rows)


def statement_of_fit(
    model: PrivateLinearModel, plan: Plan, targets: Mapping[str, Any], settings_chosen: Assumption
) -> dict[str, Any]:
    """The model's own statement, with the labels as the user declared them and how the settings came about."""
    stated = model.privacy_.statement
    around = [
        settings_chosen if one.code is Code.SETTINGS else one
        for one in read_assumptions("around", stated["around"])
    ]
    lines = assumptions(plan, targets, around)
    return {
        **stated,
        "targets": dict(targets),
        "around": [one.to_dict() for one in around],
        "assumptions": [one.to_dict() for one in lines],
    }


def search_report(
    model: PrivateLinearModel,
    plan: Plan,
    targets: Mapping[str, Any],
    task: Task,
    whole: Budget,
    params: Mapping[str, Any],
    settings: Mapping[str, Any],
) -> PrivacyReport:
    """The guarantee of the whole.

    The model's statement for machines is that of one fit, so it claims nothing and points to the whole: its part
    ``search`` says so.
    """
    inner = PrivacyReport.of(statement_of_fit(model, plan, targets, Assumption(Code.SEARCH_GRID)))
    epsilon, delta = float(whole.epsilon), float(whole.delta)
    pointer = (
        "this statement of one fit claims nothing by itself: the model was chosen by a private search, whose "
        f"guarantee for the whole is epsilon = {epsilon:g}, delta = {delta:g}."
    )
    statement = {
        **inner.statement,
        "guarantee": None,
        "reason": inner.reason or pointer,
        "search": {"epsilon": epsilon, "delta": delta},
    }
    around = read_assumptions("around", inner.statement["around"])
    others = (*around, *of_plan(plan), Assumption(Code.SECRET_CANDIDATES))
    problem = whole_problem(plan, task)
    granted = taken_for_granted(problem, targets, others)
    refitted = settings["refit_share"] is not None
    return replace(
        inner,
        claim=None if inner.claim is None else {"epsilon": epsilon, "delta": delta},
        budget={"epsilon": epsilon, "delta": delta},
        mechanism=NAME,
        accountant=f"{ACCOUNTANT}, and the last fit, added up" if refitted else ACCOUNTANT,
        settings={
            "best": in_words(params),
            "trained_by": inner.settings.get("mechanism", inner.mechanism),
            **settings,
            "model_epsilon": inner.budget["epsilon"],
            "model_delta": inner.budget["delta"],
        },
        n_rows=task.n_rows,
        noise_on=f"{inner.noise_on}; and on the score of every candidate",
        assumptions=(*granted, *cautions(problem, whole)),
        statement=statement,
    )
