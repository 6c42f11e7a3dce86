"""What is counted to judge a classifier, and where each row falls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit, log_softmax, logit

from dperm.evaluation.bins import place
from dperm.evaluation.design import Design, Histogram, Integers, Part, Shares
from dperm.evaluation.estimates import Constraints
from dperm.evaluation.subject import Subject

Vector = NDArray[np.float64]

CONFUSION, SCORES, CONFIDENCE, AGAINST, LOSSES = (
    "confusion",
    "scores",
    "confidence",
    "one against the rest",
    "losses",
)
MOST_AGAINST = 16
"""Classes up to which each is also judged against all others: every one needs a histogram of its own."""
FLOOR = 0.02
LOSS_SUMS = ("log loss", "squared log loss", "Brier score", "squared Brier score")
LOSS_WEIGHTS = (1.0, 0.5, 0.5, 0.25)  # squares only serve the intervals
MARGIN_STRETCH = 3.0
"""Margins without a link, such as those of an SVM, are binned as log odds once they are this much longer."""

_FAR = 1e6  # a margin that overflowed is cut, so that what follows is a number whatever the row


def loss_cap(n_classes: int) -> float:
    """The most that the log loss of one row counts: a true label given a chance below 0.02 / classes counts as that."""
    return -math.log(FLOOR / n_classes)


@dataclass(frozen=True, eq=False)
class Judged:
    """What is known of every row: the place of its label, the log odds of each class, and whether those have a link.

    Classes are in the order in which they are told. Of two the second, the positive one, is predicted above ``line``,
    which is 0 unless a threshold was tuned.
    """

    labels: Integers
    log_odds: Vector
    has_probabilities: bool
    line: float = 0.0

    @property
    def binary(self) -> bool:
        return self.log_odds.ndim == 1

    @property
    def predicted(self) -> Integers:
        if self.binary:
            return (self.log_odds > self.line).astype(np.int64)
        return np.asarray(self.log_odds.argmax(axis=1), np.int64) if len(self.log_odds) else self.labels

    @property
    def log_chances(self) -> Vector:
        """Of every class, one column each."""
        if self.binary:
            return np.column_stack([log_expit(-self.log_odds), log_expit(self.log_odds)])
        return np.asarray(log_softmax(self.log_odds, axis=1))

    @property
    def losses(self) -> Vector:
        return -self.log_chances[np.arange(len(self.labels)), self.labels]

    @property
    def brier(self) -> Vector:
        """Half the squared distance of the chances from the label: from 0 to 1, and (p - y)**2 of two classes."""
        chances = np.exp(self.log_chances)
        chances[np.arange(len(self.labels)), self.labels] -= 1.0
        squares = np.zeros(len(chances))
        for column in chances.T:
            squares += column**2
        return squares / 2


def judged(subject: Subject, margins: Vector, labels: Vector) -> Judged:
    """``labels`` as the losses take them."""
    places = (labels > 0).astype(np.int64) if subject.task == "binary" else labels.astype(np.int64)
    if subject.task == "binary":
        margins = margins.reshape(-1)
    odds = _scores(subject, margins)
    return Judged(
        places, np.clip(np.nan_to_num(odds), -_FAR, _FAR), subject.has_probabilities, line_of(subject)
    )


def line_of(subject: Subject) -> float:
    """Where the model's own threshold lies among the scores."""
    threshold = getattr(subject.model, "threshold_", None)
    return 0.0 if threshold is None else float(_scores(subject, np.array([threshold.margin]))[0])


def _scores(subject: Subject, margins: Vector) -> Vector:
    odds = subject.loss.log_odds(margins) if subject.has_probabilities else MARGIN_STRETCH * margins
    return subject.told(np.asarray(odds, np.float64))


def class_design(n_classes: int, bins: int, has_probabilities: bool) -> Design:
    """The parts of the vector."""
    parts: list[Part] = [Histogram(CONFUSION, n_classes**2)]
    if n_classes == 2:
        parts.append(Histogram(SCORES, 2 * bins))
    elif n_classes <= MOST_AGAINST:
        weight = 2.0 ** -math.ceil(math.log2(n_classes) / 2)
        parts += [Histogram(f"{AGAINST} {k}", 2 * bins, weight) for k in range(n_classes)]
    if has_probabilities:
        if n_classes > 2:
            parts.append(Histogram(CONFIDENCE, 2 * bins, 0.5))
        parts.append(Shares(LOSSES, LOSS_SUMS, LOSS_WEIGHTS))
    return Design(tuple(parts))


def class_counts(design: Design, rows: Judged, n_classes: int, bins: int) -> dict[str, Integers]:
    """Where the rows fall. Every row is in one cell of each histogram."""
    cells = {CONFUSION: rows.labels * n_classes + rows.predicted}
    if rows.binary:
        cells[SCORES] = rows.labels * bins + place(rows.log_odds, bins)
    elif design.has(f"{AGAINST} 0"):
        chances = rows.log_chances
        for k in range(n_classes):
            cells[f"{AGAINST} {k}"] = (rows.labels == k) * bins + place(_odds(chances[:, k]), bins)
    counts = {}
    if design.has(CONFIDENCE):
        top = rows.log_chances.max(axis=1, initial=-np.inf)
        cells[CONFIDENCE] = (rows.labels == rows.predicted) * bins + place(_odds(top), bins)
    for part in design.parts:
        if isinstance(part, Histogram):
            counts[part.name] = part.count(cells[part.name])
        elif isinstance(part, Shares):
            share, brier = rows.losses / loss_cap(n_classes), rows.brier
            counts[part.name] = part.count(
                np.column_stack([share, np.minimum(share, 1.0) ** 2, brier, brier**2])
            )
    return counts


def class_constraints(
    design: Design, n_classes: int, bins: int, n_rows: int | None, line: float = 0.0
) -> Constraints:
    """All histograms count the same rows, as many as are public, and agree on what they both tell.

    Scores are parted at 0. Where the prediction is not, they tell of the labels alone what the confusion tells.
    """
    equations: list[tuple[Vector, float]] = []
    labels, predicted = np.divmod(np.arange(n_classes**2), n_classes)

    def equal(*terms: tuple[str, Vector], to: float = 0.0) -> None:
        equations.append((_row(design, dict(terms)), to))

    if n_rows is not None:
        equal((CONFUSION, np.ones(n_classes**2)), to=float(n_rows))
    label, bin_ = np.divmod(np.arange(2 * bins), bins)
    above = bin_ >= bins // 2
    if design.has(SCORES):
        for side in range(4) if line == 0 else ():
            here = (label == side // 2) & (above == side % 2)
            equal((CONFUSION, (np.arange(4) == side) * 1.0), (SCORES, -1.0 * here))
        for k in () if line == 0 else range(2):
            equal((CONFUSION, 1.0 * (labels == k)), (SCORES, -1.0 * (label == k)))
    for k in range(n_classes):
        if design.has(f"{AGAINST} {k}"):
            equal((CONFUSION, 1.0 * (labels == k)), (f"{AGAINST} {k}", -1.0 * (label == 1)))
            equal((CONFUSION, 1.0 * (labels != k)), (f"{AGAINST} {k}", -1.0 * (label == 0)))
    if design.has(CONFIDENCE):
        equal((CONFUSION, 1.0 * (labels == predicted)), (CONFIDENCE, -1.0 * (label == 1)))
        equal((CONFUSION, 1.0 * (labels != predicted)), (CONFIDENCE, -1.0 * (label == 0)))
    left = np.array([row for row, _ in equations]).reshape(-1, design.size)
    return Constraints(left, np.array([to for _, to in equations]))


def _row(design: Design, terms: Mapping[str, Vector]) -> Vector:
    row = np.zeros(design.size)
    for name, values in terms.items():
        row[design.place(name)] = values
    return row


def _odds(log_chance: Vector) -> Vector:
    """Log odds of chances that may be 1 as far as floats tell."""
    with np.errstate(divide="ignore"):
        return np.asarray(logit(np.minimum(np.exp(log_chance), expit(36.0))))
