"""The one private fit behind every estimator, and the one way from rows to margins."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import estimator_html_repr
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

import dperm
from dperm.certificate import statement_of, unbind
from dperm.certificate.assumptions import cautions
from dperm.certificate.released import curvature_in
from dperm.counting.query import Account
from dperm.engine import Rows, open_rows
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators._hints import refuse_unknown
from dperm.estimators.fit_context import FitContext, fit_context
from dperm.estimators.labels import check_sample_weight, weighed
from dperm.estimators.persons import GroupedRows, declared_persons, loss_of_persons, of_persons
from dperm.estimators.report import FitRecord, PrivacyReport
from dperm.estimators.rows import RowSource, check_shape, features_alone, redact_errors
from dperm.estimators.settings import ModelSettings
from dperm.losses import Loss
from dperm.mechanisms import Job, Outcome, Plan, resolve
from dperm.mechanisms.inference import Curvature
from dperm.planning.rules import AUTO, check_flag, parse_l2
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.render.html import folded, notebook_cell
from dperm.row_map import RowMap
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.schema import Schema

Vector = NDArray[np.float64]
Coding = tuple[Loss, Callable[[Any], NDArray[Any]], Callable[[Vector, Vector], None]]

SHORT = 20  # rows of a table that a notebook shows at once


class PrivateLinearModel(ModelSettings, BaseEstimator):  # type: ignore[misc]
    """Parameters, the plan, the private fit and the report that all linear estimators share.

    A subclass says in ``_targets`` what may occur in y and who says so, and in ``_coding`` with which loss and targets
    a model trains and how coefficients are kept.
    """

    coef_: Vector
    intercept_: Any
    row_map_: RowMap
    privacy_: PrivacyReport
    ledger_entry_: str | None
    _record: FitRecord
    _curvature: Curvature | None = None  # what intervals are made of, and the numbers that it was told by
    _told: list[float] | None = None

    def __new__(cls, *args: Any, **settings: Any) -> Self:
        """Only for a better message: the settings are those of ``__init__``, where scikit-learn looks for them."""
        if unknown := settings.keys() - cls.__dataclass_fields__.keys():
            refuse_unknown(cls, sorted(unknown))
        return super().__new__(cls)  # type: ignore[no-any-return]

    def set_params(self, **settings: Any) -> Self:
        """As in scikit-learn; a setting that is known there and not here is answered with what stands for it."""
        if unknown := settings.keys() - self.__dataclass_fields__.keys():
            refuse_unknown(type(self), sorted(unknown))
        return super().set_params(**settings)  # type: ignore[no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def plan(self, n_rows: int, n_features: int) -> Plan:
        """What a fit would do, from public facts alone."""
        raise NotImplementedError

    def _targets(self, loss: Loss) -> dict[str, Any]:
        """What may occur in y, and where that was taken from."""
        raise NotImplementedError

    def _coding(self, source: RowSource, paying: bool) -> Coding:
        """The loss, what encodes targets for it, and what keeps the coefficients and the intercept of a fit."""
        raise NotImplementedError

    def summary(
        self,
        schema: Schema | str | os.PathLike[str] | Mapping[str, Any] | None = None,
        *,
        against: str = "mean",
    ) -> Any:
        """What the fitted model says of each feature, and how far noise may have moved it; see ``dperm.summary``."""
        return dperm.summary(self, schema, against=against)

    def confidence_intervals(
        self,
        level: float = 0.95,
        *,
        contrast: Mapping[str, float] | ArrayLike | None = None,
        schema: Schema | str | os.PathLike[str] | Mapping[str, Any] | None = None,
    ) -> Any:
        """Estimates and intervals of a model fitted with ``inference=True``; see ``dperm.confidence_intervals``."""
        return dperm.confidence_intervals(self, level, contrast=contrast, schema=schema)

    def _html_repr(self) -> str:
        """What scikit-learn shows in a notebook and, of a fitted model, its guarantee and its coefficients."""
        diagram: str = estimator_html_repr(self)
        if not hasattr(self, "_record"):
            return diagram
        told = self.summary()
        shown = folded("What the model says", told.table(), opened=len(told.rows) <= SHORT)
        return f"<div>{diagram}{notebook_cell(self.privacy_.paragraph, shown)}</div>"

    def save(self, path: str | os.PathLike[str], schema: Schema | None = None) -> None:
        """Write the fitted model to a JSON file; the same as ``dperm.save_model``."""
        dperm.save_model(self, path, schema)

    def _plan(self, n_rows: int, n_features: int, loss: Loss, by_person: bool = False) -> Plan:
        """The plan that both ``plan`` and ``fit`` follow. ``by_person``: n_rows is a number of persons."""
        check_flag("inference", self.inference)
        budget, mechanism = Budget(self.epsilon, self.delta), resolve(self.mechanism)
        problem = self._problem(n_rows, n_features, loss, by_person)
        options = {"inference": True} if self.inference else {}
        if self.l2 == AUTO:
            problem = mechanism.regularised(problem, budget, **options)
        return mechanism.plan(problem, budget, **options)

    def _planned(self, n_rows: int, n_features: int, loss: Loss, n_persons: int | None) -> Plan:
        """The plan, once numbers and settings are known to be such that ``fit`` would take them."""
        persons = {} if n_persons is None else {"n_persons": n_persons}
        for name, count in {"n_rows": n_rows, "n_features": n_features, **persons}.items():
            if isinstance(count, bool) or not isinstance(count, numbers.Integral):
                raise InvalidInput(f"{name} must be a whole number; got a {type(count).__name__}.")
        n_units = int(n_rows if n_persons is None else n_persons)
        plan = self._plan(n_units, int(n_features), loss, by_person=n_persons is not None)
        Gate.from_random_state(deepcopy(self.random_state))  # a generator is not to be advanced
        Account.of_fit(self)
        return plan

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, groups: Any = None) -> Self:
        """Plan from public facts, then train on the rows and release the weights once.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or shards
            Rows with a Euclidean norm above ``x_norm`` are scaled down to it. Under add-remove there may be none.
            Shards are a ``ShardSource``, or what one is made of: a Dask array or frame, a Spark DataFrame.
        y : array-like of shape (n_samples,), or the name of a column
            For a classifier, labels, all of them in ``classes``, which are declared where the labels lie in shards.
            Whole numbers stand for declared text in its sorted order, as in scikit-learn's tools that encode labels.
            For a regression, numbers; those outside ``y_range`` are cut off at its ends.
        sample_weight : array-like of shape (n_samples,), optional
            Where ``sample_weight_bound`` is declared. Weights outside 0 to the bound are cut off. A weight must follow
            from its own row.
        groups : array-like of shape (n_samples,), or the name of a column of a frame in shards, optional
            The id of the person of each row: the guarantee is then for a person with all rows (docs/persons.md). Shards
            that hold the ids need none.
        """
        check_sample_weight(sample_weight, self.sample_weight_bound)
        with RowSource(X, y, groups) as source:
            paying, fewest = self.ledger is not None, self._fewest_rows()
            n_rows, n_features = source.table_shape(self, paying, fewest)
            loss, encode, keep = self._coding(source, paying)
            if source.has_labels and sample_weight is not None:
                raise Unsupported(
                    "sample_weight needs y as an array. Labels that lie in shards can have class_weight; or give y "
                    "apart."
                )
            grouped = source.persons(groups, n_rows, paying)

            def read() -> tuple[Any, Any]:
                numeric = not is_classifier(self)
                rows, values = source.read(self, y_numeric=numeric, ensure_min_samples=fewest)
                if source.has_labels:
                    return rows, encode
                with redact_errors():
                    if not numeric:
                        check_classification_targets(values)
                    return rows, weighed(encode(values), sample_weight, self.sample_weight_bound)

            n_units = n_rows if grouped is None else grouped.n_persons
            plan = self._plan(n_units, n_features, loss, by_person=grouped is not None)
            keep(*self._fit_weights(plan, read, grouped))
        self._bind()
        return self

    def _fit_weights(
        self, plan: Plan, read: Callable[[], tuple[Any, Any]], grouped: GroupedRows | None
    ) -> tuple[Vector, Vector]:
        """Charge the ledger, read the rows, train as planned, release once, and store the report.

        If ``read`` raises, the charge is void (in a strict ledger it stays). Coefficients and intercept are of shape
        (p,) and (), or (p, C) and (C,) for a loss with C outputs; without ``fit_intercept`` it is zero.
        """
        problem, gate = plan.problem, Gate.from_random_state(self.random_state)
        if grouped is not None:
            grouped.check_plan(plan)
        context, depth = fit_context(self)
        context.check_persons(grouped is not None)
        context.check_fit(self.sample_weight_bound is not None, problem.loss.outputs)
        context.warn(depth, cautions(problem, plan.budget, plan.private))  # before anything is spent
        account = Account.of_fit(self)
        told = problem.neighbours is Neighbours.REPLACE_ONE and grouped is None
        n_told = problem.n_rows if told else None

        def table() -> Rows:
            rows, targets = read()
            check_shape(rows, n_told, problem.n_features)
            members = None
            with redact_errors():
                if grouped is not None:
                    rows, targets, members = of_persons(rows, targets, grouped, problem)
                return open_rows(rows, targets, problem, members=members)

        def train(rows: Rows) -> Outcome:
            (outcome,) = plan.mechanism.run([Job(plan=plan)], rows, gate)
            return outcome

        self.ledger_entry_, outcome = account.charge(
            lambda: plan.cost,
            table,
            train,
            neighbours=problem.neighbours,
            unit=problem.unit,
            kind="fit",
            label=type(self).__name__,
            mechanism=plan.name_used,
        )
        self.row_map_ = outcome.row_map
        self.privacy_ = self._report(plan, outcome, gate, context)
        self._told = None if outcome.curvature_release is None else outcome.curvature_release.tolist()
        self._curvature = None
        if self._told is not None:
            self._curvature = curvature_in({"inference": self._told}, self.privacy_.statement)
        return self.row_map_.coefficients(outcome.weights)

    def _margins(self, X: ArrayLike) -> Vector:
        """The linear function of every row, mapped as in training."""
        check_is_fitted(self)
        with RowSource(features_alone(self, X)) as source:
            return source.margins(self)

    def _scored(self, score: Callable[..., Any], X: Any, y: Any, sample_weight: Any) -> float:
        """What scikit-learn's ``score`` says of these rows, with the labels that lie in shards."""
        check_is_fitted(self)
        with RowSource(X, y) as source, redact_errors():
            return float(score(source.X, source.labels(), sample_weight))

    def _fewest_rows(self) -> int:
        """0 where the guarantee hides whether a row is there: an empty table must then fit like any other."""
        hidden = self.max_rows is not None and Neighbours.parse(self.neighbours) is Neighbours.ADD_REMOVE
        return 0 if hidden else 1

    def _problem(self, n_samples: int, n_features: int, loss: Loss, by_person: bool = False) -> Problem:
        """The public facts of this fit; l2 is 0 where a rule of the mechanism sets it."""
        neighbours = Neighbours.parse(self.neighbours)
        n_units = neighbours.public_count(n_samples, self.max_rows)
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise InvalidInput(
                f"fit_intercept must be True or False; got a {type(self.fit_intercept).__name__}."
            )
        l2 = parse_l2(self.l2)
        persons = declared_persons(by_person, self.person_loss, self.max_rows_per_person, n_units)
        return Problem.for_table(
            n_units,
            n_features,
            loss=loss_of_persons(loss, persons),
            l2=l2 if isinstance(l2, float) else 0.0,
            x_norm=self._number("x_norm"),
            fit_intercept=bool(self.fit_intercept),
            neighbours=neighbours,
            persons=persons,
        )

    def _number(self, name: str) -> float:
        """A parameter that must be a real number."""
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, numbers.Real):
            raise InvalidInput(f"{name} must be a number; got {value!r}.")
        with suppress(OverflowError):
            return float(value)
        raise InvalidInput(f"{name} is too large for a float.")

    def _report(self, plan: Plan, outcome: Outcome, gate: Gate, context: FitContext) -> PrivacyReport:
        reason = None
        if not plan.private:
            reason = f"mechanism {plan.mechanism.name!r} is a baseline without noise."
        elif not gate.secure:
            reason = "random_state makes the noise predictable; leave it at None for a release."
        elif plan.not_certified is not None:
            reason = plan.not_certified
        elif not outcome.certified:
            reason = "the arithmetic was not the one that the plan accounts for."
        statement = statement_of(
            plan, outcome, gate.source, self._targets(plan.problem.loss), reason, context.assumptions()
        )
        return PrivacyReport.of(statement)

    def _bind(self) -> None:
        """Seal what was released, what is stated of it and the parameters that led to it: the last act of ``fit``."""
        self._record = FitRecord.of(self)

    @property
    def certificate_(self) -> dict[str, Any]:
        """The statement of the guarantee, bound by ``fit`` to the numbers that it released (docs/certificate.md).

        It stays what it was when parameters, numbers or report are changed afterwards; with other numbers than those
        that it is about, ``save_model`` refuses.
        """
        if not hasattr(self, "_record"):
            raise AttributeError("certificate_ comes with fit.")
        return self._record.certificate


def restore(
    estimator: PrivateLinearModel,
    statement: dict[str, Any],
    row_map: RowMap,
    names_of_encoder: bool,
    told: tuple[Curvature | None, list[float] | None] = (None, None),
) -> None:
    """Give a model that was read from a file what ``fit`` had left of its guarantee and its rows."""
    estimator._record = FitRecord.of(estimator, statement)
    estimator.privacy_ = PrivacyReport.of(unbind(statement))
    estimator.ledger_entry_ = statement["model"]["ledger_entry"]
    estimator._curvature, estimator._told = told
    estimator.row_map_ = row_map
    estimator._names_of_encoder = names_of_encoder
