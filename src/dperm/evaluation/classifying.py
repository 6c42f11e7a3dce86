"""What is counted to judge a classifier, and where each row falls."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax

from dperm.evaluation.design import Design, Histogram, Part, Shares
from dperm.evaluation.estimates import Constraints
from dperm.evaluation.owners import Integers, Owners
from dperm.evaluation.scales import (
    AGAINST,
    CONFIDENCE,
    MOST_AGAINST,
    SCORES,
    ScoreBins,
    line_of,
    odds_of,
    scores_of,
)
from dperm.evaluation.subject import Subject

Vector = NDArray[np.float64]

CONFUSION, LOSSES = "confusion", "losses"
FLOOR = 0.02
LOSS_SUMS = ("log loss", "squared log loss", "Brier score", "squared Brier score")
LOSS_WEIGHTS = (1.0, 0.5, 0.5, 0.25)  # squares only serve the intervals


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
    if subject.task != "binary":
        return Judged(labels.astype(np.int64), scores_of(subject, margins), subject.has_probabilities)
    scores = scores_of(subject, margins.reshape(-1))
    return Judged((labels > 0).astype(np.int64), scores, subject.has_probabilities, line_of(subject))


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


def class_counts(
    design: Design, rows: Judged, n_classes: int, bins: ScoreBins, owners: Owners | None = None
) -> dict[str, Integers]:
    """Where the rows fall. Every row is in one cell of each histogram; without ``owners`` each is on its own."""
    owners = Owners.of_rows(len(rows.labels)) if owners is None else owners
    cells = {CONFUSION: rows.labels * n_classes + rows.predicted}
    if rows.binary:
        cells[SCORES] = rows.labels * bins.count + bins.place(SCORES, rows.log_odds)
    elif design.has(f"{AGAINST} 0"):
        chances = rows.log_chances
        for k in range(n_classes):
            name = f"{AGAINST} {k}"
            cells[name] = (rows.labels == k) * bins.count + bins.place(name, odds_of(chances[:, k]))
    if design.has(CONFIDENCE):
        top = rows.log_chances.max(axis=1, initial=-np.inf)
        cells[CONFIDENCE] = (rows.labels == rows.predicted) * bins.count + bins.place(
            CONFIDENCE, odds_of(top)
        )
    counts = {}
    for part in design.parts:
        if isinstance(part, Histogram):
            counts[part.name] = part.count(cells[part.name], owners)
        elif isinstance(part, Shares):
            share, brier = rows.losses / loss_cap(n_classes), rows.brier
            columns = np.column_stack([share, np.minimum(share, 1.0) ** 2, brier, brier**2])
            counts[part.name] = part.count(columns, owners)
    return counts


def class_constraints(design: Design, n_classes: int, bins: ScoreBins, n_rows: int | None) -> Constraints:
    """All histograms count the same rows, as many as are public, and agree on what they both tell.

    Scores of two classes are parted where the prediction is.
    """
    equations: list[tuple[Vector, float]] = []
    labels, predicted = np.divmod(np.arange(n_classes**2), n_classes)

    def equal(*terms: tuple[str, Vector], to: float = 0.0) -> None:
        equations.append((_row(design, dict(terms)), to))

    if n_rows is not None:
        equal((CONFUSION, np.ones(n_classes**2)), to=float(n_rows))
    label, bin_ = np.divmod(np.arange(2 * bins.count), bins.count)
    if design.has(SCORES):
        above = bin_ >= bins.scales[SCORES].cut(bins.count)
        for side in range(4):
            here = (label == side // 2) & (above == side % 2)
            equal((CONFUSION, (np.arange(4) == side) * 1.0), (SCORES, -1.0 * here))
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
