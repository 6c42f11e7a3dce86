"""Figures that are ratios of sums, or of products of sums, over the cells of a histogram."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import UNIT, Figure, Variance, ratio

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


def cell_ratio(counts: Estimates, name: str, top: NDArray[Any], bottom: NDArray[Any]) -> Figure:
    """(top @ cells) / (bottom @ cells) of one histogram."""
    top, bottom = top.astype(np.float64), bottom.astype(np.float64)
    cells = counts.part(name)
    noise = counts.covariance(counts.among(name, np.stack([top, bottom])))
    if np.isin(top, (0.0, 1.0)).all() and (top * bottom == top).all() and (bottom * bottom == bottom).all():
        part = float(cells @ bottom)
        sampling = Variance(
            0.0, -part / 2, -part
        )  # a share theta of so many rows varies by theta (1 - theta)
    else:
        sampling = Variance(float(cells @ top**2), float(cells @ (top * bottom)), float(cells @ bottom**2))
    return ratio(float(cells @ top), float(cells @ bottom), _variance(noise), sampling)


def mean(counts: Estimates, sum_at: Vector, count_at: Vector, squares: float) -> Figure:
    """A sum over a count, as vectors over all numbers; ``squares`` is the estimated sum of squares of the summands."""
    total, n = float(sum_at @ counts.mean), float(count_at @ counts.mean)
    noise = counts.covariance(np.stack([sum_at, count_at]))
    return ratio(total, n, _variance(noise), Variance(squares, total, n))


def area(counts: Estimates, name: str, bins: int) -> Figure:
    """The area under the ROC curve of a histogram of two groups.

    Nothing is known of the order inside of a bin. The share of its pairs that are in the right one is taken to lie
    anywhere from 0 to 1, bin by bin, which has a variance of 1/12.
    """
    together = np.prod(np.maximum(counts.part(name), 0.0).reshape(2, bins), axis=0)
    return order_ratio(counts, name, area_kernel(bins), float(together @ together) / 12)


def order_ratio(counts: Estimates, name: str, kernel: Matrix, unseen: float = 0.0) -> Figure:
    """Share of pairs, of one row of each of two groups, weighed by ``kernel``: cells are those of both groups.

    ``unseen`` is the variance of the weighed number of pairs that neither noise nor the choice of the rows brings.

    The numbers of pairs are products of noisy counts. Expectations and variances of such products are known exactly
    for Gaussian noise, and what noise adds to them is taken off (docs/proofs/evaluation.md).
    """
    cells, noise = counts.part(name), counts.covariance_of(name)
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
