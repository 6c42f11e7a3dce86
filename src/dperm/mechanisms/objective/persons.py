"""The price of a perturbed minimiser where one person may have many rows (docs/proofs/persons.md, section 4).

The gradient of a person is a mean of rows' gradients, so it lies on no segment that is known beforehand. The privacy
loss is at most a mean of the losses of pairs of rows, and so is its excess over epsilon, which is convex:
:math:`\\delta(\\varepsilon) \\le \\mathbb E(L - \\varepsilon)_+`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfcx

from dperm.mechanisms.objective.coupled import CoupledProfile, Segment, hypot_up, log_tail
from dperm.privacy.profile import RELATIVE_MARGIN

Vector = NDArray[np.float64]

_ROUNDING = 1e-14
_LARGE = 20.0  # beyond it a bound by a continued fraction is as good as the difference


@dataclass(frozen=True, eq=False)
class PersonsProfile(CoupledProfile):
    """As ``CoupledProfile``, with mean excesses in place of the cost of Gaussian releases; there may be no segment."""

    def log_deltas(self, epsilons: Vector) -> Vector:
        left = np.nextafter(epsilons - self.offset[0], -math.inf) if self.offset[0] > 0 else epsilons
        excess = np.logaddexp.reduce(log_mean_excess(np.maximum(left, 0.0)[:, None], self.mu[0]), axis=1)
        found = np.where(left < 0, 0.0, excess)
        if self.segments:
            by_segments = [self._by_segment(epsilons, segment) for segment in self.segments]
            found = np.minimum(found, np.logaddexp.reduce(by_segments, axis=0))
        return np.minimum(0.0, found + RELATIVE_MARGIN)

    def _with_gaps(self, epsilons: Vector, segment: Segment, gaps: Vector) -> Vector:
        """As for rows; where the start is far out, the loss is above the larger end by a quarter of the bulge at most.

        On a segment of a loss that falls towards one end that may be the start itself, which then counts too.
        """
        left, ends, tails = self._around(epsilons, segment, gaps)
        at_ends = np.logaddexp.reduce(log_mean_excess(np.maximum(left, 0.0)[..., None], ends), axis=-1)
        parts = [np.where(left < 0, 0.0, at_ends)]
        if self.bulge > 0:
            weight = math.log(segment.count * self.bulge / 4)
            parts += [log_tail(epsilons - segment.shift - gaps, tail) + weight for tail in tails]
        if not segment.both_ends:
            start = np.array([hypot_up(segment.start, self.composed)])
            parts.append(np.broadcast_to(log_mean_excess(epsilons, start), gaps.shape))
        return np.asarray(np.logaddexp.reduce(parts))


def log_mean_excess(t: Vector, mu: Vector) -> Vector:
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
