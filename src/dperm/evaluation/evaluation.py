"""``dperm.evaluate``: one counting query about the quality of a model, and its result as users hold it."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from dperm import __version__
from dperm.certificate.statement import plain
from dperm.counting.bins import DEFAULTS, check_bins, line_of, scales_of, scores_of
from dperm.counting.classification import Classification, LabelledScores
from dperm.counting.design import Integers, Owners
from dperm.counting.metrics import registered_metrics
from dperm.counting.query import Account
from dperm.counting.regression import PredictedTargets
from dperm.errors import InvalidInput
from dperm.estimators.labels import encode_labels
from dperm.estimators.rows import made, margins_and_targets
from dperm.evaluation.curves import Task, estimated
from dperm.evaluation.model import EvaluatedModel, evaluated_model
from dperm.evaluation.plan import notes_of, planned, stated
from dperm.evaluation.report import evaluation_html, evaluation_text, plot
from dperm.evaluation.results import LOCAL_NOTE, MAX_BYTES, ONCE, EvaluationResult
from dperm.evaluation.rows import Ownership, ownership, public_count, redacted
from dperm.evaluation.verification import EVALUATION, accepted
from dperm.ledger import Ledger
from dperm.privacy import Budget, Gate
from dperm.render.html import notebook_cell
from dperm.strict_json import read_file
from dperm.unit import Neighbours

Rows = tuple[LabelledScores | PredictedTargets, Owners]

NEEDS_BUDGET = (
    "Give a budget to spend on the evaluation, for example Budget(epsilon=0.5, delta=1e-6), or local=True for exact "
    "figures that must not be published: every figure computed from private rows tells about them."
)


class Evaluation(EvaluationResult):
    """The metrics of a model on private test rows.

    Attributes
    ----------
    metrics : dict of Estimate
        Each with ``estimate``, ``low``, ``high`` (95 %) and ``noise``, half the width from the noise alone; all None
        where the noise leaves nothing to say.
    confusion : list of lists of Estimate
        Shares of all rows, or persons, a line for every true label. Empty for a regression.
    rates : list of dicts of Estimate
        Recall and precision of every class.
    roc, calibration : list
        Points of the curves, with intervals. Only two classes have a ROC curve.
    local : bool
        Exact values, which are not private and must not be published.
    private : bool
        Whether (epsilon, delta) holds for all of this: not for local values, nor with a ``random_state``.
    budget : dict or None
        Epsilon and delta of the one release.
    neighbours : str or None
        The relation for which they hold.
    unit : str
        "row", or "person" where ids were given: every person then counts once, each of k rows as 1/k.
    rows : int or None
        The number of test rows, or of persons; None where it is private, and then ``row_count`` is its estimate.
    table_rows : int or None
        The number of rows whoever they are of, of local values alone.
    model : str
        Digest of the released numbers of the model, as its certificate has it under ``model.sha256``.
    ledger_entry : str or None
        The charge that paid for it.
    """

    @classmethod
    def from_dict(cls, document: object) -> Evaluation:
        """From what JSON held: its statement is recomputed, and its metrics are made again from what was released."""
        return cls(**accepted(document, EVALUATION))

    def plot(self, ax: Any = None) -> Any:
        """Draw the ROC curve with its band or, without one, the metrics with their intervals; needs matplotlib.

        Returns the axes: ``ax``, or new ones.
        """
        return plot(self, ax)

    def __str__(self) -> str:
        return evaluation_text(self)

    def _repr_html_(self) -> str:
        return notebook_cell(evaluation_html(self))


def read_evaluation(path: str | os.PathLike[str]) -> Evaluation:
    """The evaluation that a file holds.

    Raises
    ------
    InvalidInput
        If it is not one that this version reads, whole and unchanged, or what it states does not recompute.
    """
    return read_file(path, Evaluation.from_dict, "evaluation", MAX_BYTES)


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
    evaluated, relation = evaluated_model(model), Neighbours.parse(neighbours)
    if bins is not None:
        check_bins(bins)
    _check_error_bound(evaluated, error_bound)
    if local:
        if budget is not None or ledger is not None or dataset is not None:
            raise InvalidInput("local figures spend nothing: leave out budget, ledger and dataset.")
        whose = ownership(evaluated, X, y, Neighbours.REPLACE_ONE, groups, unit, None)
        return _exact(evaluated, X, y, DEFAULTS[0] if bins is None else bins, whose)
    if not isinstance(budget, Budget):
        raise InvalidInput(NEEDS_BUDGET)
    account = Account.checked(ledger, dataset, random_state)
    whose = ownership(evaluated, X, y, relation, groups, unit, account)
    public = public_count(X, y, budget, relation, max_rows, account, whose)
    scales = {} if evaluated.task == "regression" else scales_of(evaluated)
    task, query = planned(evaluated, scales, budget, relation, public.bound, bins, error_bound)

    def read() -> Rows:
        rows = _read(evaluated, X, y, relation, whose)
        public.check(rows[1].count)
        return rows

    release = query.run(
        account,
        Gate.from_random_state(random_state),
        read,
        lambda rows: _counts(task, rows),
        unit=whose.unit,
        kind="evaluate",
        label=f"evaluation of model {evaluated.digest[:12]}",
        mechanism="evaluation",
    )
    binned = task.bins if isinstance(task, Classification) else None
    return Evaluation(
        **estimated(task, release.numbers, query.noise.scale, public.n_rows),
        **stated(evaluated, whose, public, query, release),
        **_about(evaluated),
        release=release.to_dict()
        | {
            "bins": None if binned is None else binned.count,
            "scales": [] if binned is None else binned.to_list(),
            "default_bins": bins is None and binned is not None,
            "error_bound": error_bound,
            "probabilities": evaluated.has_probabilities,
        },
        notes=notes_of(evaluated, account.secure, error_bound, whose.by_person),
    )


def _read(evaluated: EvaluatedModel, X: Any, y: Any, relation: Neighbours, whose: Ownership) -> Rows:
    """Scores or predictions with their targets, and whose rows they are.

    The margin of a row does not depend on its place under add-remove.
    """
    with redacted():
        if evaluated.steps:
            X = evaluated.transformed(made(X))
        margins, targets = margins_and_targets(evaluated.model, X, y, whose.relation_of_places(relation))
        owners = whose.owners(len(margins))
        if evaluated.task == "regression":
            values = np.asarray(targets, np.float64)
            if not np.isfinite(values).all():
                raise InvalidInput("y holds targets that are missing or not finite; leave such rows out.")
            return PredictedTargets(margins, values), owners
        labels, probabilities = encode_labels(targets, evaluated.classes), evaluated.has_probabilities
        if evaluated.task != "binary":
            scores = scores_of(evaluated, margins)
            return LabelledScores(labels.astype(np.int64), scores, probabilities), owners
        scores = scores_of(evaluated, margins.reshape(-1))
        positive = (labels > 0).astype(np.int64)
        return LabelledScores(positive, scores, probabilities, line_of(evaluated)), owners


def _counts(task: Task, rows: Rows) -> dict[str, Integers]:
    with np.errstate(all="ignore"):
        return task.counts(*rows)  # type: ignore[arg-type]  # rows are those of the task


def _exact(evaluated: EvaluatedModel, X: Any, y: Any, bins: int, whose: Ownership) -> Evaluation:
    """Without noise: metrics of the rows themselves, or of exact counts where these are enough."""
    rows, owners = _read(evaluated, X, y, Neighbours.REPLACE_ONE, whose)
    n = owners.count
    if not n:
        raise InvalidInput("there are no rows to evaluate on.")
    scales = {} if evaluated.task == "regression" else scales_of(evaluated)
    # The plan is that of some budget: nothing is released by it.
    task, query = planned(evaluated, scales, Budget(1.0, 1e-6), Neighbours.REPLACE_ONE, n, bins)
    found = estimated(task, query.design.vector(_counts(task, (rows, owners))), 0.0, n)
    for name in found["metrics"]:
        exact = registered_metrics()[name].exact(rows, owners)
        found["metrics"][name] = found["metrics"][name] if exact is None else exact
    return Evaluation(
        **found,
        **_about(evaluated),
        model=evaluated.digest,
        unit=whose.unit,
        library=__version__,
        local=True,
        rows=n,
        table_rows=owners.n_rows,
        notes=(LOCAL_NOTE, *([ONCE] if whose.by_person else [])),
    )


def _about(evaluated: EvaluatedModel) -> dict[str, Any]:
    return {
        "task": evaluated.task,
        "classes": plain("classes", evaluated.classes),
        "y_range": evaluated.y_range if evaluated.task == "regression" else None,
    }


def _check_error_bound(evaluated: EvaluatedModel, bound: Any) -> None:
    if bound is None:
        return
    if evaluated.task != "regression":
        raise InvalidInput("error_bound is for regressions; a classifier makes no errors of a size.")
    low, high = evaluated.y_range
    number = isinstance(bound, float | int | np.floating) and not isinstance(bound, bool)
    if not number or not 0 < bound <= high - low:
        raise InvalidInput(
            f"error_bound must be a number above 0 and at most {high - low:g}, the length of the range; got {bound!r}."
        )
