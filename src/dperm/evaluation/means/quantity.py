"""What is averaged: the probability of one class, or the number that a regression predicts, row by row."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.certificate.document import plain
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.apart import margins_apart
from dperm.evaluation.intervals import UNIT
from dperm.evaluation.subject import Subject
from dperm.neighbours import Neighbours

Vector = NDArray[np.float64]
Ends = tuple[float, float]

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number for every row, cut off at ``ends``; ``place`` is that of its class, None for a regression.

    Guarantee
    ---------
    The number of a row depends on this row and public facts alone: every operation acts on each row by itself.
    """

    subject: Subject
    place: int | None
    ends: Ends

    @property
    def label(self) -> Any:
        """The class, as plain JSON has it."""
        return None if self.place is None else plain("classes", self.subject.classes)[self.place]

    def in_halves(self, X: Any, neighbours: Neighbours) -> Vector:
        """The numbers of all rows in units of half the range, around its middle: from -1 to 1."""
        if self.subject.steps:
            X = self.subject.transformed(X)
        numbers = self._numbers(margins_apart(self.subject.model, X, neighbours))
        low, high = self.ends
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        return np.clip((np.nan_to_num(numbers) - middle) / half, -1.0, 1.0)

    def _numbers(self, margins: Vector) -> Vector:
        if self.place is None:
            return margins
        odds = self.subject.told(np.clip(np.nan_to_num(self.subject.loss.log_odds(margins)), -_FAR, _FAR))
        if odds.ndim == 1:
            return np.asarray(expit(odds if self.place == 1 else -odds))
        # Class after class: the order in which a sum over columns is taken may depend on how many rows there are.
        others = np.full(len(odds), -np.inf)
        for k, column in enumerate(odds.T):
            if k != self.place:
                others = np.logaddexp(others, column)
        return np.asarray(expit(odds[:, self.place] - others))


def quantity_of(subject: Subject, label: Any, bounds: Any) -> Quantity:
    """``label`` is a class, of two the positive one unless another is given; ``bounds`` are narrower ends."""
    if subject.task == "regression":
        if label is not None:
            raise InvalidInput("label names a class, and a regression has none; leave it out.")
        return Quantity(subject, None, _narrowed(subject.y_range, bounds))
    if not subject.has_probabilities:
        raise Unsupported(
            "this model was trained with a loss that gives no probabilities, so there are none to average. Use a "
            "logistic model."
        )
    return Quantity(subject, _place(subject, label), _narrowed(UNIT, bounds))


def _place(subject: Subject, label: Any) -> int:
    classes = plain("classes", subject.classes)
    if label is None:
        if len(classes) == 2:
            return 1
        raise InvalidInput(
            f"label must say whose probability to average, of the {len(classes)} classes of the model."
        )
    found = [place for place, known in enumerate(subject.classes) if known == label]
    if len(found) != 1:
        raise InvalidInput("label must be one of the classes of the model.")
    return found[0]


def _narrowed(ends: Ends, bounds: Any) -> Ends:
    if bounds is None:
        return ends
    numbers = isinstance(bounds, tuple | list) and all(
        isinstance(end, float | int | np.floating) and not isinstance(end, bool) and math.isfinite(end)
        for end in bounds
    )
    if not numbers or len(bounds) != 2 or not ends[0] <= bounds[0] < bounds[1] <= ends[1]:
        raise InvalidInput(
            f"bounds must be two numbers (low, high) with {ends[0]:g} <= low < high <= {ends[1]:g}; got {bounds!r}."
        )
    return float(bounds[0]), float(bounds[1])
