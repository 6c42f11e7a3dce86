"""The area under the ROC curve; of more than two classes the mean over each against the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.counting.bins import AGAINST, MOST_AGAINST, SCORES
from dperm.counting.classification import ClassCounts, LabelledScores
from dperm.counting.design import WHOLE, Integers, Owners
from dperm.counting.estimates import UNIT, UNKNOWN, Estimate, Z, area, area_kernel, linearised
from dperm.counting.metrics.base import (
    CountScore,
    Metric,
    SearchFacts,
    ValidationRows,
    around,
    register_metric,
)
from dperm.errors import Unsupported

Vector = NDArray[np.float64]

SCORE_BINS = 32


@register_metric
class AreaUnderCurve(CountScore, Metric):
    """The share of pairs of both classes that the scores put in the right order.

    A search counts margins in ``SCORE_BINS`` public bins; a pair in one bin counts one half.
    """

    name, title, scoring = "auc", "AUC", "roc_auc"

    def titled(self, classes: Sequence[Any]) -> str:
        return self.title + (", mean over classes" if len(classes) > 2 else "")

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        if counts.n_classes == 2:
            return area(counts.counts, SCORES, counts.bins)
        return _mean_area(counts) if counts.counts.design.has(f"{AGAINST} 0") else None

    def exact(self, rows: LabelledScores, owners: Owners) -> Estimate | None:
        if rows.binary:
            return _exact_area([(rows.log_odds, rows.labels == 1)], owners)
        chances = rows.log_chances
        if chances.shape[1] > MOST_AGAINST:
            return None
        pairs = [(column, rows.labels == k) for k, column in enumerate(chances.T)]
        return _exact_area(pairs, owners)

    def check(self, facts: SearchFacts) -> None:
        if facts.n_classes not in (None, 2):
            raise Unsupported(
                "scoring='roc_auc' is for two classes; use 'balanced_accuracy' or 'neg_log_loss'."
            )

    def n_sums(self, facts: SearchFacts) -> int:
        return 2 * SCORE_BINS

    def cells(self, rows: ValidationRows, facts: SearchFacts) -> Integers:
        return np.asarray(rows.binned(SCORE_BINS) + SCORE_BINS * rows.labels)

    def score(self, sums: Vector, noise: float, facts: SearchFacts) -> float:
        negative, positive = sums.reshape(2, SCORE_BINS)
        below = np.cumsum(negative) - negative / 2
        least = noise * math.sqrt(SCORE_BINS)
        pairs = max(positive.sum(), least) * max(negative.sum(), least)
        return float(np.clip(positive @ below / pairs, 0.0, 1.0))


def _mean_area(counts: ClassCounts) -> Estimate:
    """How areas of different classes go together among the same rows is not counted; their standard deviations are
    added, which is never too little.
    """
    estimates, n_classes, bins = counts.counts, counts.n_classes, counts.bins
    kernel, slope, total, sampled = area_kernel(bins), np.zeros(estimates.design.size), 0.0, 0.0
    for k in range(n_classes):
        name = f"{AGAINST} {k}"
        one = area(estimates, name, bins)
        rest, own = np.split(estimates.part(name), 2)
        if one.estimate is None or one.low is None or one.high is None or one.noise is None:
            return UNKNOWN
        total += one.estimate / n_classes
        pairs = rest.sum() * own.sum() * n_classes
        gradient = np.concatenate([(kernel - one.estimate) @ own, (kernel - one.estimate).T @ rest]) / pairs
        slope[estimates.design.place(name)] = gradient
        width = (one.high - one.low) / 2
        sampled += math.sqrt(max(0.0, width**2 - one.noise**2)) / Z / n_classes
    return linearised(estimates, total, slope, sampled)


def _exact_area(pairs: list[tuple[Vector, NDArray[np.bool_]]], owners: Owners) -> Estimate:
    """Mean area under the ROC curves of some scores, with the standard error of Obuchowski (1997).

    Where every row is an owner of its own that is the error of DeLong, DeLong and Clarke-Pearson (1988).
    """
    weights, areas, moved = owners.parts / WHOLE, [], np.zeros(owners.n_rows)
    for scores, positive in pairs:
        if min(len(np.unique(owners.of[positive])), len(np.unique(owners.of[~positive]))) < 2:
            return UNKNOWN
        own, rest = weights * positive, weights * ~positive
        below, above = _below(scores, rest) / rest.sum(), 1 - _below(scores, own) / own.sum()
        areas.append(float(own @ below / own.sum()))
        moved += np.where(positive, (below - areas[-1]) / own.sum(), (above - areas[-1]) / rest.sum())
    n = owners.count
    error = math.sqrt(float(np.square(owners.means(moved / len(pairs))).sum()) * n / (n - 1))
    return around(float(np.mean(areas)), error, UNIT)


def _below(scores: Vector, weights: Vector) -> Vector:
    """The weight of what lies below each score, and half of what ties with it."""
    _, place = np.unique(scores, return_inverse=True)
    held = np.bincount(place.reshape(-1), weights=weights)
    return np.asarray((np.cumsum(held) - held / 2)[place.reshape(-1)])
