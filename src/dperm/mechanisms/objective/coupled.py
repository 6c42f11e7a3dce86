"""The price of a perturbed minimiser where curvature and slope are coupled (docs/proofs/objective.md, section 6).

The curvature of such a loss vanishes where the gradient reaches a vertex, so the log-determinant and the largest
Gaussian loss do not meet.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr

from dperm.privacy import GaussianProfile
from dperm.privacy.profile import RELATIVE_MARGIN, log_gaussian_delta

Vector = NDArray[np.float64]

_CANDIDATES, _LOOKS = 17, 4


@dataclass(frozen=True, kw_only=True)
class Segment:
    """What the gradient difference runs along while the slope of the row runs through its range, or several alike.

    Gaussian parameters are those of the minimiser alone. Unless the loss of parameter ``start`` exceeds epsilon, less
    ``shift`` and what the gap of ``CoupledProfile`` takes, the ``ends`` are the only vertices that count. ``both_ends``
    says that the segment runs from one of them to another; otherwise from ``start`` to the one end.
    """

    start: float
    ends: tuple[float, ...]
    shift: float = 0.0
    count: int = 1
    both_ends: bool = False

    def scaled(self, factor: float) -> Segment:
        """The same with the noise divided by ``factor``."""
        ends = tuple(factor * end for end in self.ends)
        return replace(self, start=factor * self.start, ends=ends, shift=factor**2 * self.shift)


@dataclass(frozen=True, eq=False)
class CoupledProfile(GaussianProfile):
    r"""The vertex profile of a loss with a ``coupling``, or a second bound where that is smaller.

    Parameters
    ----------
    segments : tuple of Segment
        One for each vertex of the other row.
    bulge : float
        How far the loss may rise above the chord of a segment: :math:`(\theta - s^2/2)_+`, or
        :math:`(4\theta - 2s^2)_+` for a two-sided loss.
    composed : float
        Gaussian parameter of all other releases, before the minimiser or after it.
    """

    segments: tuple[Segment, ...]
    bulge: float
    composed: float

    def compose_gaussian(self, mu: float) -> Self:
        rows = super().compose_gaussian(mu)
        return replace(self, mu=rows.mu, composed=hypot_up(self.composed, mu))

    def scaled(self, factor: float) -> Self:
        """The same with all noise divided by ``factor``; what noise does not change is left as it is."""
        segments = tuple(segment.scaled(factor) for segment in self.segments)
        return replace(self, mu=self.mu * factor, segments=segments, composed=self.composed * factor)

    def log_deltas(self, epsilons: Vector) -> Vector:
        by_segments = [self._by_segment(epsilons, segment) for segment in self.segments]
        together = np.logaddexp.reduce(by_segments, axis=0) + RELATIVE_MARGIN
        return np.asarray(np.minimum(super().log_deltas(epsilons), together))

    def _by_segment(self, epsilons: Vector, segment: Segment) -> Vector:
        """Every gap from 0 to what is left of epsilon gives a bound; the best of ever finer grids."""
        left = epsilons - segment.shift
        largest = np.minimum(self.bulge, np.maximum(left, 0.0))
        low, high = np.zeros_like(left), np.sqrt(largest)
        found = np.full_like(left, math.inf)
        each = np.arange(len(left))
        for _ in range(_LOOKS):
            roots = np.linspace(low, high, _CANDIDATES, axis=1)
            bounds = self._with_gaps(epsilons[:, None], segment, np.minimum(roots**2, largest[:, None]))
            best = np.argmin(bounds, axis=1)
            found = np.minimum(found, bounds[each, best])
            low, high = (
                roots[each, np.maximum(best - 1, 0)],
                roots[each, np.minimum(best + 1, _CANDIDATES - 1)],
            )
            if (low == high).all():
                break
        return np.where(left < 0, 0.0, found)

    def _with_gaps(self, epsilons: Vector, segment: Segment, gaps: Vector) -> Vector:
        """The start exceeds epsilon less the gap, or the ends are the only vertices that count, at this offset."""
        left, ends, tails = self._around(epsilons, segment, gaps)
        at_ends = np.logaddexp.reduce(log_gaussian_delta(np.maximum(left, 0.0)[..., None], ends), axis=-1)
        at_start = [
            log_tail(epsilons - segment.shift - gaps, tail) + math.log(segment.count) for tail in tails
        ]
        return np.asarray(np.logaddexp.reduce([np.where(left < 0, 0.0, at_ends), *at_start]))

    def _around(self, epsilons: Vector, segment: Segment, gaps: Vector) -> tuple[Vector, Vector, list[float]]:
        """What each gap leaves of epsilon, and the parameters of the ends and of the start, all releases together."""
        offset = (math.sqrt(self.bulge) - np.sqrt(gaps)) ** 2 + 1e-14 * self.bulge
        left = np.where(gaps < self.bulge, np.nextafter(epsilons - offset, -math.inf), epsilons)
        ends = np.array([hypot_up(end, self.composed) for end in segment.ends])
        tails = [hypot_up(segment.start, self.composed)]
        if segment.start > 0 and self.composed > 0:
            tails.append(self.composed)
        return left, ends, tails


def hypot_up(a: float, b: float) -> float:
    """Root of the sum of squares, rounded up."""
    return math.nextafter(math.hypot(a, b), math.inf) if a and b else a or b


def log_tail(t: Vector, mu: float) -> Vector:
    """Logarithm of the chance that a Gaussian loss of parameter mu exceeds t >= 0."""
    return np.asarray(log_ndtr(mu / 2 - t / mu)) if mu > 0 else np.full(t.shape, -math.inf)
