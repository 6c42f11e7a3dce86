"""A walk through weight space that changes one coordinate at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.losses import Loss

if TYPE_CHECKING:
    from dperm.engine.base import Engine

Floats = NDArray[np.float64]


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
