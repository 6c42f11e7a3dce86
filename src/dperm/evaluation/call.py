"""``dperm.evaluate``: charge, read, count, release, and make figures of what was released."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm import __version__
from dperm.certificate.document import plain
from dperm.errors import InvalidInput
from dperm.estimators.apart import made, margins_and_targets
from dperm.estimators.labels import encode_labels
from dperm.estimators.margin_bins import DEFAULTS, check_bins
from dperm.estimators.persons import GroupedRows
from dperm.evaluation.classifying import Judged, class_counts, class_design, judged
from dperm.evaluation.exact import exact_class_figures, exact_regression_figures
from dperm.evaluation.figures import figures
from dperm.evaluation.found import LOCAL_NOTE
from dperm.evaluation.notes import notes_of
from dperm.evaluation.owners import Integers, Owners
from dperm.evaluation.paying import (
    ONCE,
    Purse,
    check_read,
    grouped_rows,
    public_rows,
    recorded,
    telling_nothing,
    unit_of,
)
from dperm.evaluation.planning import Plan, plan_for
from dperm.evaluation.regressing import regression_counts
from dperm.evaluation.result import Evaluation
from dperm.evaluation.scales import ScoreBins, scales_of
from dperm.evaluation.subject import Subject, subject_of
from dperm.ledger import Ledger
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, Gate

Vector = NDArray[np.float64]

NEITHER = (
    "give a budget to spend on the evaluation, for example Budget(epsilon=0.5, delta=1e-6), or local=True for exact "
    "figures that must not be published: every figure computed from private rows tells about them."
)


@dataclass(frozen=True, eq=False)
class _Rows:
    """What was read: classes as ``Judged``, or predictions and targets; and whose rows they are."""

    judged: Judged | None
    predicted: Vector
    targets: Vector
    owners: Owners

    def __len__(self) -> int:
        return self.owners.count


def evaluate(
    model: Any,
    X: Any,
    y: Any = None,
    budget: Budget | None = None,
    *,
    neighbours: str = "replace-one",
    max_rows: int | None = None,
    ledger: Ledger | None = None,
    dataset: str | None = None,
    bins: int | None = None,
    error_bound: float | None = None,
    random_state: Any = None,
    groups: Any = None,
    unit: str | None = None,
    local: bool = False,
) -> Evaluation:
    """Judge a fitted model on private test rows, with one release of noisy counts that costs ``budget``.

    Parameters
    ----------
    model : private model, or a pipeline of a PublicEncoder and one
        Fitted on other rows than these.
    X, y
        Test rows as ``predict`` takes them, and their true targets; labels must be among ``model.classes_``. Recall,
        precision, F1 and the ROC curve are those of ``model.positive_``.
    budget : Budget
        Of the one release. Everything in the result is made of it, at no further cost.
    neighbours, max_rows
        As of the estimators: under "add-remove" the number of test rows is private too and ``max_rows`` bounds it.
    ledger, dataset
        Charged once, before a row is read. If nobody in the test rows was in the training rows, they are a dataset of
        their own.
    bins : int, optional
        Of the scores, for areas and curves; by default 64, or fewer where noise is large.
    error_bound : float, optional
        Of a regression: larger errors count as this one, in units of the target; by default the length of its range. It
        must be known without the rows. Noise on MAE falls with it, on the squared errors with its square.
    random_state
        Anything but None makes the noise predictable, and the result not private.
    groups : array-like of shape (n_samples,), optional
        The id of the person of each row. Every person then counts once, each of k rows as 1/k, the guarantee is for a
        person with all rows, and ``max_rows`` bounds the persons.
    unit : {"row", "person"}, optional
        Whom the guarantee is for: a person where there are ``groups``, otherwise a row. A model of persons is refused
        without ``groups`` unless "row" is said.
    local : bool
        Exact figures without noise, for the owner of the rows alone. Not private, not to be published; no budget.

    Guarantee
    ---------
    With a budget, and without ``random_state``, all of the result is (epsilon, delta)-differentially private for the
    test rows (docs/proofs/evaluation.md). Of the training rows it tells nothing that the model does not.

    Examples
    --------
    >>> import numpy as np
    >>> import dperm
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-0.5, 0.5, size=(20_000, 2))
    >>> y = (X[:, 0] + 0.2 * rng.normal(size=20_000) > 0).astype(int)
    >>> model = dperm.PrivateLogisticRegression(epsilon=1, delta=1e-6, classes=[0, 1]).fit(X[:10_000], y[:10_000])
    >>> found = dperm.evaluate(model, X[10_000:], y[10_000:], dperm.Budget(1, 1e-6))
    >>> bool(0.8 < found.metrics["accuracy"].low < found.metrics["accuracy"].high < 1)
    True
    """
    subject, relation = subject_of(model), Neighbours.parse(neighbours)
    if bins is not None:
        check_bins(bins)
    _check_error_bound(subject, error_bound)
    if local:
        if budget is not None or ledger is not None or dataset is not None:
            raise InvalidInput("local figures spend nothing: leave out budget, ledger and dataset.")
        grouped = grouped_rows(subject, X, y, Neighbours.REPLACE_ONE, groups, unit, None)
        return _exact(subject, X, y, DEFAULTS[0] if bins is None else bins, grouped)
    if not isinstance(budget, Budget):
        raise InvalidInput(NEITHER[0].upper() + NEITHER[1:])
    purse = Purse.checked(ledger, dataset, random_state)
    grouped = grouped_rows(subject, X, y, relation, groups, unit, purse)
    told, public = public_rows(X, budget, relation, max_rows, purse, grouped, y)
    scales = {} if subject.task == "regression" else scales_of(subject)
    plan, gate = (
        plan_for(subject, scales, budget, relation, public, bins, error_bound),
        Gate.from_random_state(random_state),
    )

    def read() -> _Rows:
        # Places move with the number of rows of a person, whatever the relation.
        rows = _read(subject, X, y, relation if grouped is None else Neighbours.ADD_REMOVE, grouped)
        check_read(len(rows), told, max_rows)
        return rows

    def release(rows: _Rows) -> Vector:
        return plan.release(plan.design.vector(_counts(subject, plan, rows)), gate)

    label = f"evaluation of model {subject.digest[:12]}"
    entry, released = purse.paid(plan, read, release, label, mechanism="evaluation", unit=unit_of(grouped))
    binned: dict[str, Any] = {"bins": None, "scales": []}
    if plan.bins is not None:
        binned = {"bins": plan.bins.count, "scales": plan.bins.to_list()}
    return Evaluation(
        **figures(subject, plan.design, released, plan.noise.scale, told, plan.bins, error_bound),
        **_about(subject, grouped),
        rows=told,
        max_rows=max_rows,
        budget={"epsilon": budget.epsilon, "delta": budget.delta},
        neighbours=relation.value,
        ledger_entry=entry,
        release=recorded(gate, plan, released)
        | binned
        | {
            "default_bins": bins is None and plan.bins is not None,
            "error_bound": error_bound,
            "probabilities": subject.has_probabilities,
        },
        notes=notes_of(subject, purse.secure, error_bound, grouped is not None),
    )


def _read(
    subject: Subject, X: Any, y: Any, relation: Neighbours, grouped: GroupedRows | None = None
) -> _Rows:
    """Margins and targets; a record is quoted by no error, and no warning tells of one.

    The margin of a row does not depend on its place under add-remove.
    """
    with telling_nothing():
        if subject.steps:
            X = subject.transformed(made(X))
        margins, targets = margins_and_targets(subject.model, X, y, relation)
        if grouped is not None:
            grouped.check_rows(len(margins))
        owners = Owners.of_rows(len(margins)) if grouped is None else Owners.of_persons(grouped)
        if subject.task == "regression":
            values = np.asarray(targets, np.float64)
            if not np.isfinite(values).all():
                raise InvalidInput("y holds targets that are missing or not finite; leave such rows out.")
            return _Rows(None, margins, values, owners)
        labels = encode_labels(targets, subject.classes)
        return _Rows(judged(subject, margins, labels), margins, labels, owners)


def _counts(subject: Subject, plan: Plan, rows: _Rows) -> dict[str, Integers]:
    with np.errstate(all="ignore"):
        if rows.judged is None:
            ends = subject.y_range
            return regression_counts(
                plan.design, rows.predicted, rows.targets, ends, plan.error_bound, rows.owners
            )
        assert plan.bins is not None
        return class_counts(plan.design, rows.judged, len(subject.classes), plan.bins, rows.owners)


def _exact(subject: Subject, X: Any, y: Any, bins: int, grouped: GroupedRows | None) -> Evaluation:
    rows = _read(subject, X, y, Neighbours.REPLACE_ONE, grouped)
    if not len(rows):
        raise InvalidInput("there are no rows to evaluate on.")
    common = {"local": True, "rows": len(rows), "table_rows": rows.owners.n_rows, **_about(subject, grouped)}
    common["notes"] = (LOCAL_NOTE, *([] if grouped is None else [ONCE]))
    if rows.judged is None:
        found = exact_regression_figures(rows.predicted, rows.targets, rows.owners)
        return Evaluation(metrics=found, **common)
    design = class_design(len(subject.classes), bins, subject.has_probabilities)
    binned = ScoreBins(bins, scales_of(subject))
    vector = design.vector(class_counts(design, rows.judged, len(subject.classes), binned, rows.owners))
    made = figures(subject, design, vector, 0.0, len(rows), binned)
    made["metrics"] |= exact_class_figures(rows.judged, rows.owners)
    return Evaluation(**made, **common)


def _about(subject: Subject, grouped: GroupedRows | None) -> dict[str, Any]:
    return {
        "unit": unit_of(grouped),
        "task": subject.task,
        "model": subject.digest,
        "classes": plain("classes", subject.classes),
        "y_range": subject.y_range if subject.task == "regression" else None,
        "library": __version__,
    }


def _check_error_bound(subject: Subject, bound: Any) -> None:
    if bound is None:
        return
    if subject.task != "regression":
        raise InvalidInput("error_bound is for regressions; a classifier makes no errors of a size.")
    low, high = subject.y_range
    number = isinstance(bound, float | int | np.floating) and not isinstance(bound, bool)
    if not number or not 0 < bound <= high - low:
        raise InvalidInput(
            f"error_bound must be a number above 0 and at most {high - low:g}, the length of the range; got {bound!r}."
        )
