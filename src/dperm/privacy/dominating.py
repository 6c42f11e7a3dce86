"""Compose releases of which only the curve delta(epsilon) is known, by privacy-loss distributions.

A bound on the curve in both directions is all that is needed: docs/proofs/ledger.md turns it into masses on a grid
of losses that are at least as bad, and dp-accounting convolves them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

DOTS = 2000  # points of each curve, at least
TAIL = 1e-17  # delta at which a curve ends; what is left counts as an unbounded loss
FOURIER_ERROR = 1e-14  # of delta; see docs/proofs/accounting.md
_LARGEST_GRID = 1_000_000
_LARGEST_LOSS = 600.0  # so that exp(loss) is a float


@dataclass(frozen=True, eq=False)
class Curve:
    """An upper bound on delta(epsilon), the same for both orders of the neighbours.

    ``top`` is the epsilon at which to stop looking; losses beyond it count as unbounded.
    """

    delta: Callable[[FloatArray], FloatArray]
    top: float


def composed(curves: Sequence[tuple[Curve, int]]) -> Any | None:
    """The privacy-loss distribution of all curves, each as often as stated, or None if one reaches too far.

    Guarantee
    ---------
    Its delta at any epsilon is at least the true one, up to ``FOURIER_ERROR``.
    """
    spread = math.sqrt(sum(count * curve.top**2 for curve, count in curves))
    if not spread <= _LARGEST_LOSS:
        return None
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    # Each curve has a spacing of its own. All are powers of two, so the finest is a grid for all of them.
    spacings = [_power_of_two(curve.top / DOTS) for curve, _ in curves]
    interval = max(min(spacings), 2 * _power_of_two(2 * spread / _LARGEST_GRID))
    total: Any = None
    for (curve, count), own in zip(curves, spacings, strict=True):
        spacing = max(own, interval)
        masses, unbounded = loss_masses(curve, spacing)
        on_grid = {round(spacing / interval) * place: mass for place, mass in masses.items()}
        one = PrivacyLossDistribution.create_from_rounded_probability(on_grid, unbounded, interval)
        part = one if count == 1 else one.self_compose(count)
        total = part if total is None else total.compose(part)
    return total


def _power_of_two(value: float) -> float:
    """The largest power of two up to ``value``; that of one millionth for less."""
    return math.ldexp(1.0, math.floor(math.log2(max(value, 1e-6))))


@lru_cache(maxsize=1024)
def loss_masses(curve: Curve, spacing: float) -> tuple[dict[int, float], float]:
    """Masses of the losses ``k * spacing`` and of an unbounded loss, at least as bad as the curve.

    The lower convex hull of the curve's dots over exp(epsilon), mirrored at 1, is the curve of these masses.
    """
    loss = spacing * np.arange(math.ceil(curve.top / spacing) + 1, dtype=np.float64)
    ratio = np.exp(loss)
    bound = np.minimum.accumulate(np.clip(curve.delta(loss), 0.0, 1.0))
    # Where the hull of the curve and its mirror image crosses 1.
    bound[0] = float(((2 * bound + ratio - 1) / (ratio + 1)).min())
    corners = _lower_hull(ratio, bound)
    slope = np.append(np.diff(bound[corners]) / np.diff(ratio[corners]), 0.0)
    unbounded = float(bound[-1])
    positive = np.maximum(ratio[corners[1:]] * np.diff(slope), 0.0) if len(corners) > 1 else np.zeros(0)
    negative = positive / ratio[corners[1:]]
    none = max(1.0 - unbounded - float(positive.sum() + negative.sum()), 0.0)
    places = [int(corner) for corner in corners[1:]]
    masses = {0: none, **dict(zip(places, positive.tolist(), strict=True))}
    masses |= {-place: mass for place, mass in zip(places, negative.tolist(), strict=True)}
    return masses, unbounded


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Indices of the corners of the lower convex hull, from left to right."""
    corners: list[int] = []
    for i in range(len(x)):
        while len(corners) > 1:
            a, b = corners[-2], corners[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            corners.pop()
        corners.append(i)
    return corners
