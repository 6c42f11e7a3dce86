"""A loss whose rows have weights: each row carries its own, between 0 and a declared bound."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dperm.arithmetic import rounded_up
from dperm.errors import InvalidInput
from dperm.losses.base import Loss, namespace
from dperm.typing import Array

TARGET = np.dtype([("target", np.float64), ("weight", np.float64)])
"""What stands for a target where rows have weights: it goes wherever a target goes."""

PREFIX = "weighted-"
BOUND_RANGE = (1e-9, 1e9)


def weighted_targets(targets: ArrayLike, weights: ArrayLike) -> NDArray[Any]:
    """One pair of target and weight for each row."""
    pairs = np.empty(len(np.asarray(targets)), TARGET)
    pairs["target"], pairs["weight"] = targets, weights
    return pairs


def has_weights(y: NDArray[Any]) -> bool:
    return y.dtype == TARGET


def targets_alone(y: NDArray[Any]) -> NDArray[Any]:
    """The targets without their weights, where they have some."""
    return np.asarray(y["target"]) if has_weights(y) else y


def weights_alone(y: NDArray[Any]) -> NDArray[Any]:
    """The weights, 1 where rows have none."""
    return np.asarray(y["weight"]) if has_weights(y) else np.ones(np.shape(y))


@dataclass(frozen=True)
class Weighted(Loss):
    r""":math:`\omega\,\phi(m, y)` with the weight :math:`0 \le \omega \le W` of the row; W = ``bound``.

    Every constant is W times that of ``base``, also ``coupling`` (docs/proofs/weights.md). A target is a pair
    (``TARGET``); a plain number is that of an empty row, whose gradient is zero. It has no name in the registry:
    estimators make one from class weights or sample weights, and theorems about one very loss, which look at its type,
    do not take it for that one.
    """

    base: Loss
    bound: float

    def __post_init__(self) -> None:
        low, high = BOUND_RANGE
        if not (isinstance(self.bound, int | float) and low <= self.bound <= high):
            raise InvalidInput(f"the bound on weights must lie between {low:g} and {high:g}.")
        if isinstance(self.base, Weighted):
            raise InvalidInput("a weighted loss cannot be weighted again.")
        own = {"name": PREFIX + self.base.name}
        same = ("labels", "sign_definite", "is_model", "falls_to_zero", "has_log_odds", "outputs")
        for name, value in {**own, **{name: getattr(self.base, name) for name in same}}.items():
            object.__setattr__(self, name, value)

    @property
    def lipschitz(self) -> float:
        return self.bound * self.base.lipschitz

    @property
    def smoothness(self) -> float:
        return self.bound * self.base.smoothness

    @property
    def coupling(self) -> float | None:
        coupling = self.base.coupling
        return None if coupling is None else rounded_up(Fraction(float(self.bound)) * Fraction(coupling))

    @property
    def at_zero(self) -> float | None:
        return None if self.base.at_zero is None else self.bound * self.base.at_zero

    @property
    def heaviest(self) -> float:
        return self.bound

    @property
    def unweighted(self) -> Loss:
        return self.base

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.bound, *self.base.parameters)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return self.base.kernel_parameters

    def for_classes(self, n_classes: int) -> Loss:
        return Weighted(self.base.for_classes(n_classes), self.bound)

    def value(self, margin: Array, y: Array) -> Array:
        return self._weight(margin, y) * self.base.value(margin, self._target(margin, y))

    def slope(self, margin: Array, y: Array) -> Array:
        return self._per_output(margin, y) * self.base.slope(margin, self._target(margin, y))

    def curvature(self, margin: Array, y: Array) -> Array:
        return self._per_output(margin, y) * self.base.curvature(margin, self._target(margin, y))

    def log_odds(self, margin: Array) -> Array:
        """Among rows counted by their weights."""
        return self.base.log_odds(margin)

    @staticmethod
    def _target(margin: Array, y: Array) -> Array:
        """Tensors of targets with weights have a last axis for both."""
        return np.asarray(targets_alone(y), margin.dtype) if namespace(margin) is np else y[..., 0]

    @staticmethod
    def _weight(margin: Array, y: Array) -> Array:
        return np.asarray(weights_alone(y), margin.dtype) if namespace(margin) is np else y[..., 1]

    def _per_output(self, margin: Array, y: Array) -> Array:
        weight = self._weight(margin, y)
        return weight if self.outputs == 1 else weight[..., None]
