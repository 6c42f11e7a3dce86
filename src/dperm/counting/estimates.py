"""Estimates with intervals that know both the sampling of rows and the noise, from the released vector. No row is read.

Counts are made consistent by least squares. A metric is a ratio of them, the root of top - theta * bottom, and its
interval is that of Fieller (1954): every theta at which that difference is within 1.96 of its own standard deviations
from 0. No division by a noisy number is linearised, so the interval stays honest where the noise of the denominator is
large; where it would have no end, there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm.counting.design import Design

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

LEVEL = 0.95
Z = float(ndtri(0.5 + LEVEL / 2))
CLEAR = 3.0
"""Standard deviations of its noise that a denominator must lie above 0; below, a ratio says nothing."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimate and its 95 % interval; all None where the noise leaves nothing to say.

    ``noise`` is half the width that the interval would have from the noise alone, 0 for exact values.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None

    @property
    def known(self) -> bool:
        return self.estimate is not None

    def moved(self, to: Callable[[float], float], noise: float) -> Estimate:
        """The estimate and its ends after a rising function; ``noise`` is what becomes of the noise."""
        if self.estimate is None or self.low is None or self.high is None:
            return UNKNOWN
        return Estimate(estimate=to(self.estimate), low=to(self.low), high=to(self.high), noise=noise)

    def times(self, factor: float) -> Estimate:
        """The estimate in other units."""
        return self.moved(lambda value: factor * value, factor * (self.noise or 0.0))

    def to_dict(self) -> dict[str, float | None]:
        return {"estimate": self.estimate, "low": self.low, "high": self.high, "noise": self.noise}


@dataclass(frozen=True)
class Variance:
    """Of top - theta * bottom: ``top`` - 2 theta ``both`` + theta**2 ``bottom``."""

    top: float = 0.0
    both: float = 0.0
    bottom: float = 0.0

    def at(self, theta: float) -> float:
        return self.top - 2 * theta * self.both + theta**2 * self.bottom

    def __add__(self, other: Variance) -> Variance:
        return Variance(self.top + other.top, self.both + other.both, self.bottom + other.bottom)


UNKNOWN = Estimate()
UNIT = (0.0, 1.0)


def ratio(
    top: float,
    bottom: float,
    noise: Variance,
    sampling: Variance,
    within: tuple[float, float] = UNIT,
    unseen: float = 0.0,
) -> Estimate:
    """The estimate of top / bottom. ``within`` are the ends of what it can be, ``unseen`` a variance of the top."""
    if bottom <= CLEAR * math.sqrt(max(0.0, noise.bottom)):
        return UNKNOWN
    raw = top / bottom
    guess = min(max(raw, within[0]), within[1])
    if sampling.at(guess) < 0:  # estimated, and drowned by noise
        sampling = Variance()
    whole = noise + sampling + Variance(top=unseen)
    found = _roots(
        bottom**2 - Z**2 * whole.bottom, top * bottom - Z**2 * whole.both, top**2 - Z**2 * whole.top
    )
    if found is None:
        return UNKNOWN
    reach = Z * math.sqrt(max(0.0, noise.at(guess))) / bottom
    if (
        guess != raw
    ):  # noise carried it out of what is possible: what is left of the interval may not be narrow
        found = min(found[0], guess - reach), max(found[1], guess + reach)
    return bounded(guess, found, reach, within)


def bounded(
    estimate: float, interval: tuple[float, float], noise: float, within: tuple[float, float] = UNIT
) -> Estimate:
    """The estimate with both ends inside of what is possible; unknown if nothing is left, or nothing was excluded."""
    low, high = max(interval[0], within[0]), min(interval[1], within[1])
    if low > high or not math.isfinite(estimate) or (low == within[0] and high == within[1]):
        return UNKNOWN
    return Estimate(
        estimate=float(min(max(estimate, low), high)), low=float(low), high=float(high), noise=float(noise)
    )


def _roots(a: float, b: float, c: float) -> tuple[float, float] | None:
    """Where a x**2 - 2 b x + c <= 0, if that is an interval."""
    inside = b**2 - a * c
    if a <= 0 or inside < 0:
        return None
    return (b - math.sqrt(inside)) / a, (b + math.sqrt(inside)) / a


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the true counts satisfy: ``left`` @ counts = ``right``, such as that all histograms count the same rows."""

    left: Matrix
    right: Vector


def no_constraints(design: Design) -> Constraints:
    return Constraints(np.zeros((0, design.size)), np.zeros(0))


@dataclass(frozen=True, eq=False)
class CountEstimates:
    """Least-squares estimates of the counts under the constraints, in units of rows.

    ``variance`` is that of the noise on each released number, ``mean`` the estimate. The noise of the estimate is
    Gaussian, with the covariance that :meth:`covariance` gives, and the estimate is unbiased.
    """

    design: Design
    mean: Vector
    variance: Vector
    constraints: Constraints

    @classmethod
    def of(
        cls, design: Design, released: Vector, noise_scale: float, constraints: Constraints
    ) -> CountEstimates:
        """``noise_scale`` is that of each released number; 0 for exact counts."""
        raw, variance = released / design.weights, (noise_scale / design.weights) ** 2
        found = cls(design, raw, variance, constraints)
        if noise_scale == 0 or len(constraints.right) == 0:
            return found
        gap = constraints.left @ raw - constraints.right
        moved = variance * (constraints.left.T @ (found._inverse @ gap))
        return cls(design, raw - moved, variance, constraints)

    def part(self, name: str) -> Vector:
        return self.mean[self.design.place(name)]

    def among(self, name: str, vectors: NDArray[Any]) -> Matrix:
        """Vectors over one part as vectors over the whole."""
        whole = np.zeros((len(vectors), self.design.size))
        whole[:, self.design.place(name)] = vectors
        return whole

    def covariance(self, vectors: Matrix) -> Matrix:
        """Of the noise of ``vectors`` @ mean."""
        weighed = vectors * self.variance
        plain = weighed @ vectors.T
        if len(self.constraints.right) == 0 or not self.variance.any():
            return np.asarray(plain)
        met = weighed @ self.constraints.left.T
        found = np.asarray(plain - met @ self._inverse @ met.T)
        np.fill_diagonal(found, np.maximum(np.diag(found), 0.0))  # what is public has none, up to rounding
        return found

    @cached_property
    def _inverse(self) -> Matrix:
        left = self.constraints.left
        return np.asarray(np.linalg.pinv((left * self.variance) @ left.T, hermitian=True))


def cell_ratio(counts: CountEstimates, name: str, top: NDArray[Any], bottom: NDArray[Any]) -> Estimate:
    """(top @ cells) / (bottom @ cells) of one histogram."""
    top, bottom = top.astype(np.float64), bottom.astype(np.float64)
    cells = counts.part(name)
    noise = counts.covariance(counts.among(name, np.stack([top, bottom])))
    if np.isin(top, (0.0, 1.0)).all() and (top * bottom == top).all() and (bottom * bottom == bottom).all():
        part = float(cells @ bottom)
        sampling = Variance(0.0, -part / 2, -part)  # a share theta of so many varies by theta (1 - theta)
    else:
        sampling = Variance(float(cells @ top**2), float(cells @ (top * bottom)), float(cells @ bottom**2))
    return ratio(float(cells @ top), float(cells @ bottom), _variance(noise), sampling)


def mean(counts: CountEstimates, sum_at: Vector, count_at: Vector, squares: float) -> Estimate:
    """A sum over a count, as vectors over all numbers; ``squares`` is the estimated sum of squares of the summands."""
    total, n = float(sum_at @ counts.mean), float(count_at @ counts.mean)
    noise = counts.covariance(np.stack([sum_at, count_at]))
    return ratio(total, n, _variance(noise), Variance(squares, total, n))


def area(counts: CountEstimates, name: str, bins: int) -> Estimate:
    """The area under the ROC curve of a histogram of two groups.

    Nothing is known of the order inside of a bin. The share of its pairs that are in the right one is taken to lie
    anywhere from 0 to 1, bin by bin, which has a variance of 1/12.
    """
    together = np.prod(np.maximum(counts.part(name), 0.0).reshape(2, bins), axis=0)
    return order_ratio(counts, name, area_kernel(bins), float(together @ together) / 12)


def order_ratio(counts: CountEstimates, name: str, kernel: Matrix, unseen: float = 0.0) -> Estimate:
    """Share of pairs, of one row of each of two groups, weighed by ``kernel``: cells are those of both groups.

    ``unseen`` is the variance of the weighed number of pairs that neither noise nor the choice of the rows brings.

    The numbers of pairs are products of noisy counts. Expectations and variances of such products are known exactly
    for Gaussian noise, and what noise adds to them is taken off (docs/proofs/evaluation.md).
    """
    cells = counts.part(name)
    noise = counts.covariance(counts.among(name, np.eye(len(cells))))
    top, bottom = _pairs(kernel), _pairs(np.ones_like(kernel))

    def expected(form: Matrix) -> float:
        return float(cells @ form @ cells - np.trace(form @ noise))

    def spread(one: Matrix, other: Matrix) -> float:
        pure = float(np.trace(one @ noise @ other @ noise))
        return max(
            float(4 * (cells @ one @ noise @ other @ cells)) - 2 * pure, 2 * pure if one is other else -np.inf
        )

    def sampled(one: Matrix, other: Matrix) -> float:
        here, there = 2 * one @ cells, 2 * other @ cells
        added = 4 * cells @ np.diag(one @ noise @ other)
        added += here @ (2 * np.diag(other @ noise)) + there @ (2 * np.diag(one @ noise))
        return float(cells @ (here * there) - added)

    return ratio(
        expected(top), expected(bottom), _of(spread, top, bottom), _of(sampled, top, bottom), UNIT, unseen
    )


def area_kernel(bins: int) -> Matrix:
    """Chances that a score of one bin exceeds one of another, rows for the lower group.

    Within a bin ties would count a half. The terms next to the diagonal follow from densities that change linearly from
    bin to bin, and undo most of what binning takes off.
    """
    kernel = np.triu(np.ones((bins, bins)), 1) + 0.5 * np.eye(bins)
    if bins > 2:
        kernel += (np.eye(bins, k=1) - np.eye(bins, k=-1)) / 12
    return kernel


def _pairs(kernel: Matrix) -> Matrix:
    """The symmetric form whose value at the cells of both groups is first @ kernel @ second."""
    nothing = np.zeros_like(kernel)
    return np.block([[nothing, kernel / 2], [kernel.T / 2, nothing]])


def _of(pair: Callable[[Matrix, Matrix], float], top: Matrix, bottom: Matrix) -> Variance:
    return Variance(pair(top, top), pair(top, bottom), pair(bottom, bottom))


def _variance(matrix: Matrix) -> Variance:
    return Variance(float(matrix[0, 0]), float(matrix[0, 1]), float(matrix[1, 1]))


def linearised(counts: CountEstimates, estimate: float, slope: Vector, sampling: float) -> Estimate:
    """Of a smooth function of the counts with this ``slope``; ``sampling`` is its deviation by the choice of rows."""
    noise = math.sqrt(max(0.0, float(counts.covariance(slope[None])[0, 0])))
    width = Z * math.hypot(noise, sampling)
    return bounded(estimate, (estimate - width, estimate + width), Z * noise)
