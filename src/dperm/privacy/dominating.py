"""Compose releases of which only the curve delta(epsilon) is known, by privacy-loss distributions.

A bound on the curve in both directions is all that is needed: docs/proofs/ledger.md turns it into masses on a grid
of losses that are at least as bad, and ``Composition`` convolves them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.composition import Composition, StepLoss, U
from dperm.privacy.one_step import anything, mirrored

FloatArray = NDArray[np.float64]

DOTS = 2000  # points of each curve, at least
TAIL = 1e-17  # delta at which a curve ends; what is left counts as an unbounded loss
_LARGEST_GRID = 1_000_000
_LARGEST_LOSS = 600.0  # so that exp(loss) is a float


@dataclass(frozen=True, eq=False)
class Curve:
    """An upper bound on delta(epsilon), the same for both orders of the neighbours.

    ``top`` is the epsilon at which to stop looking; losses beyond it count as unbounded.
    """

    delta: Callable[[FloatArray], FloatArray]
    top: float


def composed(curves: Sequence[tuple[Curve, int]]) -> Composition | None:
    """The privacy-loss distribution of all curves, each as often as stated, or None if one reaches too far.

    Guarantee
    ---------
    Its delta at any epsilon is at least the true one.
    """
    spread = math.sqrt(sum(count * curve.top**2 for curve, count in curves))
    if not spread <= _LARGEST_LOSS:
        return None
    # Each curve has a spacing of its own. All are powers of two, so the finest is a grid for all of them.
    spacings = [_power_of_two(curve.top / DOTS) for curve, _ in curves]
    interval = max(min(spacings), 2 * _power_of_two(2 * spread / _LARGEST_GRID))
    parts = [
        (_spread_out(loss_masses(curve, max(own, interval)), interval), count)
        for (curve, count), own in zip(curves, spacings, strict=True)
    ]
    return Composition((tuple(parts),))


def _spread_out(step: StepLoss, interval: float) -> StepLoss:
    """The same on a finer grid."""
    every = round(step.interval / interval)
    mass = np.zeros((step.mass.size - 1) * every + 1)
    mass[::every] = step.mass
    return StepLoss(interval, step.first * every, mass, step.unbounded)


def _power_of_two(value: float) -> float:
    """The largest power of two up to ``value``; that of one millionth for less."""
    return math.ldexp(1.0, math.floor(math.log2(max(value, 1e-6))))


@lru_cache(maxsize=1024)
def loss_masses(curve: Curve, spacing: float) -> StepLoss:
    """Masses of the losses ``k * spacing`` and of an unbounded loss, at least as bad as the curve.

    The lower convex hull of the curve's dots over exp(epsilon), mirrored at 1, is the curve of these masses.
    """
    loss = spacing * np.arange(math.ceil(curve.top / spacing) + 1, dtype=np.float64)
    ratio = np.exp(loss)
    bound = np.minimum.accumulate(np.clip(curve.delta(loss), 0.0, 1.0))
    # Where the hull of the curve and its mirror image crosses 1.
    bound[0] = float(((2 * bound + ratio - 1) / (ratio + 1)).min()) * (1 + 8 * U)
    hull = _lower_hull(ratio, bound)
    slope = np.append(np.diff(bound[hull]) / np.diff(ratio[hull]), 0.0)
    at_vertices = np.maximum(ratio[hull[1:]] * np.diff(slope), 0.0)
    factor = _shortfall(ratio[hull], bound[hull], at_vertices)
    if not math.isfinite(factor):
        return anything(spacing)
    positive = np.zeros(loss.size - 1)
    positive[np.array(hull[1:], np.int64) - 1] = factor * at_vertices
    return mirrored(spacing, positive, float(bound[-1]))


def _shortfall(ratio: FloatArray, bound: FloatArray, positive: FloatArray) -> float:
    """By what factor the masses must grow for their own curve to reach the bound at every vertex.

    Differences of slopes lose digits; the curve is a sum of positive numbers and does not.
    """
    lower = np.cumsum((positive / ratio[1:])[::-1])[::-1]
    reached = np.cumsum((lower * np.diff(ratio))[::-1])[::-1]
    needed = bound[:-1] - bound[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        short = np.where(needed > 0, needed / reached, 0.0)
    return max(1.0, float(short.max(initial=0.0))) * (1 + 16 * U * (4 + ratio.size))


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Indices of the vertices of the lower convex hull, from left to right."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
