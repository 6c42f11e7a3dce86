"""What y is to a model: labels and their order, weights of classes and rows, and the loss that fits them."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, Loss, SoftClippedSquared, Weighted, resolve_loss
from dperm.losses.base import BOUND_RANGE, weighted_targets
from dperm.losses.registry import form_for

_UNSORTED = (
    "classes must be labels that can be sorted and told apart, all of one kind: text, numbers or truth values; NaN is "
    "none."
)
_AMBIGUOUS = (
    "y holds whole numbers, and classes declares text that reads as numbers: whether y holds labels or the places of "
    "labels cannot be told. Declare the labels as they are in y, or text that is no number."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class LabelSet:
    """The labels that may occur.

    Attributes
    ----------
    classes : ndarray
        Sorted as ``np.unique`` sorts, as scikit-learn takes for granted of ``classes_``. Where y holds codes of
        declared text, 0 to C - 1.
    order : ndarray
        The same in the order in which they are told: as declared, of two the positive one last.
    declared : ndarray
        The labels as they were declared, never codes.
    """

    classes: NDArray[Any]
    order: NDArray[Any]
    declared: NDArray[Any]

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def names(self) -> NDArray[Any]:
        """The declared label of each class."""
        return np.unique(self.declared)


def label_set(labels: Any, positive: Any = None, *, coded: bool = False) -> LabelSet:
    """The labels sorted, and in the order in which they are told.

    Parameters
    ----------
    labels : sequence
        At least two different labels, in the order of their declaration.
    positive : label, optional
        Of two the one that figures and effects are told of; by default the second.
    coded : bool
        Whether y is of whole numbers; they then stand for declared text, in its sorted order.
    """
    declared = _sortable(labels)
    if declared.ndim != 1 or len(declared) < 2 or len(set(declared.tolist())) < len(declared):
        raise InvalidInput(
            f"classes must hold at least two different labels; got an array of shape {declared.shape}."
        )
    names = np.unique(declared)
    order = declared if positive is None else _ending_in(positive, declared)
    if not (coded and _is_text(declared)):
        return LabelSet(classes=names, order=order, declared=declared)
    if any(_reads_as_number(name) for name in declared.tolist()):
        raise InvalidInput(_AMBIGUOUS)
    return LabelSet(classes=np.arange(len(names)), order=np.searchsorted(names, order), declared=declared)


def holds_codes(y: Any) -> bool:
    """Whether y is an array of whole numbers, by its type alone; of what has no type nothing is said."""
    return getattr(getattr(y, "dtype", None), "kind", None) in ("i", "u")


def _sortable(labels: Any) -> NDArray[Any]:
    given = list(labels) if isinstance(labels, Sequence) and not isinstance(labels, str) else []
    if len({isinstance(label, str) for label in given}) > 1:  # which NumPy would make text of
        raise InvalidInput(_UNSORTED)
    found: NDArray[Any] = np.asarray(labels)
    try:
        np.sort(found, axis=None)
        apart = not (found.dtype.kind in "Ofc" and any(label != label for label in found.ravel().tolist()))
    except TypeError:
        apart = False
    if not apart:
        raise InvalidInput(_UNSORTED) from None
    return found


def refuse_positive(positive: Any) -> None:
    """Of more than two classes none is the positive one."""
    if positive is not None:
        raise InvalidInput(
            "positive is one of two classes, and there are more, each of which is told of by itself; leave it at None."
        )


def _ending_in(positive: Any, declared: NDArray[Any]) -> NDArray[Any]:
    if len(declared) > 2:
        refuse_positive(positive)
    chosen = [
        place for place, label in enumerate(declared.tolist()) if np.ndim(positive) == 0 and label == positive
    ]
    if not chosen:
        raise InvalidInput("positive must be one of the classes, as they are declared.")
    return declared if chosen == [1] else declared[::-1]


def _is_text(labels: NDArray[Any]) -> bool:
    return labels.dtype.kind == "U" or all(isinstance(label, str) for label in labels.tolist())


def _reads_as_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def told_classes(model: Any) -> NDArray[Any]:
    """The classes of a fitted model in the order in which they are told; none of a regression."""
    return np.asarray(getattr(model, "class_order_", getattr(model, "classes_", [])))


def is_turned(model: Any) -> bool:
    """Whether the positive one of two classes is ``classes_[0]``, for which margins are negative."""
    order = told_classes(model)
    return len(order) == 2 and bool(order[1] != model.classes_[1])


def as_told(model: Any, scores: NDArray[Any]) -> NDArray[Any]:
    """Scores, or coefficients, of a classifier in the order of ``class_order_``; the last axis is that of classes.

    Of two classes there is one score, which is turned to be that of the positive one.
    """
    order = told_classes(model)
    if len(order) <= 2:
        return -scores if is_turned(model) else scores
    return np.asarray(scores[..., [model.classes_.tolist().index(label) for label in order.tolist()]])


def turned_words(model: Any) -> str:
    """What to know of the signs where they are turned; nothing where they are those of ``coef_``."""
    if not is_turned(model):
        return ""
    negative, positive = (str(label) for label in told_classes(model))
    return f"Signs are turned: they are those of {positive!r}, and coef_ and decision_function are for {negative!r}."


def encode_labels(y: ArrayLike, classes: ArrayLike) -> NDArray[np.float64]:
    """-1 and +1 for two classes, the second one positive; for more the place of each label among them.

    Raises
    ------
    InvalidInput
        If a label is not one of the classes. Which one is not said: it belongs to a record.
    """
    labels: NDArray[Any] = np.asarray(y)
    known: NDArray[Any] = np.asarray(classes)
    places = np.full(labels.shape, -1.0)
    for place, label in enumerate(known):
        places[labels == label] = place
    if (places < 0).any():
        raise InvalidInput(
            "y holds labels outside classes; declare every label that may occur. A tool that encodes labels itself "
            "passes 0, 1, ...: for it declare text, or these numbers."
        )
    return 2.0 * places - 1.0 if len(known) == 2 else places


def encode_numbers(values: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Numbers in units of half their range, from its middle, moved to its ends where they are beyond."""
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return np.clip((np.asarray(values, np.float64) - middle) / half, -1.0, 1.0)


ClassWeight = Mapping[Any, float] | None

_NO_BOUND = (
    "sample_weight needs sample_weight_bound: a weight multiplies what its row can change, so the guarantee needs a "
    "bound on the weights that is declared without the data. Weights beyond it are cut off. To favour a rare class "
    "declare class_weight instead, or move the threshold on decision_function, which costs no privacy. "
    "BaggingClassifier and its like pass weights of their own, how often a row was drawn: there declare a bound too. "
    "Boosting makes weights of other rows, which no bound covers: fit one model instead."
)
_BALANCED = (
    'class_weight="balanced" would count the labels in y, and the counts are private. Declare the weights, '
    "class_weight={label: weight}; dperm.balanced_weights({label: share}) makes them of shares that are known "
    "without the data."
)


def balanced_weights(shares: Mapping[Any, float]) -> dict[Any, float]:
    """Class weights under which every class counts the same in all, from declared shares of the classes.

    As scikit-learn's ``class_weight="balanced"``, with shares that you know instead of counts of y, which are private.

    Parameters
    ----------
    shares : mapping from label to number
        How frequent each class is, from public knowledge, such as a published prevalence. They may be in any unit.

    Examples
    --------
    >>> from dperm import balanced_weights
    >>> balanced_weights({"no": 0.9, "yes": 0.1})
    {'no': 0.5555555555555556, 'yes': 5.0}
    """
    _check_mapping("shares", shares)
    whole = math.fsum(shares.values())
    return {label: whole / (len(shares) * share) for label, share in shares.items()}


def check_sample_weight(weights: Any, bound: float | None) -> None:
    """Refuse weights of rows without a declared bound on them, and a bound without weights."""
    if weights is not None and bound is None:
        raise InvalidInput(_NO_BOUND)
    if weights is None and bound is not None:
        raise InvalidInput(
            "sample_weight_bound is declared and paid for, but fit got no sample_weight; give the weights, or leave "
            "the bound at None."
        )


def check_class_weight(class_weight: ClassWeight) -> None:
    if isinstance(class_weight, str):
        raise Unsupported(_BALANCED)
    if class_weight is not None:
        _check_mapping("class_weight", class_weight)


def weights_of(class_weight: ClassWeight, classes: Sequence[Any] | NDArray[Any]) -> tuple[float, ...] | None:
    """The weight of each class, 1 where none is declared; None where all rows weigh the same."""
    check_class_weight(class_weight)
    if class_weight is None:
        return None
    known = np.asarray(classes).tolist()
    if any(label not in known for label in class_weight):
        raise InvalidInput("class_weight has labels that are none of the classes.")
    return tuple(float(class_weight.get(label, 1.0)) for label in known)


def weighted(loss: Loss, weights: Sequence[float] | None, bound: float | None) -> Loss:
    """The loss for rows with these class weights, and weights of their own up to ``bound``."""
    if weights is None and bound is None:
        return loss
    if bound is not None:
        _check_number("sample_weight_bound", bound)
    return Weighted(loss, max(weights or (1.0,)) * float(1.0 if bound is None else bound))


def encode_weighted(y: ArrayLike, classes: ArrayLike, weights: Sequence[float] | None) -> NDArray[Any]:
    """Labels as losses take them, each with the weight of its class; without weights the labels alone."""
    targets = encode_labels(y, classes)
    if weights is None:
        return targets
    places = (targets > 0).astype(int) if len(weights) == 2 else targets.astype(int)
    return weighted_targets(targets, np.asarray(weights)[places])


def weighed(targets: NDArray[Any], sample_weight: Any, bound: float | None) -> NDArray[Any]:
    """Targets times the weights of their rows, cut off at 0 and at the bound."""
    if sample_weight is None or bound is None:
        return targets
    own: NDArray[np.float64] = np.asarray(sample_weight, np.float64)
    if own.shape != targets.shape:
        raise InvalidInput(
            f"sample_weight must hold one number for each row: its shape is {own.shape}, that of y {targets.shape}."
        )
    if not np.isfinite(own).all():
        raise InvalidInput("sample_weight holds NaN or infinite values.")
    own = np.clip(own, 0.0, float(bound))
    if targets.dtype.names is None:
        return weighted_targets(targets, own)
    return weighted_targets(targets["target"], targets["weight"] * own)


def _check_mapping(name: str, values: Any) -> None:
    if not isinstance(values, Mapping) or not values:
        raise InvalidInput(
            f"{name} must be a mapping from labels to numbers, for example {{'no': 1, 'yes': 5}}; got a "
            f"{type(values).__name__}."
        )
    for value in values.values():
        _check_number(f"every number of {name}", value)


def _check_number(name: str, value: Any) -> None:
    low, high = BOUND_RANGE
    number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (number and low <= value <= high):
        raise InvalidInput(f"{name} must be a number from {low:g} to {high:g}; got {value!r}.")


LossLike = str | Loss

_USUAL_BOUND = ClippedSquared().residual_bound


def classifier_loss(loss: LossLike, n_classes: int) -> Loss:
    """The loss for this many classes: of one output for two, of one output per class for more."""
    chosen = _checked(loss, ("binary", "classes"), "PrivateLinearRegression")
    fitting = form_for(chosen, n_classes)
    if fitting is None or (chosen.outputs > 1 and isinstance(loss, Loss) and chosen != fitting):
        raise Unsupported(
            f"the {chosen.name} loss as given does not fit {n_classes} classes. loss='logistic' fits two or more, any "
            "other for labels -1 and +1 fits two, and a loss object for more must have as many outputs as classes."
        )
    return fitting


def regression_loss(loss: LossLike, residual_bound: float) -> Loss:
    """The loss for real targets. ``residual_bound`` belongs to the two clipped squares by name."""
    for kind in (ClippedSquared, SoftClippedSquared):
        if loss == kind.name:
            return kind(residual_bound)
    chosen = _checked(loss, ("real",), "PrivateLinearClassifier")
    if residual_bound != _USUAL_BOUND:
        raise InvalidInput(
            "residual_bound is for loss='squared' or 'soft-clipped-squared'; set that of an object where it is made."
        )
    return chosen


def _checked(loss: LossLike, labels: tuple[str, ...], other: str) -> Loss:
    chosen = resolve_loss(loss)
    if not chosen.is_model:
        raise Unsupported(f"the {chosen.name} loss is for tests and audits; it makes no model.")
    if chosen.labels not in labels:
        raise Unsupported(f"the {chosen.name} loss is for other targets than these; use {other} for it.")
    return chosen
