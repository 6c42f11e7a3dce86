"""Metrics of a model on rows, each made of sums to which a row adds little: docs/proofs/selection.md, Theorem 4."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import Unsupported
from dperm.estimators.apart import margins_apart
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.labels import encode_labels
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.margin_bins import bins_of
from dperm.estimators.persons import SHARE_BITS
from dperm.neighbours import Neighbours

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

MOST_LOG_LOSS = 5.0  # of one row: its label had a probability of e^-5, or less
BINS = 32


class Metric(ABC):
    """Sums over rows that are released with noise, and the score that is made of them: larger is better.

    Guarantee
    ---------
    ``sums`` of two tables that differ in one row are at most ``apart`` away from each other, in the Euclidean norm.
    What a row adds depends on that row and on the model. A row that is not there adds nothing. With the ``shares`` of
    rows in their persons the same holds of one person with all rows: sums are of whole 2**-30ths, at most 1 of each.
    """

    classifies: ClassVar[bool] = True
    parts: int = 1

    def __init__(self, model: PrivateLinearModel, n_classes: int | None = None) -> None:  # noqa: B027
        """``model`` is not fitted; from it come public settings alone."""

    def apart(self, neighbours: Neighbours) -> float:
        """How far one row moves the sums: here each row adds a number from 0 to 1."""
        return 1.0

    @abstractmethod
    def sums(
        self, model: Any, rows: NDArray[Any], targets: NDArray[Any], shares: Integers | None = None
    ) -> Vector: ...

    @abstractmethod
    def value(self, noisy: Vector, noise: float) -> float:
        """The score; ``noise`` is the standard deviation of each of the sums."""


class _Mean(Metric):
    """The mean of a number from 0 to 1 for each row."""

    @abstractmethod
    def numbers(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Vector: ...

    def sums(
        self, model: Any, rows: NDArray[Any], targets: NDArray[Any], shares: Integers | None = None
    ) -> Vector:
        found = self.numbers(model, rows, targets)
        if shares is None:
            return np.array([math.fsum(found)])
        return np.array([np.floor(found * shares).astype(np.int64).sum() / 2**SHARE_BITS])

    def value(self, noisy: Vector, noise: float) -> float:
        return float(noisy[0])


class _Counts(Metric):
    """Every row is counted in one of ``parts`` cells."""

    @abstractmethod
    def cells(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Integers: ...

    def sums(
        self, model: Any, rows: NDArray[Any], targets: NDArray[Any], shares: Integers | None = None
    ) -> Vector:
        counts = np.zeros(self.parts, np.int64)
        np.add.at(counts, self.cells(model, rows, targets), 1 if shares is None else shares)
        return np.asarray(counts if shares is None else counts / 2**SHARE_BITS, np.float64)

    def apart(self, neighbours: Neighbours) -> float:
        """A row that is replaced leaves one cell and comes to another."""
        return math.sqrt(neighbours.rows_changed)


class Accuracy(_Mean):
    """Share of the rows that are predicted right."""

    def numbers(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Vector:
        return np.asarray(model._labels(_margins(model, rows)) == targets, np.float64)


class BalancedAccuracy(_Counts):
    """The mean over the classes of the share of its rows that are predicted right."""

    def __init__(self, model: PrivateLinearModel, n_classes: int | None = None) -> None:
        self._classes = n_classes or 2
        self.parts = 2 * self._classes

    def cells(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Integers:
        right = model._labels(_margins(model, rows)) == targets
        return np.asarray(places(model, targets) + self._classes * right)

    def value(self, noisy: Vector, noise: float) -> float:
        wrong, right = noisy.reshape(2, self._classes)
        return float(np.clip(right / np.maximum(right + wrong, noise), 0.0, 1.0).mean())


class RankedPairs(_Counts):
    """Area under the ROC curve: the share of pairs of both classes that the margins put in the right order.

    Margins are counted in ``BINS`` public bins; a pair in one bin counts one half.
    """

    parts = 2 * BINS

    def __init__(self, model: PrivateLinearModel, n_classes: int | None = None) -> None:
        if n_classes not in (None, 2):
            raise Unsupported(
                "scoring='roc_auc' is for two classes; use 'balanced_accuracy' or 'neg_log_loss'."
            )

    def cells(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Integers:
        return np.asarray(bins_of(model, _margins(model, rows), BINS) + BINS * places(model, targets))

    def value(self, noisy: Vector, noise: float) -> float:
        negative, positive = noisy.reshape(2, BINS)
        below = np.cumsum(negative) - negative / 2
        least = noise * math.sqrt(BINS)
        pairs = max(positive.sum(), least) * max(negative.sum(), least)
        return float(np.clip(positive @ below / pairs, 0.0, 1.0))


class LogLoss(_Mean):
    """Minus the mean log loss, that of a row cut off at ``MOST_LOG_LOSS``; an absent row counts as the largest."""

    def __init__(self, model: PrivateLinearModel, n_classes: int | None = None) -> None:
        if not hasattr(model, "predict_log_proba"):
            raise Unsupported("scoring='neg_log_loss' needs probabilities, which this loss does not give.")

    def numbers(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Vector:
        told = model._log_chances(_margins(model, rows))[np.arange(len(targets)), places(model, targets)]
        losses = np.clip(np.nan_to_num(-told, nan=MOST_LOG_LOSS), 0.0, MOST_LOG_LOSS)
        return np.asarray(1 - losses / MOST_LOG_LOSS)

    def value(self, noisy: Vector, noise: float) -> float:
        return MOST_LOG_LOSS * (float(noisy[0]) - 1)


class Closeness(_Mean):
    """Minus the mean absolute error, predictions and targets cut off at ``y_range``; or 1 minus it, in its units."""

    classifies = False
    power: ClassVar[int] = 1

    def __init__(self, model: PrivateLinearModel, n_classes: int | None = None, shares: bool = False) -> None:
        assert isinstance(model, PrivateLinearRegression)
        assert model.y_range is not None  # or the search had refused it
        self._low, self._high = (float(end) for end in model.y_range)
        self._shares = shares

    def numbers(self, model: Any, rows: NDArray[Any], targets: NDArray[Any]) -> Vector:
        low, high = self._low, self._high
        predicted = np.clip(np.nan_to_num(_margins(model, rows), nan=low), low, high)
        errors = np.abs(predicted - np.clip(targets, low, high)) / (high - low)
        return np.asarray(1 - errors**self.power)

    def value(self, noisy: Vector, noise: float) -> float:
        share = float(noisy[0])
        return share if self._shares else (share - 1) * (self._high - self._low) ** self.power


class SquaredError(Closeness):
    """Minus the mean squared error, cut off alike; it orders models as R squared does."""

    power = 2


def _margins(model: Any, rows: NDArray[Any]) -> Vector:
    """Of arrays and sparse rows, so that the place of a row does not matter, whichever the relation."""
    return margins_apart(model, rows, Neighbours.ADD_REMOVE)


def places(model: Any, targets: NDArray[Any]) -> NDArray[np.int64]:
    """The place of each label among the classes of a fitted model."""
    encoded = encode_labels(targets, model.classes_)
    return np.asarray(encoded > 0 if len(model.classes_) == 2 else encoded, np.int64)
