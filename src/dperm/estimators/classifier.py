"""Labels in, coefficients and predictions out: what the private classifiers share."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dperm.certificate.assumptions import DECLARED, TAKEN
from dperm.certificate.statement import loss_of
from dperm.certificate.threshold import AT_LEAST, Threshold, bins_for, check_objective
from dperm.counting.bins import margin_scale
from dperm.counting.design import Design, Histogram, Integers, share_bits, shared_counts
from dperm.counting.metrics import registered_metrics
from dperm.counting.metrics.base import EdgeCounts
from dperm.counting.query import Account, Query, check_count
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import Coding, PrivateLinearModel, Vector
from dperm.estimators.labels import (
    LabelSet,
    LossLike,
    check_class_weight,
    classifier_loss,
    encode_labels,
    encode_weighted,
    holds_codes,
    is_turned,
    label_set,
    refuse_positive,
    weighted,
    weights_of,
)
from dperm.estimators.persons import GroupedRows
from dperm.estimators.rows import (
    RowSource,
    check_counted,
    count_rows,
    margins_and_targets,
    redact_errors,
)
from dperm.estimators.settings import ClassifierSettings
from dperm.ledger import Ledger
from dperm.losses import Loss, resolve_loss
from dperm.losses.registry import form_for
from dperm.mechanisms import Plan
from dperm.privacy import Budget, Gate, gaussian_mu
from dperm.unit import Neighbours

_NEEDS_CLASSES = {
    "hidden": (
        "neighbours='add-remove' hides whether a row is there, and labels taken from y would tell that of the "
        "only row with a label: declare all that may occur with classes=."
    ),
    "shards": (
        "Labels that lie in shards are not read to find out which there are: declare classes=, all labels that may "
        "occur, of two the positive one second or named with positive=."
    ),
    "paid": (
        "With a ledger declare classes=, all labels that may occur: the charge comes before a row is read, and "
        "to take the labels from y is to read it."
    ),
}


THRESHOLD = "decision threshold"
_NEEDS_GROUPS = (
    "this model was trained by person, and its threshold must protect persons too: give groups, the id of the person "
    "of each row."
)
_BY_ROWS = (
    "this model was trained by rows, so its guarantee is for one row, and a threshold by person beside it has no "
    "guarantee for a person to add to. Leave groups out, or fit with groups."
)


def _gives_probabilities(model: PrivateClassifier) -> bool:
    """By the loss of the fit, where there was one."""
    fitted = getattr(model, "privacy_", None)
    loss = resolve_loss(model.loss) if fitted is None else loss_of(fitted.statement["problem"])
    return loss.has_log_odds


class PrivateClassifier(ClassifierSettings, ClassifierMixin, PrivateLinearModel):  # type: ignore[misc]
    """A linear classifier, trained with differential privacy. Subclasses say with which ``loss``."""

    loss: LossLike
    classes_: NDArray[Any]
    class_order_: NDArray[Any]
    positive_: Any
    threshold_: Threshold | None
    _labels_are_public: bool = False

    def plan(
        self, n_rows: int, n_features: int, n_classes: int | None = None, *, n_persons: int | None = None
    ) -> Plan:
        """What ``fit`` would do on a table of this shape: noise, price and settings, from public facts alone.

        Raises what ``fit`` would raise of the settings. No data is needed and nothing is spent.

        Parameters
        ----------
        n_rows, n_features : int
            The shape of the table. Under add-remove ``max_rows`` stands for the number of rows.
        n_classes : int, optional
            How many labels may occur, where ``classes`` does not say so; two if neither does.
        n_persons : int, optional
            The number of persons, where ``fit`` will get ``groups``; the number of rows then does not matter.
        """
        count = self._count_classes(n_classes)
        return self._planned(n_rows, n_features, self._loss(self._known_weights(count), count), n_persons)

    def _coding(self, source: RowSource, paying: bool) -> Coding:
        self._labels_are_public = source.classes is not None
        known = self._label_set(source, paying)
        weights = weights_of(self.class_weight, known.names)
        encode = partial(encode_weighted, classes=known.classes, weights=weights)
        return self._loss(weights, len(known)), encode, partial(self._keep, known)

    def _keep(self, known: LabelSet, coefficients: Vector, intercept: Vector) -> None:
        self._know(known)
        self.threshold_ = None
        self.coef_ = np.ascontiguousarray(np.atleast_2d(coefficients.T))
        self.intercept_ = np.atleast_1d(intercept)

    def _know(self, labels: LabelSet) -> None:
        """Keep the labels of a fit, sorted and as they are told."""
        self.classes_, self.class_order_ = labels.classes, labels.order
        self.positive_ = labels.order[1] if len(labels) == 2 else None

    def tune_threshold(
        self,
        X: Any,
        y: Any,
        *,
        epsilon: float,
        delta: float = 1e-6,
        objective: str = "balanced_accuracy",
        random_state: Any = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        groups: Any = None,
    ) -> Self:
        """Choose privately from which margin on ``predict`` says the positive one of two classes.

        One Gaussian release: the counts of the rows by label and by bin of their margin. The costs of fit and threshold
        add up if the rows are the same; rows that were not trained on judge a model better. Tuned again, the last
        threshold is in force and all are paid for: report and file add up every one.

        Parameters
        ----------
        X, y : as for ``fit``
            Under add-remove at most ``max_rows`` rows, or persons. Relation, unit and bound are those of the fit.
        epsilon, delta : float
            The budget of this choice alone, stated beside that of the fit in report, file and ``dperm.verify``.
        objective : {"balanced_accuracy", "f1", "accuracy"} or "recall>=SHARE" or "precision>=SHARE"
            What the threshold is best for, with recall and precision those of ``positive_``. "recall>=0.8" takes the
            strictest at which the recall is at least 0.8.
        random_state, ledger, dataset
            As for the estimator.
        groups : array-like of shape (n_samples,)
            The id of the person of each row, of a model that was fitted with ``groups``. Each row then counts its share
            of its person, and the guarantee is for a person with all rows.
        """
        check_is_fitted(self)
        if len(self.classes_) != 2:
            raise Unsupported("a threshold is for two classes; with more the largest margin decides.")
        budget = Budget(epsilon, delta)
        check_objective(objective)
        account = Account.checked(ledger, dataset, random_state, of_fit=True)
        gate = Gate.from_random_state(random_state)
        self.threshold_ = self._tuned(X, y, groups, budget, objective, account, gate)
        self.privacy_ = self.privacy_.beside(self.threshold_.to_dict())
        return self

    def _tuned(
        self,
        X: Any,
        y: Any,
        groups: Any,
        budget: Budget,
        objective: str,
        account: Account,
        gate: Gate,
    ) -> Threshold:
        """The threshold that is best by noisy counts, for the relation, the unit and the bound on rows of the fit.

        Guarantee
        ---------
        One Gaussian release of the histogram of margins by label, within the budget: docs/proofs/selection.md,
        Theorem 5.
        """
        statement = self.certificate_
        neighbours = Neighbours.parse(statement["relation"])
        by_person = "persons" in statement
        # Places move with the number of rows of a person, so margins must then not depend on them either.
        apart = Neighbours.ADD_REMOVE if by_person else neighbours
        check_counted(X, y, apart, by_person or isinstance(groups, str))
        grouped = _grouped(X, groups, by_person, account.charged)
        n_public, unit = None, "person" if by_person else "row"
        n_rows = count_rows(X, account.charged, y)
        if neighbours is Neighbours.REPLACE_ONE:
            n_public = n_rows if grouped is None else grouped.n_persons
        if n_public == 0:
            raise InvalidInput("there are no rows to tune on.")
        n_units = statement["problem"]["n_units"] if n_public is None else n_public
        query = _query(budget, neighbours, n_units, by_person)
        bins = query.design.size // 2

        def cells() -> Integers:
            with redact_errors(), np.errstate(all="ignore"):
                margins, targets = margins_and_targets(self, X, y, apart)
                check_count(len(margins) if grouped is None else grouped.n_persons, n_public, n_units, unit)
                labels = encode_labels(targets, self.classes_)
                if grouped is not None:
                    grouped.check_rows(len(labels))
                    grouped.check_ids()
                return np.asarray(margin_scale(self).place(margins.reshape(-1), bins) + bins * (labels > 0))

        def counts(cells: Integers) -> dict[str, Integers]:
            shares = None if grouped is None else grouped.shares()
            return {THRESHOLD: shared_counts(cells, 2 * bins, shares, share_bits(n_units))}

        words = {"unit": unit, "kind": "threshold", "label": "ThresholdTuning", "mechanism": THRESHOLD}
        release = query.run(account, gate, cells, counts, **words)
        return Threshold(
            margin=best_margin(self, bins, release.numbers, objective, query.noise.scale),
            objective=objective,
            epsilon=float(budget.epsilon),
            delta=float(budget.delta),
            neighbours=neighbours.value,
            unit=statement["unit"],
            n_units=int(n_units),
            bins=bins,
            sensitivity=query.noise.sensitivity,
            noise_scale=query.noise.scale,
            entropy=gate.source.name,
            private=gate.secure,
            ledger_entry=release.ledger_entry,
        )

    def decision_function(self, X: ArrayLike) -> NDArray[np.float64]:
        """Margins: of two classes one per row, positive for ``classes_[1]``; otherwise one column per class.

        With ``row_map_.linear``, as by default, that is ``X @ coef_.T + intercept_`` for rows of any length. Otherwise
        rows are mapped as in training: one longer than ``x_norm`` is scaled down to it.
        """
        margins = self._margins(X)
        return margins[:, 0] if margins.shape[1] == 1 else margins

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The label on the side of each row's margin, by ``threshold_`` if one was tuned, or of its largest one.

        Of two classes a margin on the line itself is not that of ``positive_``.
        """
        return self._labels(self.decision_function(X))

    def _labels(self, margins: NDArray[np.float64]) -> NDArray[Any]:
        threshold = getattr(self, "threshold_", None)
        above = 0.0 if threshold is None else threshold.margin
        if margins.ndim == 1:
            places = (margins >= above if is_turned(self) else margins > above).astype(int)
        else:
            places = margins.argmax(axis=1)
        return np.asarray(self.classes_[places])

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Probabilities, one column per class in the order of ``classes_``, by the loss's exact link.

        With weights they are those of a table in which every row counts by its weight, as in scikit-learn.
        """
        odds = self._log_odds(self.decision_function(X))
        if odds.ndim == 2:
            return np.asarray(softmax(odds, axis=1))
        return np.column_stack([expit(-odds), expit(odds)])

    @available_if(_gives_probabilities)  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: ArrayLike) -> NDArray[np.float64]:
        """Logarithms of ``predict_proba``."""
        return self._log_chances(self.decision_function(X))

    def _log_chances(self, margins: NDArray[np.float64]) -> NDArray[np.float64]:
        odds: Any = self._log_odds(margins)
        if odds.ndim == 2:
            return np.asarray(log_softmax(odds, axis=1))
        return np.column_stack([log_expit(-odds), log_expit(odds)])

    def score(self, X: Any, y: Any = None, sample_weight: ArrayLike | None = None) -> float:
        """Share of the rows that are predicted right. It is not private."""
        return self._scored(super().score, X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = self.fits_many_classes
        tags.classifier_tags.poor_score = True  # at epsilon = 1 a few dozen rows teach little
        tags.non_deterministic = True
        return tags

    @property
    def fits_many_classes(self) -> bool:
        """Whether more than two classes can be fitted."""
        return form_for(resolve_loss(self.loss), 3) is not None

    def _log_odds(self, margins: NDArray[np.float64]) -> NDArray[np.floating[Any]]:
        """What margins stand for under the loss that was really trained with."""
        return loss_of(self.privacy_.statement["problem"]).log_odds(margins)

    def _loss(self, weights: Sequence[float] | None, n_classes: int) -> Loss:
        return weighted(classifier_loss(self.loss, n_classes), weights, self.sample_weight_bound)

    def _known_weights(self, n_classes: int) -> Sequence[float] | None:
        """Those of the classes, where nobody need know which class has which."""
        if self.classes is not None or self.class_weight is None:
            return weights_of(self.class_weight, () if self.classes is None else np.unique(self.classes))
        check_class_weight(self.class_weight)
        if len(self.class_weight) > n_classes:
            raise InvalidInput(f"class_weight has {len(self.class_weight)} labels for {n_classes} classes.")
        return [*self.class_weight.values()] + [1.0] * (n_classes - len(self.class_weight))

    def _targets(self, loss: Loss) -> dict[str, Any]:
        origin = TAKEN if self.classes is None and not self._labels_are_public else DECLARED
        return {"kind": "classes", "count": max(loss.outputs, 2), "origin": origin}

    def _count_classes(self, told: int | None) -> int:
        """The public number of classes, without a look at y."""
        if self.classes is not None:
            declared = len(self._checked_classes(self.classes))
            if told not in (None, declared):
                raise InvalidInput(f"classes declares {declared} classes and n_classes is {told!r}.")
            return declared
        self._check_declared(self.ledger is not None)
        if told is None:
            return 2
        if isinstance(told, bool) or not isinstance(told, numbers.Integral) or told < 2:
            raise InvalidInput(f"n_classes must be a whole number of at least 2; got {told!r}.")
        if told > 2:
            refuse_positive(self.positive)
        return int(told)

    def _label_set(self, source: RowSource, paying: bool) -> LabelSet:
        declared = source.classes if self.classes is None else self.classes
        if declared is not None:
            return self._checked_classes(declared, coded=holds_codes(source.y))
        self._check_declared(paying)
        if source.has_labels:
            raise InvalidInput(_NEEDS_CLASSES["shards"])
        labels = _labels_in(source.y)
        if len(labels) < 2:
            raise InvalidInput(
                "y holds 1 class and two are needed; if another class may occur, declare all with classes=."
            )
        return self._checked_classes(labels)

    def _check_declared(self, paying: bool) -> None:
        """Refuse to take labels from y where that would tell of a row, or comes before the charge."""
        if self.classes is not None:
            return
        if Neighbours.parse(self.neighbours) is Neighbours.ADD_REMOVE:
            raise InvalidInput(_NEEDS_CLASSES["hidden"])
        if paying:
            raise InvalidInput(_NEEDS_CLASSES["paid"])

    def _checked_classes(self, declared: Any, coded: bool = False) -> LabelSet:
        labels = label_set(declared, self.positive, coded=coded)
        if len(labels) > 2 and not self.fits_many_classes:
            raise Unsupported(
                "Only binary classification is supported. The type of the target is multiclass: "
                f"{'y holds' if self.classes is None else 'classes declares'} {len(labels)} classes. Use "
                "PrivateLogisticRegression, which fits all of them in one budget."
            )
        return labels


def _labels_in(y: Any) -> NDArray[Any]:
    with redact_errors():
        values = column_or_1d(check_array(y, ensure_2d=False, dtype=None, input_name="y"))
        check_classification_targets(values)
        return np.unique(values)


def _query(budget: Budget, neighbours: Neighbours, n_units: int, by_person: bool) -> Query:
    """Counts of rows, or of shares of persons, in two histograms of as many bins as the public rule gives."""
    step = 2.0 ** -share_bits(n_units) if by_person else 1.0

    def design(bins: int) -> Design:
        return Design((Histogram(THRESHOLD, 2 * bins, unit=step),))

    bins = bins_for(design(1).sensitivity(neighbours) / gaussian_mu(budget), n_units)
    return Query(design=design(bins), budget=budget, neighbours=neighbours, name=THRESHOLD)


def _grouped(X: Any, groups: Any, by_person: bool, paying: bool) -> GroupedRows | None:
    """Which rows belong to which person, where the model was trained by person; else rows are on their own."""
    if not by_person:
        if groups is not None:
            raise Unsupported(_BY_ROWS)
        return None
    if groups is None:
        raise InvalidInput(_NEEDS_GROUPS)
    with redact_errors():
        grouped = GroupedRows.of(groups)
        grouped.check_rows(count_rows(X, paying))
    return grouped


def best_margin(model: Any, bins: int, noisy: Vector, objective: str, noise: float) -> float:
    """The edge that is best for the positive class, on the margin, which is that of ``classes_[1]``."""
    edges = margin_scale(model).edges(bins)
    if is_turned(model):
        return -best_edge(-edges[::-1], noisy[::-1], objective, noise)
    return best_edge(edges, noisy, objective, noise)


def best_edge(edges: Vector, noisy: Vector, objective: str, noise: float) -> float:
    """The edge between two bins at which the objective is best, by noisy counts.

    'recall>=0.8' takes the largest edge above which that share of the positive rows lies, 'precision>=0.5' the
    smallest above which that share of the rows is positive.
    """
    metrics, condition = registered_metrics(), AT_LEAST.fullmatch(objective)
    counts = EdgeCounts.of(noisy, noise)
    if condition is None:
        return float(edges[int(np.argmax(metrics[objective].at_edges(counts)))])
    holds = metrics[condition[1]].at_edges(counts) >= float(condition[2])
    if not holds.any():
        return float(edges[0] if condition[1] == "recall" else edges[-1])
    places = np.flatnonzero(holds)
    return float(edges[places[-1] if condition[1] == "recall" else places[0]])
