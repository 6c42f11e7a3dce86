"""What is counted to judge a classifier, and where each row falls."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_expit, log_softmax

from dperm.counting.bins import AGAINST, CONFIDENCE, MOST_AGAINST, SCORES, ScoreBins, odds_of
from dperm.counting.design import Design, Histogram, Integers, Owners, Part, Shares
from dperm.counting.estimates import Constraints, CountEstimates, Estimate, cell_ratio

Vector = NDArray[np.float64]

CONFUSION, LOSSES = "confusion", "losses"
FLOOR = 0.02
LOSS_WEIGHTS = (
    1.0,
    0.5,
    0.5,
    0.25,
)  # of log loss and its square, Brier score and its square: squares serve intervals


def loss_cap(n_classes: int) -> float:
    """The most that the log loss of one row counts: a true label given a chance below 0.02 / classes counts as that."""
    return -math.log(FLOOR / n_classes)


@dataclass(frozen=True, eq=False)
class LabelledScores:
    """What is known of every row: the place of its label, the log odds of each class, and whether those have a link.

    Classes are in the order of ``told_classes``. Of two the second, the positive one, is predicted above ``line``,
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


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """The estimated counts of an evaluation of so many classes, whose scores lie in so many ``bins``."""

    counts: CountEstimates
    n_classes: int
    bins: int

    @cached_property
    def cells(self) -> tuple[Integers, Integers]:
        """The true label and the prediction of every cell of the confusion matrix."""
        label, predicted = np.divmod(np.arange(self.n_classes**2), self.n_classes)
        return label, predicted

    def share(self, top: NDArray[Any], bottom: NDArray[Any] | None = None) -> Estimate:
        """The rows in the cells that ``top`` marks over those that ``bottom`` does, by default all."""
        everywhere = np.ones(self.n_classes**2) if bottom is None else bottom
        return cell_ratio(self.counts, CONFUSION, top, everywhere)


@dataclass(frozen=True, eq=False)
class Classification:
    """The one vector of counts from which a classifier is judged."""

    n_classes: int
    has_probabilities: bool
    bins: ScoreBins

    @cached_property
    def design(self) -> Design:
        n_classes, cells = self.n_classes, 2 * self.bins.count
        parts: list[Part] = [Histogram(CONFUSION, n_classes**2)]
        if n_classes == 2:
            parts.append(Histogram(SCORES, cells))
        elif n_classes <= MOST_AGAINST:
            weight = 2.0 ** -math.ceil(math.log2(n_classes) / 2)
            parts += [Histogram(f"{AGAINST} {k}", cells, weight) for k in range(n_classes)]
        if self.has_probabilities:
            if n_classes > 2:
                parts.append(Histogram(CONFIDENCE, cells, 0.5))
            parts.append(Shares(LOSSES, LOSS_WEIGHTS))
        return Design(tuple(parts))

    def counts(self, rows: LabelledScores, owners: Owners | None = None) -> dict[str, Integers]:
        """Where the rows fall. Every row is in one cell of each histogram; without ``owners`` each is on its own."""
        owners, bins = Owners.of_rows(len(rows.labels)) if owners is None else owners, self.bins
        cells = {CONFUSION: rows.labels * self.n_classes + rows.predicted}
        if rows.binary:
            cells[SCORES] = rows.labels * bins.count + bins.place(SCORES, rows.log_odds)
        elif self.design.has(f"{AGAINST} 0"):
            chances = rows.log_chances
            for k in range(self.n_classes):
                name = f"{AGAINST} {k}"
                cells[name] = (rows.labels == k) * bins.count + bins.place(name, odds_of(chances[:, k]))
        if self.design.has(CONFIDENCE):
            top = odds_of(rows.log_chances.max(axis=1, initial=-np.inf))
            cells[CONFIDENCE] = (rows.labels == rows.predicted) * bins.count + bins.place(CONFIDENCE, top)
        counts = {}
        for part in self.design.parts:
            if isinstance(part, Histogram):
                counts[part.name] = part.count(cells[part.name], owners)
            elif isinstance(part, Shares):
                share, brier = rows.losses / loss_cap(self.n_classes), rows.brier
                columns = np.column_stack([share, np.minimum(share, 1.0) ** 2, brier, brier**2])
                counts[part.name] = part.count(columns, owners)
        return counts

    def estimates(self, released: Vector, noise_scale: float, n_rows: int | None) -> ClassCounts:
        """``n_rows`` is None where it is private."""
        counts = CountEstimates.of(self.design, released, noise_scale, self.constraints(n_rows))
        return ClassCounts(counts, self.n_classes, self.bins.count)

    def constraints(self, n_rows: int | None) -> Constraints:
        """All histograms count the same rows, as many as are public, and agree on what they both tell.

        Scores of two classes are parted where the prediction is.
        """
        left: list[Vector] = []
        right: list[float] = []
        labels, predicted = np.divmod(np.arange(self.n_classes**2), self.n_classes)

        def equal(*terms: tuple[str, NDArray[Any]], to: float = 0.0) -> None:
            row = np.zeros(self.design.size)
            for name, values in terms:
                row[self.design.place(name)] = values
            left.append(row)
            right.append(to)

        if n_rows is not None:
            equal((CONFUSION, np.ones(self.n_classes**2)), to=float(n_rows))
        label, bin_ = np.divmod(np.arange(2 * self.bins.count), self.bins.count)
        if self.design.has(SCORES):
            above = bin_ >= self.bins.scales[SCORES].cut(self.bins.count)
            for side in range(4):
                here = (label == side // 2) & (above == side % 2)
                equal((CONFUSION, np.arange(4) == side), (SCORES, -1.0 * here))
        for k in range(self.n_classes):
            if self.design.has(f"{AGAINST} {k}"):
                equal((CONFUSION, labels == k), (f"{AGAINST} {k}", -1.0 * (label == 1)))
                equal((CONFUSION, labels != k), (f"{AGAINST} {k}", -1.0 * (label == 0)))
        if self.design.has(CONFIDENCE):
            equal((CONFUSION, labels == predicted), (CONFIDENCE, -1.0 * (label == 1)))
            equal((CONFUSION, labels != predicted), (CONFIDENCE, -1.0 * (label == 0)))
        return Constraints(np.array(left).reshape(-1, self.design.size), np.array(right))
