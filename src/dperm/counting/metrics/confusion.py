"""Metrics of the confusion matrix: accuracy, balanced accuracy, precision, recall and F1."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.counting.classification import CONFUSION, ClassCounts
from dperm.counting.design import Integers
from dperm.counting.estimates import CLEAR, UNKNOWN, Estimate, linearised, order_ratio
from dperm.counting.metrics.base import (
    CountScore,
    EdgeCounts,
    MeanScore,
    Metric,
    SearchFacts,
    ValidationRows,
    register_metric,
)

Vector = NDArray[np.float64]


@register_metric
class Accuracy(MeanScore, Metric):
    """Share of the rows that are predicted right."""

    name = title = scoring = "accuracy"

    def estimate(self, counts: ClassCounts) -> Estimate:
        label, predicted = counts.cells
        return counts.share(label == predicted)

    def numbers(self, rows: ValidationRows) -> Vector:
        return np.asarray(rows.right, np.float64)

    def at_edges(self, edges: EdgeCounts) -> Vector:
        return edges.caught - edges.alarms


@register_metric
class BalancedAccuracy(CountScore, Metric):
    """The mean over the classes of the share of its rows that are predicted right."""

    name = scoring = "balanced_accuracy"
    title = "balanced accuracy"

    def estimate(self, counts: ClassCounts) -> Estimate:
        """Of two classes a share of pairs, of more by a linear approximation in the counts."""
        estimates, n_classes = counts.counts, counts.n_classes
        if n_classes == 2:
            return order_ratio(estimates, CONFUSION, np.array([[0.5, 1.0], [0.0, 0.5]]))
        cells = estimates.part(CONFUSION).reshape(n_classes, n_classes)
        sizes = cells.sum(axis=1)
        of_label = np.kron(np.eye(n_classes), np.ones(n_classes))
        noise = np.sqrt(np.diag(estimates.covariance(estimates.among(CONFUSION, of_label))))
        if (sizes <= CLEAR * noise).any():
            return UNKNOWN
        recalls = np.diag(cells) / sizes
        slope = ((np.eye(n_classes) - recalls[:, None]) / (n_classes * sizes[:, None])).ravel()
        sampling = math.sqrt(max(0.0, float(cells.ravel() @ slope**2)))
        whole = estimates.among(CONFUSION, slope[None])[0]
        return linearised(estimates, float(recalls.mean()), whole, sampling)

    def n_sums(self, facts: SearchFacts) -> int:
        return 2 * (facts.n_classes or 2)

    def cells(self, rows: ValidationRows, facts: SearchFacts) -> Integers:
        return np.asarray(rows.labels + (facts.n_classes or 2) * rows.right)

    def score(self, sums: Vector, noise: float, facts: SearchFacts) -> float:
        wrong, right = sums.reshape(2, -1)
        return float(np.clip(right / np.maximum(right + wrong, noise), 0.0, 1.0).mean())

    def at_edges(self, edges: EdgeCounts) -> Vector:
        recall, specificity = edges.caught / edges.wanted, 1 - edges.alarms / edges.unwanted
        return np.clip(recall, 0, None) + np.clip(specificity, 0, None)


@register_metric
class Precision(Metric):
    """Share of the rows predicted positive that are."""

    name = title = "precision"
    of_positive = True

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        label, predicted = counts.cells
        return counts.share(label * predicted == 1, predicted == 1) if counts.n_classes == 2 else None

    def at_edges(self, edges: EdgeCounts) -> Vector:
        return edges.caught / np.maximum(edges.caught + edges.alarms, edges.least)


@register_metric
class Recall(Metric):
    """Share of the positive rows that are predicted so."""

    name = title = "recall"
    of_positive = True

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        label, predicted = counts.cells
        return counts.share(label * predicted == 1, label == 1) if counts.n_classes == 2 else None

    def at_edges(self, edges: EdgeCounts) -> Vector:
        return np.clip(edges.caught / edges.wanted, 0, None)


@register_metric
class F1(Metric):
    """The harmonic mean of precision and recall."""

    name = "f1"
    title = "F1 score"
    of_positive = True

    def estimate(self, counts: ClassCounts) -> Estimate | None:
        if counts.n_classes != 2:
            return None
        label, predicted = counts.cells
        return counts.share(2 * (label * predicted), label + predicted)

    def at_edges(self, edges: EdgeCounts) -> Vector:
        return 2 * edges.caught / np.maximum(edges.wanted + edges.caught + edges.alarms, edges.least)
