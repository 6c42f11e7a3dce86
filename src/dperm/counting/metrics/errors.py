"""R squared, RMSE and MAE of a regression, from moments of the target and of the error."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from dperm.counting.design import Owners
from dperm.counting.estimates import UNKNOWN, Estimate, Variance, ratio
from dperm.counting.metrics.base import (
    MeanScore,
    Metric,
    SearchFacts,
    ValidationRows,
    around,
    exact_mean,
    register_metric,
)
from dperm.counting.regression import MomentEstimates, PredictedTargets

Vector = NDArray[np.float64]

TARGET_KURTOSIS = 2.4
"""What fourth moments of targets are taken to be, at least, where noise drowns them: as of light tails."""
WIDEST = 2.0
POSITIVE = (0.0, math.inf)


@register_metric
class RSquared(Metric):
    """1 - squared errors / spread of the targets."""

    name, title = "r2", "R²"
    classifies = share = False

    def estimate(self, counts: MomentEstimates) -> Estimate:
        return _r2(counts) if counts.n > 0 else UNKNOWN

    def exact(self, rows: PredictedTargets, owners: Owners) -> Estimate:
        """Of predictions and targets as they are, not cut off at the range."""
        spread = _spread(rows, owners)
        if spread is None:
            return UNKNOWN
        squares = (rows.targets - rows.predicted) ** 2
        lost = float(owners.means(squares).sum() / owners.means(spread).sum())
        gap, length = owners.means(squares - lost * spread), owners.means(spread).mean()
        return around(1 - lost, float(gap.std() / length) / math.sqrt(owners.count), (-math.inf, 1.0))


class _Error(MeanScore, Metric):
    """Minus a mean error: predictions and targets are cut off at ``y_range``."""

    classifies = share = False
    power: int

    def numbers(self, rows: ValidationRows) -> Vector:
        return np.asarray(1 - rows.errors**self.power)

    def worst(self, facts: SearchFacts) -> float:
        assert facts.y_range is not None  # or the search had refused it
        low, high = facts.y_range
        return float((high - low) ** self.power)


@register_metric
class RootMeanSquaredError(_Error):
    """In a search minus its square, which orders models as R squared does."""

    name, title, scoring = "rmse", "RMSE", "neg_mean_squared_error"
    power = 2

    def estimate(self, counts: MomentEstimates) -> Estimate:
        if counts.n <= 0:
            return UNKNOWN
        return _root(_mean(counts, counts.vector(e2=1.0), counts.fourth), counts.longest)

    def exact(self, rows: PredictedTargets, owners: Owners) -> Estimate:
        if _spread(rows, owners) is None:
            return UNKNOWN
        return exact_mean((rows.targets - rows.predicted) ** 2, owners, POSITIVE).moved(math.sqrt, 0.0)


@register_metric
class MeanAbsoluteError(_Error):
    name, title, scoring = "mae", "MAE", "neg_mean_absolute_error"
    power = 1

    def estimate(self, counts: MomentEstimates) -> Estimate:
        if counts.n <= 0:
            return UNKNOWN
        return _mean(counts, counts.vector(size=1.0), counts.squares).times(counts.longest)

    def exact(self, rows: PredictedTargets, owners: Owners) -> Estimate:
        known = _spread(rows, owners) is not None
        return exact_mean(np.abs(rows.targets - rows.predicted), owners, POSITIVE) if known else UNKNOWN


def _spread(rows: PredictedTargets, owners: Owners) -> Vector | None:
    """Squared distances of the targets from their mean; None where there is nothing to compare errors with."""
    if owners.count < 2:
        return None
    spread = (rows.targets - owners.means(rows.targets).mean()) ** 2
    return np.asarray(spread) if spread.any() else None


def _mean(sums: MomentEstimates, vector: Vector, squares: float) -> Estimate:
    """Of numbers that are not negative; ``squares`` is the sum of their squares, which is taken to grow with the mean.

    So it does where a few large numbers make most of both, and the interval then reaches further up than down.
    """
    total = float(vector @ sums.counts.mean)
    noise = sums.noise(vector, sums.vector(n=1.0))
    if total <= 0:
        return UNKNOWN
    variance = Variance(float(noise[0, 0]), float(noise[0, 1]), float(noise[1, 1]))
    spread = max(squares, total**2 / sums.n) * sums.n / total
    return ratio(total, sums.n, variance, Variance(0.0, -spread / 2, -sums.n))


def _r2(sums: MomentEstimates) -> Estimate:
    """Both are sums of squares; the spread is around the mean, whose noise is taken off."""
    unit = (2 * sums.longest / sums.length) ** 2  # the square of an error of 1 in units of the target
    centre = sums.value(t=1.0) / sums.n
    about = sums.vector(t=1.0, n=-centre)
    bias = float(sums.noise(about)[0, 0]) / sums.n
    errors, spread = sums.vector(e2=unit), sums.vector(t2=1.0, t=-2 * centre, n=centre**2)
    top, bottom = sums.value(e2=unit), sums.value(t2=1.0, t=-2 * centre, n=centre**2) + bias
    if top <= 0 or bottom <= 0:
        return UNKNOWN
    noise = sums.noise(errors, spread)
    variance = Variance(float(noise[0, 0]), float(noise[0, 1]), float(noise[1, 1]) + 2 * bias**2)
    found = ratio(
        top,
        bottom,
        variance,
        _sampling(sums, centre, bottom / sums.n, unit),
        POSITIVE,
    )
    if found.estimate is None or found.low is None or found.high is None or found.high - found.low > WIDEST:
        return UNKNOWN
    return Estimate(estimate=1 - found.estimate, low=1 - found.high, high=1 - found.low, noise=found.noise)


def _sampling(sums: MomentEstimates, centre: float, spread: float, unit: float) -> Variance:
    """Sums of squares and products of the errors' and the targets' squares."""
    mean_square = sums.squares / sums.n
    likely = sums.n * mean_square * (spread + 2 * unit * mean_square)
    both = sums.believed(likely, -1.0, e2t2=1.0, e2t=-2 * centre, e2=centre**2)
    targets = sums.believed(
        TARGET_KURTOSIS * spread**2 * sums.n,
        1.0,
        t4=1.0,
        t3=-4 * centre,
        t2=6 * centre**2,
        t=-4 * centre**3,
        n=centre**4,
    )
    top = unit**2 * sums.fourth
    return Variance(top, min(unit * both, math.sqrt(top * targets)), targets)


def _root(square: Estimate, length: float) -> Estimate:
    """The root of a mean square, in units of the target."""
    if square.estimate is None or square.noise is None or square.estimate <= 0:
        return UNKNOWN
    noise = length * square.noise / (2 * math.sqrt(square.estimate))
    return square.moved(lambda value: length * math.sqrt(value), noise)
