"""Figures of a classifier from the estimated counts: accuracy, rates, areas, losses. Nothing here sees a row."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.classifying import CONFUSION, LOSS_SUMS, LOSSES, loss_cap
from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import CLEAR, UNKNOWN, Figure, Z, bounded
from dperm.evaluation.ratios import area, area_kernel, cell_ratio, mean, order_ratio
from dperm.evaluation.scales import AGAINST, SCORES

Vector = NDArray[np.float64]


def class_figures(counts: Estimates, n_classes: int, bins: int) -> dict[str, Figure]:
    """Every single figure, in the order in which they are shown."""
    labels, predicted = np.divmod(np.arange(n_classes**2), n_classes)
    everywhere = np.ones(n_classes**2)
    found = {
        "accuracy": cell_ratio(counts, CONFUSION, 1.0 * (labels == predicted), everywhere),
        "balanced_accuracy": _balanced(counts, n_classes),
    }
    if n_classes == 2:
        right, called, true = (labels * predicted == 1) * 1.0, 1.0 * (predicted == 1), 1.0 * (labels == 1)
        found["precision"] = cell_ratio(counts, CONFUSION, right, called)
        found["recall"] = cell_ratio(counts, CONFUSION, right, true)
        found["f1"] = cell_ratio(counts, CONFUSION, 2 * right, called + true)
        found["auc"] = area(counts, SCORES, bins)
    elif counts.design.has(f"{AGAINST} 0"):
        found["auc"] = _mean_area(counts, n_classes, bins)
    if counts.design.has(LOSSES):
        found |= _losses(counts, n_classes)
    return found


def rates(counts: Estimates, n_classes: int) -> list[dict[str, Figure]]:
    """Recall and precision of each class."""
    labels, predicted = np.divmod(np.arange(n_classes**2), n_classes)
    return [
        {
            "recall": cell_ratio(counts, CONFUSION, (labels == k) & (predicted == k), labels == k),
            "precision": cell_ratio(counts, CONFUSION, (labels == k) & (predicted == k), predicted == k),
        }
        for k in range(n_classes)
    ]


def confusion(counts: Estimates, n_classes: int) -> list[list[Figure]]:
    """The share of all rows in each cell, a line for every true label."""
    everywhere = np.ones(n_classes**2)
    cells = [
        cell_ratio(counts, CONFUSION, 1.0 * (np.arange(n_classes**2) == cell), everywhere)
        for cell in range(n_classes**2)
    ]
    return [cells[n_classes * k : n_classes * (k + 1)] for k in range(n_classes)]


def _balanced(counts: Estimates, n_classes: int) -> Figure:
    """Mean of the recalls: of two classes a share of pairs, of more by a linear approximation in the counts."""
    if n_classes == 2:
        return order_ratio(counts, CONFUSION, np.array([[0.5, 1.0], [0.0, 0.5]]))
    cells = counts.part(CONFUSION).reshape(n_classes, n_classes)
    sizes = cells.sum(axis=1)
    of_label = np.kron(np.eye(n_classes), np.ones(n_classes))
    noise = np.sqrt(np.diag(counts.covariance(counts.among(CONFUSION, of_label))))
    if (sizes <= CLEAR * noise).any():
        return UNKNOWN
    recalls = np.diag(cells) / sizes
    slope = ((np.eye(n_classes) - recalls[:, None]) / (n_classes * sizes[:, None])).ravel()
    sampling = max(0.0, float(cells.ravel() @ slope**2))
    return _linear(
        counts, float(recalls.mean()), counts.among(CONFUSION, slope[None])[0], math.sqrt(sampling)
    )


def _mean_area(counts: Estimates, n_classes: int, bins: int) -> Figure:
    """The mean over the classes of the area of each against the rest.

    How areas of different classes go together among the same rows is not counted; their standard deviations are added,
    which is never too little.
    """
    kernel, slope, total, sampled = area_kernel(bins), np.zeros(counts.design.size), 0.0, 0.0
    for k in range(n_classes):
        name = f"{AGAINST} {k}"
        one = area(counts, name, bins)
        rest, own = np.split(counts.part(name), 2)
        if one.estimate is None or one.low is None or one.high is None or one.noise is None:
            return UNKNOWN
        total += one.estimate / n_classes
        pairs = rest.sum() * own.sum() * n_classes
        gradient = np.concatenate([(kernel - one.estimate) @ own, (kernel - one.estimate).T @ rest]) / pairs
        slope[counts.design.place(name)] = gradient
        width = (one.high - one.low) / 2
        sampled += math.sqrt(max(0.0, width**2 - one.noise**2)) / Z / n_classes
    return _linear(counts, total, slope, sampled)


def _linear(counts: Estimates, estimate: float, slope: Vector, sampling: float) -> Figure:
    noise = math.sqrt(max(0.0, float(counts.covariance(slope[None])[0, 0])))
    width = Z * math.hypot(noise, sampling)
    return bounded(estimate, (estimate - width, estimate + width), Z * noise)


def _losses(counts: Estimates, n_classes: int) -> dict[str, Figure]:
    """Log loss and Brier score: a sum over the number of rows each."""
    place, n_sums = counts.design.place(LOSSES), len(LOSS_SUMS)
    everyone = counts.among(CONFUSION, np.ones((1, n_classes**2)))[0]
    n = max(1.0, float(everyone @ counts.mean))
    found = []
    for k in range(0, n_sums, 2):
        total, squares = counts.mean[place.start + k : place.start + k + 2]
        # Numbers from 0 to 1 have squares that sum to no more than they do, and no less than their mean allows.
        held = min(max(float(squares), max(0.0, float(total)) ** 2 / n), max(0.0, float(total)))
        found.append(mean(counts, counts.among(LOSSES, np.eye(n_sums)[k : k + 1])[0], everyone, held))
    log_loss, brier = found
    return {"log_loss": log_loss.times(loss_cap(n_classes)), "brier": brier}
