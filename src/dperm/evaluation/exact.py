"""Exact figures with ordinary intervals, for the owner of the rows alone: nothing here is private."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from dperm.evaluation.classifying import Judged
from dperm.evaluation.intervals import UNIT, UNKNOWN, Figure, Z, bounded

Vector = NDArray[np.float64]


def exact_class_figures(rows: Judged) -> dict[str, Figure]:
    """Those that histograms would only approximate: the area of two classes, and the losses without a cap."""
    found = {"auc": exact_area(rows.log_odds, rows.labels == 1)} if rows.binary else {}
    if rows.has_probabilities:
        found["log_loss"] = exact_mean(rows.losses, (0.0, math.inf))
        found["brier"] = exact_mean(rows.brier)
    return found


def exact_area(scores: Vector, positive: NDArray[np.bool_]) -> Figure:
    """Area under the ROC curve, with the standard error of DeLong, DeLong and Clarke-Pearson (1988)."""
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if min(n_positive, n_negative) < 2:
        return UNKNOWN
    ranks = rankdata(scores)
    below = (ranks[positive] - rankdata(scores[positive])) / n_negative
    above = 1 - (ranks[~positive] - rankdata(scores[~positive])) / n_positive
    error = math.sqrt(below.var(ddof=1) / n_positive + above.var(ddof=1) / n_negative)
    return _around(float(below.mean()), error, UNIT)


def exact_mean(values: Vector, within: tuple[float, float] = UNIT) -> Figure:
    if len(values) < 2:
        return UNKNOWN
    return _around(float(values.mean()), float(values.std(ddof=1)) / math.sqrt(len(values)), within)


def exact_regression_figures(predicted: Vector, targets: Vector) -> dict[str, Figure]:
    """Of predictions and targets as they are, not cut off at the range."""
    errors, n = targets - predicted, len(targets)
    spread = (targets - targets.mean()) ** 2
    if n < 2 or not spread.any():
        return dict.fromkeys(("r2", "rmse", "mae"), UNKNOWN)
    lost = float((errors**2).sum() / spread.sum())
    error = float((errors**2 - lost * spread).std()) / float(spread.mean()) / math.sqrt(n)
    square = exact_mean(errors**2, (0.0, math.inf))
    assert square.low is not None
    assert square.high is not None
    root = Figure(
        estimate=math.sqrt(square.estimate or 0.0),
        low=math.sqrt(square.low),
        high=math.sqrt(square.high),
        noise=0.0,
    )
    return {
        "r2": _around(1 - lost, error, (-math.inf, 1.0)),
        "rmse": root,
        "mae": exact_mean(np.abs(errors), (0.0, math.inf)),
    }


def _around(estimate: float, error: float, within: tuple[float, float]) -> Figure:
    return bounded(estimate, (estimate - Z * error, estimate + Z * error), 0.0, within)
