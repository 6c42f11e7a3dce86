"""Exact figures with ordinary intervals, for the owner of the rows alone: nothing here is private.

Rows of one person weigh as parts of one. Intervals take persons for independent, not their rows.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.classifying import Judged
from dperm.evaluation.intervals import UNIT, UNKNOWN, Figure, Z, bounded
from dperm.evaluation.owners import WHOLE, Owners
from dperm.evaluation.scales import MOST_AGAINST

Vector = NDArray[np.float64]


def exact_class_figures(rows: Judged, owners: Owners) -> dict[str, Figure]:
    """Those that histograms would only approximate: areas, and the losses without a cap."""
    found, n_classes = {}, 2 if rows.binary else rows.log_odds.shape[1]
    if rows.binary:
        found["auc"] = exact_area([(rows.log_odds, rows.labels == 1)], owners)
    elif n_classes <= MOST_AGAINST:
        chances = rows.log_chances
        found["auc"] = exact_area([(chances[:, k], rows.labels == k) for k in range(n_classes)], owners)
    if rows.has_probabilities:
        found["log_loss"] = exact_mean(rows.losses, owners, (0.0, math.inf))
        found["brier"] = exact_mean(rows.brier, owners)
    return found


def exact_area(pairs: list[tuple[Vector, NDArray[np.bool_]]], owners: Owners) -> Figure:
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
    return _around(float(np.mean(areas)), error, UNIT)


def exact_mean(values: Vector, owners: Owners, within: tuple[float, float] = UNIT) -> Figure:
    if owners.count < 2:
        return UNKNOWN
    means = owners.means(values)
    return _around(float(means.mean()), float(means.std(ddof=1)) / math.sqrt(len(means)), within)


def exact_regression_figures(predicted: Vector, targets: Vector, owners: Owners) -> dict[str, Figure]:
    """Of predictions and targets as they are, not cut off at the range."""
    errors, n = targets - predicted, owners.count
    spread = (targets - owners.means(targets).mean()) ** 2 if n else targets
    if n < 2 or not spread.any():
        return dict.fromkeys(("r2", "rmse", "mae"), UNKNOWN)
    lost = float(owners.means(errors**2).sum() / owners.means(spread).sum())
    gap, length = owners.means(errors**2 - lost * spread), owners.means(spread).mean()
    square = exact_mean(errors**2, owners, (0.0, math.inf))
    assert square.low is not None
    assert square.high is not None
    root = Figure(
        estimate=math.sqrt(square.estimate or 0.0),
        low=math.sqrt(square.low),
        high=math.sqrt(square.high),
        noise=0.0,
    )
    return {
        "r2": _around(1 - lost, float(gap.std() / length) / math.sqrt(n), (-math.inf, 1.0)),
        "rmse": root,
        "mae": exact_mean(np.abs(errors), owners, (0.0, math.inf)),
    }


def _below(scores: Vector, weights: Vector) -> Vector:
    """The weight of what lies below each score, and half of what ties with it."""
    _, place = np.unique(scores, return_inverse=True)
    held = np.bincount(place.reshape(-1), weights=weights)
    return np.asarray((np.cumsum(held) - held / 2)[place.reshape(-1)])


def _around(estimate: float, error: float, within: tuple[float, float]) -> Figure:
    return bounded(estimate, (estimate - Z * error, estimate + Z * error), 0.0, within)
