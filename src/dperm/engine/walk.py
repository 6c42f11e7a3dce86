"""Ways through weight space on any engine: one coordinate at a time, or along a segment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.losses import Loss

if TYPE_CHECKING:
    from dperm.engine.base import Engine

Floats = NDArray[np.float64]

_COLUMNS_AT_ONCE = 256


class Walk(ABC):
    """Weights ``(n_columns, K)`` that the caller moves, coordinate by coordinate, and derivatives at them.

    What is kept of the rows between two steps stays inside.

    Guarantee
    ---------
    A derivative is as precise as that coordinate of ``Engine.gradient_sum`` would be at the longest weights that the
    walk has seen.
    """

    def __init__(self, weights: Floats) -> None:
        self.weights = weights.copy()

    @abstractmethod
    def derivative(self, j: int) -> Floats:
        """Sum of slope * x_j over each model's own rows, ``(K,)``. Private, as all sums over rows."""

    def move(self, j: int, change: Floats) -> None:
        """Add ``change``, one number per model, to coordinate j of the weights."""
        self.weights[j] += change


class GradientWalk(Walk):
    """On any engine: a whole gradient for each derivative."""

    def __init__(self, engine: Engine, loss: Loss, weights: Floats) -> None:
        super().__init__(weights)
        self._engine, self._loss = engine, loss

    def derivative(self, j: int) -> Floats:
        return np.asarray(self._engine.gradient_sum(self._loss, self.weights)[j])


def losses_between(engine: Engine, loss: Loss, begin: Floats, end: Floats, shares: Floats) -> Floats:
    """``Engine.values_between`` by the losses of all points as models of their own, with each model's rows."""
    total = np.empty((len(shares), begin.shape[1]))
    at_once = max(1, _COLUMNS_AT_ONCE // len(shares))
    for first in range(0, begin.shape[1], at_once):
        models = range(begin.shape[1])[first : first + at_once]
        one, other = begin[:, models, None], end[:, models, None]
        points = np.ascontiguousarray((one + (other - one) * shares).reshape(len(begin), -1))
        many = engine.select(np.repeat(models, len(shares)).tolist())
        total[:, models] = many.value_sum(loss, points).reshape(len(models), -1).T
    return total
