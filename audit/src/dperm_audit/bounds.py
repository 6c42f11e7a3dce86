r"""Lower bounds on epsilon from how often an attacker is right.

An attacker names a set S of outputs. P(S) is how often the mechanism lands in it on one table, Q(S) on its
neighbour. A claim :math:`(\varepsilon, \delta)` says :math:`P(S) \le e^\varepsilon Q(S) + \delta` for every S. Both
rates are counted on runs that played no part in the choice of S, and bounded by exact binomial arithmetic
(Clopper and Pearson, 1934), so each lower bound fails with at most its stated probability.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincinv, ndtri

from dperm.errors import InvalidInput
from dperm.mechanisms.objective.profile import CoupledProfile
from dperm.privacy import GaussianProfile

Vector = NDArray[np.float64]
Counts = NDArray[np.int64]

_THRESHOLDS = 199
_EPSILONS = np.concatenate([[0.0], np.geomspace(1e-3, 30.0, 60)])
_CLOSE_LOOKS = 9
_CAUTION = 0.05  # in the choice of a threshold; no guarantee rests on it
_SCALES = np.geomspace(0.02, 20.0, 60)
_ROUNDING = 1e-6  # every epsilon that is reported as a lower bound is lowered by this share


def rate_at_least(hits: int | Counts, runs: int, failure: float) -> Vector:
    """Lower bound on a rate of which ``hits`` of ``runs`` were seen; too high with at most ``failure``."""
    hits = _checked(hits, runs, failure)
    return np.where(hits == 0, 0.0, betaincinv(np.maximum(hits, 1), runs - hits + 1, failure))


def rate_at_most(hits: int | Counts, runs: int, failure: float) -> Vector:
    """Upper bound on a rate; too low with at most ``failure``."""
    hits = _checked(hits, runs, failure)
    return np.where(hits == runs, 1.0, betaincinv(hits + 1, np.maximum(runs - hits, 1), 1 - failure))


def direct_epsilon(hit_rate: float, alarm_rate: float, delta: float) -> float:
    """Least epsilon, or 0, for which P(S) >= ``hit_rate`` and Q(S) <= ``alarm_rate`` agree with a claim at ``delta``.

    It refutes any claim of a smaller epsilon at this delta, whatever the mechanism is.
    """
    if hit_rate <= delta:
        return 0.0
    if alarm_rate <= 0:
        return math.inf
    return max(0.0, math.log((hit_rate - delta) / alarm_rate)) * (1 - _ROUNDING)


def gaussian_mu_at_least(hit_rate: float, alarm_rate: float) -> float:
    r"""Least mu for which these rates agree with mu-Gaussian privacy: :math:`\Phi^{-1}(P) - \Phi^{-1}(Q)`.

    It refutes that the mechanism is as private as one Gaussian release of any smaller mu. It says nothing of a
    mechanism for which only an epsilon at one delta is claimed: such a claim allows other shapes than Gaussian.
    """
    return max(0.0, float(ndtri(hit_rate) - ndtri(alarm_rate)))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """Epsilon at ``delta`` of a Gaussian release of parameter ``mu``."""
    if mu == 0:
        return 0.0
    return GaussianProfile.gaussian(mu).epsilon(delta) * (1 - _ROUNDING) if math.isfinite(mu) else math.inf


def refutes(profile: GaussianProfile, hit_rate: float, alarm_rate: float) -> bool:
    """Whether rates at least and at most these contradict the claim ``profile`` at some epsilon.

    A set and its complement are both held against it: what the first says of P against Q, the second says of
    Q against P.
    """
    deltas = np.array([profile.delta(float(epsilon)) for epsilon in _EPSILONS])
    return bool(_excess(deltas, np.array([hit_rate]), np.array([alarm_rate]))[0] > 0)


def scaled(profile: GaussianProfile, factor: float) -> GaussianProfile:
    """The profile of the same mechanism with its noise divided by ``factor``, offsets left as they are."""
    if isinstance(profile, CoupledProfile):
        return profile.scaled(factor)
    return replace(profile, mu=profile.mu * factor)


class ProfileFamily:
    """A claimed profile and its copies with less or more noise, to say *by how much* rates fall short of it.

    ``factor`` finds the smallest multiple of every mu that the rates still allow. Above 1 the claim itself is
    refuted. Epsilon at the claimed delta of that copy is the audited lower bound; for one Gaussian release this
    is the bound of ``gaussian_mu_at_least``.
    """

    def __init__(self, profile: GaussianProfile) -> None:
        self.profile = profile
        single = profile.mu.shape == (1, 1) and not isinstance(profile, CoupledProfile)
        self._mu = float(profile.mu[0, 0]) if single and profile.offset[0] == 0 else None
        if self._mu is None:
            self._deltas = np.array([self._curve(float(factor)) for factor in _SCALES])

    def factors(self, hit_rates: Vector, alarm_rates: Vector) -> Vector:
        """A quick answer for many pairs of rates, on a grid of factors, rounded down."""
        if self._mu is not None:
            with np.errstate(invalid="ignore"):
                return np.asarray(
                    np.nan_to_num(np.maximum(ndtri(hit_rates) - ndtri(alarm_rates), 0.0)) / self._mu
                )
        refuted = np.array([_excess(deltas, hit_rates, alarm_rates) > 0 for deltas in self._deltas])
        highest = len(_SCALES) - np.argmax(refuted[::-1], axis=0)
        return np.where(refuted.any(axis=0), _SCALES[np.maximum(highest - 1, 0)], 0.0)

    def best(self, hit_rates: Vector, alarm_rates: Vector) -> int:
        """Which pair of rates proves most; a few of those that the grid cannot tell apart are looked at closely."""
        rough = self.factors(hit_rates, alarm_rates)
        tied = np.flatnonzero(rough == rough.max())
        few = tied[np.unique(np.linspace(0, len(tied) - 1, _CLOSE_LOOKS).round().astype(int))]
        return int(max(few, key=lambda k: self.factor(float(hit_rates[k]), float(alarm_rates[k]))))

    def factor(self, hit_rate: float, alarm_rate: float) -> float:
        if self._mu is not None:
            return gaussian_mu_at_least(hit_rate, alarm_rate) / self._mu
        low = float(self.factors(np.array([hit_rate]), np.array([alarm_rate]))[0])
        if low in (0.0, _SCALES[-1]):
            return low
        high = low * _SCALES[1] / _SCALES[0]
        for _ in range(12):
            middle = math.sqrt(low * high)
            if refutes(scaled(self.profile, middle), hit_rate, alarm_rate):
                low = middle
            else:
                high = middle
        return low

    def epsilon(self, factor: float, delta: float) -> float:
        return scaled(self.profile, factor).epsilon(delta) * (1 - _ROUNDING) if factor > 0 else 0.0

    def _curve(self, factor: float) -> Vector:
        copy = scaled(self.profile, factor)
        return np.array([copy.delta(float(epsilon)) for epsilon in _EPSILONS])


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Lower bounds on epsilon; ``by_profile`` is None where no whole profile is claimed.

    ``factor`` is the multiple of the claimed mu that the runs prove.
    """

    direct: float
    by_profile: float | None
    factor: float | None

    @property
    def epsilon(self) -> float:
        return max(self.direct, self.by_profile or 0.0)


def lower_bounds(
    training: tuple[Vector, Vector],
    test: tuple[Vector, Vector],
    delta: float,
    failure: float,
    family: ProfileFamily | None,
) -> Bounds:
    """Choose sets by the first pair of scores, count the second pair, and bound epsilon.

    Parameters
    ----------
    training, test : pairs of arrays
        Scores on a table and on its neighbour, high for the table, all independent.
    delta, failure
        Of the claim; the probability with which either bound may be too high.
    family : ProfileFamily, optional
        The claimed profile, if there is one.

    Guarantee
    ---------
    If both claims hold, at most ``failure`` is the probability that either bound exceeds its claim. The two bounds
    take half of it each, and each of the two rates that they rest on takes half of that.
    """
    each, runs = failure / 4, min(map(len, test))
    here, there = training
    forward, backward = (here, there), (-there, -here)
    set_of = {"forward": forward, "backward": backward}
    best: dict[str, tuple[float, float]] = {}
    for name, (positive, negative) in set_of.items():
        thresholds, hits, alarms = _rates(positive, negative, runs, each)
        values = np.array([direct_epsilon(p, q, delta) for p, q in zip(hits, alarms, strict=True)])
        best[name] = float(values.max()), float(thresholds[values.argmax()])
    chosen = max(best, key=lambda name: best[name][0])
    tested = test if chosen == "forward" else (-test[1], -test[0])
    direct = direct_epsilon(*_rates_at(*tested, best[chosen][1], each), delta)
    if family is None:
        return Bounds(direct=direct, by_profile=None, factor=None)
    thresholds, hits, alarms = _rates(here, there, runs, each)
    threshold = float(thresholds[family.best(hits, alarms)])
    factor = family.factor(*_rates_at(*test, threshold, each))
    return Bounds(direct=direct, by_profile=family.epsilon(factor, delta), factor=factor)


def _excess(deltas: Vector, hit_rates: Vector, alarm_rates: Vector) -> Vector:
    """By how much each pair of rates exceeds what delta at the listed epsilons allows."""
    likelier = np.exp(_EPSILONS)[:, None]
    forward = hit_rates - likelier * alarm_rates - deltas[:, None]
    backward = (1 - alarm_rates) - likelier * (1 - hit_rates) - deltas[:, None]
    return np.asarray(np.maximum(forward, backward).max(axis=0))


def _rates(positive: Vector, negative: Vector, runs: int, failure: float) -> tuple[Vector, Vector, Vector]:
    """Thresholds spread over both samples, and the bounds on both rates that ``runs`` runs may be hoped to give.

    The rates are guessed with caution first. Raw ones would favour thresholds at which few runs looked good.
    """
    levels = np.linspace(0, 1, _THRESHOLDS + 2)[1:-1]
    thresholds = np.unique(np.concatenate([np.quantile(positive, levels), np.quantile(negative, levels)]))
    hit_rates = rate_at_least(_above(positive, thresholds), len(positive), _CAUTION)
    alarm_rates = rate_at_most(_above(negative, thresholds), len(negative), _CAUTION)
    hits, alarms = np.floor(hit_rates * runs).astype(np.int64), np.ceil(alarm_rates * runs).astype(np.int64)
    return thresholds, rate_at_least(hits, runs, failure), rate_at_most(alarms, runs, failure)


def _rates_at(positive: Vector, negative: Vector, threshold: float, failure: float) -> tuple[float, float]:
    hits, alarms = int((positive > threshold).sum()), int((negative > threshold).sum())
    return (
        float(rate_at_least(hits, len(positive), failure)),
        float(rate_at_most(alarms, len(negative), failure)),
    )


def _above(scores: Vector, thresholds: Vector) -> Counts:
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, side="right")


def _checked(hits: int | Counts, runs: int, failure: float) -> Counts:
    counts = np.asarray(hits)
    if runs < 1 or counts.min() < 0 or counts.max() > runs or not 0 < failure < 1:
        raise InvalidInput(f"expected 0 <= hits <= runs and 0 < failure < 1; got {runs=}, {failure=}.")
    return counts
