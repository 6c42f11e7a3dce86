"""All estimates of an evaluation from the released vector: metrics, confusion matrix, ROC curve and calibration."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.counting.bins import CONFIDENCE, SCORES, ScoreBins
from dperm.counting.classification import CONFUSION, ClassCounts, Classification
from dperm.counting.estimates import CountEstimates, Estimate, Z, cell_ratio
from dperm.counting.metrics import registered_metrics
from dperm.counting.regression import ROWS, Regression

Vector = NDArray[np.float64]
Task = Classification | Regression

MOST_POINTS = 10
FEWEST_ROWS = 20.0
NOISES = 4.0


@dataclass(frozen=True, kw_only=True)
class RocPoint:
    """Rates at one threshold, on the probability of the positive class."""

    threshold: float
    false_positive_rate: Estimate
    true_positive_rate: Estimate


@dataclass(frozen=True, kw_only=True)
class CalibrationGroup:
    """Rows with a chance between ``low`` and ``high``, ``predicted`` on average, and the share of which it came true.

    The average takes each row for the middle of its bin.
    """

    low: float
    high: float
    predicted: float
    share_of_rows: Estimate
    observed: Estimate


def estimated(task: Task, released: Vector, noise_scale: float, n_rows: int | None) -> dict[str, Any]:
    """Metrics and curves by the names that ``Evaluation`` has for them. ``n_rows`` is None where it is private.

    It is the number of persons where they are counted, as in all that follows.
    """
    counts = task.estimates(released, noise_scale, n_rows)
    classifies = isinstance(task, Classification)
    metrics = {
        name: metric.estimate(counts)
        for name, metric in registered_metrics().items()
        if metric.classifies is classifies
    }
    found: dict[str, Any] = {
        "metrics": {name: estimate for name, estimate in metrics.items() if estimate is not None}
    }
    if isinstance(task, Classification) and isinstance(counts, ClassCounts):
        found |= {
            "confusion": confusion(counts),
            "rates": rates(counts),
            "roc": roc(counts.counts, task.bins) if task.n_classes == 2 else [],
            "calibration": calibration(counts.counts, task.bins, task.n_classes)
            if task.has_probabilities
            else [],
        }
    if n_rows is None:
        found["row_count"] = _row_count(counts.counts, CONFUSION if classifies else ROWS)
    return found


def _row_count(counts: CountEstimates, name: str) -> Estimate:
    """The number of rows, where it is private."""
    total = np.ones(len(counts.part(name)))
    estimate = max(0.0, float(counts.part(name) @ total))
    noise = Z * math.sqrt(float(counts.covariance(counts.among(name, total[None]))[0, 0]))
    return Estimate(estimate=estimate, low=max(0.0, estimate - noise), high=estimate + noise, noise=noise)


def rates(counts: ClassCounts) -> list[dict[str, Estimate]]:
    """Recall and precision of each class."""
    label, predicted = counts.cells
    return [
        {
            "recall": counts.share((label == k) & (predicted == k), label == k),
            "precision": counts.share((label == k) & (predicted == k), predicted == k),
        }
        for k in range(counts.n_classes)
    ]


def confusion(counts: ClassCounts) -> list[list[Estimate]]:
    """The share of all rows in each cell, a line for every true label."""
    n_classes = counts.n_classes
    cells = [counts.share(np.arange(n_classes**2) == cell) for cell in range(n_classes**2)]
    return [cells[n_classes * k : n_classes * (k + 1)] for k in range(n_classes)]


def roc(counts: CountEstimates, bins: ScoreBins) -> list[RocPoint]:
    """A point for each inner edge, from the highest threshold down."""
    label, place = np.divmod(np.arange(2 * bins.count), bins.count)
    ends = bins.limits(SCORES)
    return [
        RocPoint(
            threshold=float(ends[edge]),
            false_positive_rate=cell_ratio(
                counts, SCORES, 1.0 * ((label == 0) & (place >= edge)), 1.0 * (label == 0)
            ),
            true_positive_rate=cell_ratio(
                counts, SCORES, 1.0 * ((label == 1) & (place >= edge)), 1.0 * (label == 1)
            ),
        )
        for edge in range(bins.count - 1, 0, -1)
    ]


def calibration(counts: CountEstimates, score_bins: ScoreBins, n_classes: int) -> list[CalibrationGroup]:
    """Neighbouring bins are joined until a group holds clearly more rows than noise."""
    name = SCORES if counts.design.has(SCORES) else CONFIDENCE
    bins = score_bins.count
    label, place = np.divmod(np.arange(2 * bins), bins)
    ends, groups = score_bins.limits(name), []
    if name == CONFIDENCE:
        ends = np.maximum(ends, 1 / n_classes)  # the chance of the likeliest class is no smaller
    rows = np.maximum(counts.part(name).reshape(2, bins).sum(axis=0), 0.0)
    sums = rows * (ends[1:] + ends[:-1]) / 2
    for first, last in _joined(counts, name, bins):
        here = (place >= first) & (place < last)
        groups.append(
            CalibrationGroup(
                low=float(ends[first]),
                high=float(ends[last]),
                predicted=float(sums[first:last].sum() / max(rows[first:last].sum(), 1e-9)),
                share_of_rows=cell_ratio(counts, name, 1.0 * here, np.ones(2 * bins)),
                observed=cell_ratio(counts, name, 1.0 * (here & (label == 1)), 1.0 * here),
            )
        )
    return groups


def _joined(counts: CountEstimates, name: str, bins: int) -> list[tuple[int, int]]:
    """First bin and the one after the last, of each group."""
    rows = counts.part(name).reshape(2, bins).sum(axis=0)
    groups, first = [], 0
    for last in range(1, bins + 1):
        here = np.tile((np.arange(bins) >= first) & (np.arange(bins) < last), 2)
        noise = counts.covariance(counts.among(name, 1.0 * here[None]))[0, 0] ** 0.5
        enough = max(FEWEST_ROWS, NOISES * noise, rows.sum() / MOST_POINTS / 2)
        if rows[first:last].sum() >= enough:
            groups.append((first, last))
            first = last
    if first < bins:  # what is left joins the last group
        start = groups.pop()[0] if groups else 0
        groups.append((start, bins))
    return groups
