r"""What can be said about weights that a file does not hold, from its settings and its noise.

Some sensitivities follow the weights at a step. The file states them but not the weights, so they cannot be computed
anew. Two things can: how far weights can get at most, which bounds the allowances for rounding; and how near to a
place fixed beforehand fresh noise can leave them. Noise N(0, s^2 I) puts a vector into a given ball with a chance
that is largest when the ball lies around its centre (Anderson 1955), so whoever states a sensitivity that belongs to
weights closer than noise ever leaves them is found out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import gammainc, gammaincc

from dperm.certificate.constants import at_all_steps
from dperm.certificate.routes.evidence import Evidence, Release

Vector = NDArray[np.float64]

UNLIKELY = 1e-9  # an honest file is refused with at most this chance
LARGEST_NOISE = (
    16.0  # standard deviations beyond the root of the dimension, exceeded with a chance below 1e-55
)
_GRID = 1e-5  # grid of the noise over its scale, at most: docs/proofs/noise.md
_NEGLIGIBLE = 1e-6  # of a sensitivity
_MOST_STEPS = 4000


def check_not_too_near(
    evidence: Evidence, near: Sequence[float], noise: Sequence[float], dimension: int
) -> None:
    """Refuse weights that are within ``near`` of places fixed before noise of these scales fell on them.

    The chance of each is at most that of a chi-squared variable, given all before; Fisher's method joins them.
    """
    if not near:
        return
    reach = np.asarray(near, float) / np.asarray(noise, float) + _GRID
    chance = np.maximum(gammainc(dimension / 2, np.minimum(reach, 1e9) ** 2 / 2), 1e-300)
    together = float(gammaincc(len(chance), -np.log(chance).sum()))
    if together < UNLIKELY:
        evidence.faults.append(
            "releases, sensitivity: those stated belong to weights closer together than the noise leaves them, "
            f"but for a chance of {together:.2g}"
        )


def check_rounding(
    evidence: Evidence, release: Release, exact: float, weights: float, allowance: Callable[[int], float]
) -> None:
    """A sum at weights of at most this norm: its exact sensitivity and an allowance for rounding.

    The allowance follows the norm of the weights. Where it can matter it is said not to be checked.
    """
    expected = [exact + error for error in at_all_steps(allowance)]
    evidence.one_of("releases, sensitivity", release.sensitivity, expected)
    step = evidence.facts.step_at(weights)
    if step is None or allowance(step) > expected[0] - exact + _NEGLIGIBLE * exact:
        evidence.not_checked.append(
            "the allowance for rounding in sums over the rows, which follows the norm of the weights"
        )


def largest_pull(release: Release, rows: float, row: float) -> float:
    """Norm that a released sum of so many rows can have."""
    noise = (math.sqrt(release.dimension) + LARGEST_NOISE) * release.noise_scale
    return rows * row + noise


def farthest(
    pull: float, steps: int, step_size: float, l2: float, momentum: float = 0.0, halved: bool = False
) -> float:
    """Norm that weights can reach from zero by steps on mean gradients of at most ``pull``, plus the regulariser.

    ``halved`` steps have half their size from the middle on.
    """
    if steps > _MOST_STEPS:
        return math.inf
    left, velocity = np.zeros(steps), np.zeros(steps)  # the mark that a unit gradient at each step has left
    largest = 0.0
    for t in range(steps):
        velocity = momentum * velocity + l2 * left
        velocity[t] += 1
        left = left - (step_size / 2 if halved and 2 * t >= steps else step_size) * velocity
        largest = max(largest, float(np.abs(left).sum()))
        if largest > 1e15:
            return math.inf
    return pull * largest


def margin_of_gradient_gap(gap: ArrayLike, rows: int) -> Vector:
    r"""Norm of the weights at which logistic gradients, for rows of norm 1, move by ``gap``: docs/proofs/dp-gd.md.

    Two gradients are :math:`\max_a 2\sqrt{1-a^2}\,\sigma(sa)` apart. At the best a, with t = sa,
    :math:`a^2/(1-a^2) = t\,\sigma(-t)`, so that :math:`s^2 = t^2 + t(1+e^t)` and the gap is
    :math:`2\sigma(t)/\sqrt{1 + t\,\sigma(-t)}`.
    """
    if rows == 1:
        return _inverse(gap, lambda t: 1 / (1 + np.exp(-t)), lambda t: t)
    return _inverse(
        gap,
        lambda t: 2 / (1 + np.exp(-t)) / np.sqrt(1 + t / (1 + np.exp(t))),
        lambda t: np.sqrt(t * t + t * (1 + np.exp(t))),
    )


def margin_of_remainder_gap(gap: ArrayLike, rows: int) -> Vector:
    r"""The same for remainders: :math:`\max_a \sqrt{1-a^2}\tanh(sa/2)`, where :math:`a^2/(1-a^2) = t/\sinh t`."""
    if rows == 1:
        return _inverse(gap, lambda t: np.tanh(t / 2) / 2, lambda t: t)
    return _inverse(
        gap,
        lambda t: np.tanh(t / 2) / np.sqrt(1 + t / np.sinh(t)),
        lambda t: np.sqrt(t * t + t * np.sinh(t)),
    )


def _inverse(
    gap: ArrayLike, gap_at: Callable[[Vector], Vector], norm_at: Callable[[Vector], Vector]
) -> Vector:
    """Norms at which an increasing gap is reached, by bisection in t; infinite where none up to t = 300 is enough."""
    target = np.atleast_1d(np.asarray(gap, float))
    low, high = np.full(target.shape, 1e-30), np.full(target.shape, 300.0)
    reached = gap_at(high) > target
    for _ in range(200):
        middle = np.where(low < 1e-3, np.sqrt(low * high), (low + high) / 2)
        above = gap_at(middle) > target
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.where(reached, norm_at(high), math.inf)
