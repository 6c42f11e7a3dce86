"""Precision, recall and F1 of the positive one of two classes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dperm.counting.classification import ClassCounts
from dperm.counting.estimates import Estimate
from dperm.counting.metrics.base import EdgeCounts, Metric, register_metric

Vector = NDArray[np.float64]


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
