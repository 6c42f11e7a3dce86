"""Labels: which there are, in which order they are told, and as what the losses take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput

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
