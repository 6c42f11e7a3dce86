"""Intervals that know both the sampling of test rows and the noise, by the method of Fieller (1954).

A figure is a ratio: the root of top - theta * bottom. Its interval holds every theta at which that difference is within
1.96 of its own standard deviations from 0. No division by a noisy number is linearised, so the interval stays honest
where the noise of the denominator is large; where it would have no end, there is none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import ndtri

LEVEL = 0.95
Z = float(ndtri(0.5 + LEVEL / 2))
CLEAR = 3.0
"""Standard deviations of its noise that a denominator must lie above 0; below, a ratio says nothing."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """An estimate and its 95 % interval; all None where the noise leaves nothing to say.

    ``noise`` is half the width that the interval would have from the noise alone, 0 for exact figures.
    """

    estimate: float | None = None
    low: float | None = None
    high: float | None = None
    noise: float | None = None

    @property
    def known(self) -> bool:
        return self.estimate is not None

    def times(self, factor: float) -> Figure:
        """The figure in other units."""
        return Figure(
            **{key: None if value is None else factor * value for key, value in self.to_dict().items()}
        )

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


UNKNOWN = Figure()
UNIT = (0.0, 1.0)


def ratio(
    top: float,
    bottom: float,
    noise: Variance,
    sampling: Variance,
    within: tuple[float, float] = UNIT,
    unseen: float = 0.0,
) -> Figure:
    """The figure top / bottom. ``within`` are the ends of what it can be, ``unseen`` a variance of the top."""
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
) -> Figure:
    """The figure with both ends inside of what is possible; unknown where nothing is left, or nothing was excluded."""
    low, high = max(interval[0], within[0]), min(interval[1], within[1])
    if low > high or not math.isfinite(estimate) or (low == within[0] and high == within[1]):
        return UNKNOWN
    return Figure(
        estimate=float(min(max(estimate, low), high)), low=float(low), high=float(high), noise=float(noise)
    )


def _roots(a: float, b: float, c: float) -> tuple[float, float] | None:
    """Where a x**2 - 2 b x + c <= 0, if that is an interval."""
    inside = b**2 - a * c
    if a <= 0 or inside < 0:
        return None
    return (b - math.sqrt(inside)) / a, (b + math.sqrt(inside)) / a
