"""The price of a perturbed minimiser where curvature and slope are coupled (docs/proofs/objective.md, section 6).

The curvature of such a loss vanishes where the gradient reaches a vertex, so the log-determinant and the largest
Gaussian loss do not meet.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import erfcx, log_ndtr

from dperm.privacy import GaussianProfile
from dperm.privacy.profile import RELATIVE_MARGIN, log_gaussian_delta
from dperm.typing import Floats, Integers

_CANDIDATES, _LOOKS = 17, 4
_LADDER = np.arange(float(_CANDIDATES))
_ROUNDING = 1e-14
_LARGE = 20.0  # beyond it a bound by a continued fraction is as good as the difference


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

    def log_deltas(self, epsilons: Floats) -> Floats:
        together = np.logaddexp.reduce(self._by_segments(epsilons), axis=0) + RELATIVE_MARGIN
        return np.asarray(np.minimum(super().log_deltas(epsilons), together))

    def _by_segments(self, epsilons: Floats) -> Floats:
        """A bound for each segment and epsilon, all segments side by side.

        Every gap from 0 to what is left of epsilon gives a bound; the best of ever finer grids.
        """
        joined = _Joined.of(self.segments, self.composed)
        left = epsilons - joined.shift[:, :, 0]
        largest = np.minimum(self.bulge, np.maximum(left, 0.0))
        low, high = np.zeros_like(left), np.sqrt(largest)
        found, each = np.full_like(left, math.inf), _places(left.shape)
        for _ in range(_LOOKS):
            roots = _even_grids(low, high)
            bounds = self._with_gaps(epsilons[:, None], joined, np.minimum(roots**2, largest[..., None]))
            best = np.argmin(bounds, axis=2)
            found = np.minimum(found, bounds[*each, best])
            low = roots[*each, np.maximum(best - 1, 0)]
            high = roots[*each, np.minimum(best + 1, _CANDIDATES - 1)]
            if (low == high).all():
                break
        return np.where(left < 0, 0.0, found)

    def _with_gaps(self, epsilons: Floats, joined: _Joined, gaps: Floats) -> Floats:
        """The start exceeds epsilon less the gap, or the ends are the only vertices that count, at this offset."""
        left = self._left(epsilons, gaps)
        at_ends = np.logaddexp.reduce(
            log_gaussian_delta(np.maximum(left, 0.0)[..., None], joined.ends), axis=3
        )
        at_start = joined.log_tails(epsilons, gaps)
        return np.asarray(np.logaddexp.reduce([np.where(left < 0, 0.0, at_ends), *at_start]))

    def _left(self, epsilons: Floats, gaps: Floats) -> Floats:
        """What each gap leaves of epsilon."""
        offset = (math.sqrt(self.bulge) - np.sqrt(gaps)) ** 2 + 1e-14 * self.bulge
        return np.where(gaps < self.bulge, np.nextafter(epsilons - offset, -math.inf), epsilons)


@dataclass(frozen=True, eq=False)
class PersonsProfile(CoupledProfile):
    r"""The price where one person may have many rows (docs/proofs/persons.md, section 4); there may be no segment.

    The gradient of a person is a mean of rows' gradients, so it lies on no segment that is known beforehand. The
    privacy loss is at most a mean of the losses of pairs of rows, and so is its excess over epsilon, which is convex:
    :math:`\delta(\varepsilon) \le \mathbb E(L - \varepsilon)_+`. Mean excesses take the place of the cost of Gaussian
    releases.
    """

    def log_deltas(self, epsilons: Floats) -> Floats:
        left = np.nextafter(epsilons - self.offset[0], -math.inf) if self.offset[0] > 0 else epsilons
        excess = np.logaddexp.reduce(log_mean_excess(np.maximum(left, 0.0)[:, None], self.mu[0]), axis=1)
        found = np.where(left < 0, 0.0, excess)
        if self.segments:
            found = np.minimum(found, np.logaddexp.reduce(self._by_segments(epsilons), axis=0))
        return np.minimum(0.0, found + RELATIVE_MARGIN)

    def _with_gaps(self, epsilons: Floats, joined: _Joined, gaps: Floats) -> Floats:
        """As for rows; where the start is far out, the loss is above the larger end by a quarter of the bulge at most.

        On a segment of a loss that falls towards one end that may be the start itself, which then counts too.
        """
        left = self._left(epsilons, gaps)
        at_ends = np.logaddexp.reduce(log_mean_excess(np.maximum(left, 0.0)[..., None], joined.ends), axis=3)
        parts = [np.where(left < 0, 0.0, at_ends)]
        if self.bulge > 0:
            parts += list(joined.log_tails(epsilons, gaps, self.bulge / 4))
        if not self.segments[0].both_ends:
            parts.append(np.broadcast_to(log_mean_excess(epsilons, joined.start), gaps.shape))
        return np.asarray(np.logaddexp.reduce(parts))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Joined:
    """Segments with all other releases composed, stacked along the first axis; epsilons and gaps come after it.

    ``tails`` are the parameters whose Gaussian loss must exceed epsilon for the start to count, 0 where none.
    """

    counts: tuple[int, ...]
    shift: Floats
    start: Floats
    ends: Floats
    tails: Floats

    @classmethod
    def of(cls, segments: Sequence[Segment], composed: float) -> Self:
        starts = [hypot_up(segment.start, composed) for segment in segments]
        beside = [composed if segment.start > 0 and composed > 0 else 0.0 for segment in segments]
        ends = np.array([[hypot_up(end, composed) for end in segment.ends] for segment in segments])
        return cls(
            counts=tuple(segment.count for segment in segments),
            shift=_stacked([segment.shift for segment in segments]),
            start=_stacked(starts),
            ends=ends[:, None, None, :],
            tails=np.array([_stacked(starts), _stacked(beside)] if any(beside) else [_stacked(starts)]),
        )

    def log_tails(self, epsilons: Floats, gaps: Floats, times: float = 1.0) -> Floats:
        """Logarithms of the chances that the losses of the tails exceed epsilon less shift and gap, all segments alike
        counted, and that ``times`` each.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            quantile = self.tails / 2 - (epsilons - self.shift - gaps) / self.tails
        chances = np.where(self.tails > 0, log_ndtr(quantile), -math.inf)
        return np.asarray(chances + _stacked([math.log(count * times) for count in self.counts]))


def _stacked(values: Sequence[float]) -> Floats:
    return np.array(values)[:, None, None]


def _places(shape: tuple[int, ...]) -> tuple[Integers, Integers]:
    """Indices of all segments and all epsilons, which broadcast."""
    return np.arange(shape[0])[:, None], np.arange(shape[1])


def _even_grids(low: Floats, high: Floats) -> Floats:
    """As ``np.linspace`` along a last axis, to the bit, and several times faster for a few numbers."""
    span = (high - low)[..., None]
    step = span / (_CANDIDATES - 1)
    rise = _LADDER * step if step.all() else _LADDER / (_CANDIDATES - 1) * span
    grids = rise + low[..., None]
    grids[..., -1] = high
    return np.asarray(grids)


def hypot_up(a: float, b: float) -> float:
    """Root of the sum of squares, rounded up."""
    return math.nextafter(math.hypot(a, b), math.inf) if a and b else a or b


def log_mean_excess(t: Floats, mu: Floats) -> Floats:
    r"""Upper bound on the logarithm of :math:`\mathbb E(\ell - t)_+` for :math:`\ell \sim N(\mu^2/2, \mu^2)`, t >= 0.

    With :math:`\tau = t/\mu - \mu/2` and the Mills ratio M it is :math:`\mu\varphi(\tau)(1 - \tau M(\tau))`, and the
    bracket is at most :math:`(\tau^2 + 3)/(\tau^4 + 6\tau^2 + 3)` for :math:`\tau > 0`.
    """
    with np.errstate(all="ignore"):
        tau = np.asarray(t / mu - mu / 2)
        square = tau * tau
        mills = math.sqrt(math.pi / 2) * erfcx(math.sqrt(0.5) * np.clip(tau, -30.0, _LARGE))
        near = 1 - np.clip(tau, -30.0, _LARGE) * mills + _ROUNDING * (1 + np.abs(tau) * mills)
        far = (square + 3) / (square * square + 6 * square + 3) * (1 + _ROUNDING)
        logs = np.log(mu * np.where(tau > _LARGE, far, near)) - square / 2 - math.log(2 * math.pi) / 2
        logs = np.where(tau < -30.0, np.log(mu * (1 - tau)), logs)
        logs += _ROUNDING * np.abs(logs)
    logs = np.where(np.isnan(logs), -1e299, logs)
    return np.asarray(np.where(mu == 0, -math.inf, np.where(np.isinf(mu), math.inf, logs)))
