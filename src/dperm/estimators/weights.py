"""Weights of rows: of declared classes, and of single rows up to a declared bound."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.labels import encode_labels
from dperm.losses import Loss, Weighted
from dperm.losses.base import BOUND_RANGE, weighted_targets

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
_IN_SHARDS = (
    "sample_weight needs y as an array. Labels that lie in shards can have class_weight; or give y apart."
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


def refuse_in_shards(sample_weight: Any) -> None:
    if sample_weight is not None:
        raise Unsupported(_IN_SHARDS)


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
