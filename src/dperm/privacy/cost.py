"""What releases cost, alone and together: the smallest bound that applies to events (docs/proofs/ledger.md, section 2).

A cost is a tuple of parts, each an event that goes into JSON and comes back checked. One release usually has one part;
``compose`` joins the parts of many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, assert_never

import numpy as np

from dperm.errors import InvalidInput
from dperm.privacy.budget import Budget
from dperm.privacy.composition import Composition
from dperm.privacy.events import (
    Branches,
    Concentrated,
    FixedSizeSteps,
    Gaussian,
    Point,
    PoissonSteps,
    PrivacyEvent,
    SampledCurve,
    Unbounded,
    event_from_json,
    event_to_json,
)
from dperm.privacy.loss_distribution import TAIL, Curve, FloatArray, composed
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.renyi import rho_to_epsilon
from dperm.privacy.subsampled import fixed_size_losses, poisson_losses

_PLD_FINEST = 512  # branches of a profile that a privacy-loss distribution tells apart
_BLOCK = 1_000_000
_ORDERS = 1 + np.geomspace(1e-3, 1e6, 600)


def epsilon_alone(event: PrivacyEvent, delta: float) -> float:
    """An epsilon that holds at ``delta`` for this event alone; may be infinite."""
    match event:
        case Gaussian() | Branches():
            return event.profile().epsilon(delta)
        case SampledCurve():
            return _interpolated_epsilon(event, delta)
        case PoissonSteps() | FixedSizeSteps():
            return losses(event).epsilon(delta)
        case Concentrated():
            return rho_to_epsilon(event.rho, delta, "cks") * (1 + 1e-12)
        case Point():
            return event.epsilon if event.delta <= delta else math.inf
        case Unbounded():
            return math.inf
    assert_never(event)


@lru_cache(maxsize=1024)
def curve(event: PrivacyEvent) -> Curve | None:
    """The event's delta(epsilon), for composition; None when there is none to work with."""
    match event:
        case Gaussian():
            return _profile_curve(event.profile())
        case Branches():
            return _profile_curve(_coarsened(event.profile()))
        case PoissonSteps() | FixedSizeSteps():
            return _losses_curve(losses(event))
        case SampledCurve():
            return Curve(lambda epsilon: deltas(event, epsilon), event.epsilon[-1])
        case Concentrated():
            return Curve(lambda epsilon: deltas(event, epsilon), epsilon_alone(event, TAIL))
        case Point():
            return Curve(lambda epsilon: deltas(event, epsilon), event.epsilon)
        case Unbounded():
            return None
    assert_never(event)


def deltas(event: SampledCurve | Concentrated | Point, epsilon: FloatArray) -> FloatArray:
    """The curve of an event that has a formula for it."""
    match event:
        case SampledCurve():
            ratio = np.exp(np.minimum(epsilon, event.epsilon[-1]))
            return np.interp(ratio, np.exp(event.epsilon), event.delta) * (1 + 1e-12)
        case Concentrated():
            return _concentrated_deltas(event.rho, epsilon)
        case Point():
            # The largest curve that the guarantee allows: randomised response, and all revealed with chance delta.
            revealed = -np.expm1(np.minimum(epsilon - event.epsilon, 0.0)) / (1 + math.exp(-event.epsilon))
            return np.asarray(event.delta + (1 - event.delta) * revealed)
    assert_never(event)


def losses(event: PoissonSteps | FixedSizeSteps, mu_spent: float = 0.0) -> Composition | GaussianProfile:
    """The privacy losses of sampled steps, beside Gaussian releases with parameter ``mu_spent``."""
    if isinstance(event, PoissonSteps):
        return poisson_losses(event.noise_multiplier, event.rate, event.steps, event.neighbours, mu_spent)
    return fixed_size_losses(event.noise_multiplier, event.batch_size, event.n_rows, event.steps, mu_spent)


def _interpolated_epsilon(event: SampledCurve, delta: float) -> float:
    if delta < event.delta[-1]:
        return math.inf
    last = next(place for place, value in enumerate(event.delta) if value <= delta)
    if last == 0:
        return 0.0
    low, high = math.exp(event.epsilon[last - 1]), math.exp(event.epsilon[last])
    share = (event.delta[last - 1] - delta) / (event.delta[last - 1] - event.delta[last])
    return min(math.log(low + share * (high - low)) * (1 + 1e-12), event.epsilon[last])


def _concentrated_deltas(rho: float, epsilon: FloatArray) -> FloatArray:
    """Canonne, Kamath and Steinke (2020), the best of many orders; every one is valid."""
    order = _ORDERS[:, None]
    constant = (order - 1) * np.log1p(-1 / order) - np.log(order)
    log_delta = (order - 1) * (order * rho - epsilon[None, :]) + constant
    return np.asarray(np.exp(np.minimum(log_delta.min(axis=0) + 1e-9, 0.0)))


def _profile_curve(profile: GaussianProfile) -> Curve:
    def delta(epsilon: FloatArray) -> FloatArray:
        blocks = np.array_split(epsilon, 1 + epsilon.size * profile.mu.size // _BLOCK)
        logs = np.concatenate([profile.log_deltas(block) for block in blocks])
        return np.asarray(np.exp(logs) * (1 + 1e-15))

    return Curve(delta, profile.epsilon(TAIL))


def _coarsened(profile: GaussianProfile) -> GaussianProfile:
    """At most a few hundred branches, each at least as costly as those it stands for."""
    if profile.probability.size <= _PLD_FINEST:
        return profile
    order = np.argsort(profile.offset + profile.mu.max(axis=1))
    groups = np.array_split(order, _PLD_FINEST)
    return GaussianProfile(
        np.array([profile.probability[group].sum() for group in groups]),
        np.array([profile.offset[group].max() for group in groups]),
        np.array([profile.mu[group].max(axis=0) for group in groups]),
    )


def _losses_curve(found: Composition | GaussianProfile) -> Curve | None:
    """The curve of composed steps, the worse of both orders of the neighbours."""
    if isinstance(found, GaussianProfile):
        return _profile_curve(found)
    tops = (found.epsilon(delta) for delta in (TAIL, 1e4 * TAIL))
    top = next((top for top in tops if math.isfinite(top)), None)
    return None if top is None else Curve(found.deltas, top)


DECIMAL_SLACK = 1e-12  # relative: ten charges of 0.1 fill a cap of 1.0, whatever binary fractions say

Events = tuple[PrivacyEvent, ...]


def composed_epsilon(events: Sequence[PrivacyEvent], delta: float) -> float:
    """Smallest epsilon we can prove at ``delta``; may be infinite."""
    if not 0 <= delta < 1:
        raise InvalidInput(f"delta must be at least 0 and below 1; got {delta!r}.")
    merged = _merged(events)
    if delta == 0:
        return _summed(merged, 0.0)
    alone = _by_one_theorem(merged, delta)
    if alone is not None:
        return alone
    found = [_summed(merged, delta), _by_concentration(merged, delta)]
    if (distribution := _loss_distribution(merged)) is not None:
        found.append(distribution.epsilon(delta))
    return min(found)


def composed_delta(events: Sequence[PrivacyEvent], epsilon: float) -> float:
    """Smallest delta we can prove at ``epsilon``."""
    if not 0 <= epsilon < math.inf:
        raise InvalidInput(f"epsilon must be a finite number of at least 0; got {epsilon!r}.")
    merged = _merged(events)
    profile = _one_profile(merged)
    if profile is not None:
        return profile.delta(epsilon)
    if len(merged) == 1 and isinstance(merged[0], SampledCurve | Concentrated | Point):
        return float(deltas(merged[0], np.array([epsilon]))[0])
    points = [event for event in merged if isinstance(event, Point)]
    found = [1.0]
    if len(points) == len(merged) and math.fsum(p.epsilon for p in points) <= epsilon:
        found.append(math.fsum(p.delta for p in points))
    if (distribution := _loss_distribution(merged)) is not None:
        found.append(distribution.delta(epsilon))
    return min(found)


def fit_within(events: Sequence[PrivacyEvent], cap: Budget) -> bool:
    """Whether all events together meet the cap, give or take a relative 1e-12."""
    epsilon, delta = cap.epsilon * (1 + DECIMAL_SLACK), cap.delta * (1 + DECIMAL_SLACK)
    merged = _merged(events)
    if delta == 0:
        return _summed(merged, 0.0) <= epsilon
    alone = _by_one_theorem(merged, delta)
    return (
        (alone is not None and alone <= epsilon)
        or composed_delta(events, epsilon) <= delta
        or min(_summed(merged, delta), _by_concentration(merged, delta)) <= epsilon
    )


def _merged(events: Sequence[PrivacyEvent]) -> Events:
    """Equal kinds joined by the laws that lose nothing: Gaussian, zCDP, steps of the same sampling."""
    plain = [_without_sampling(event) for event in events]
    kept: list[PrivacyEvent] = []
    steps: Counter[PoissonSteps | FixedSizeSteps] = Counter()
    for event in plain:
        if isinstance(event, PoissonSteps | FixedSizeSteps):
            steps[replace(event, steps=1)] += event.steps
        elif not isinstance(event, Gaussian | Concentrated):
            kept.append(event)
    kept += [replace(one, steps=count) for one, count in steps.items()]
    mus = [event.mu for event in plain if isinstance(event, Gaussian) and event.mu > 0]
    rhos = [event.rho for event in plain if isinstance(event, Concentrated)]
    if rhos:
        kept.append(Concentrated(_up(math.fsum(rhos), len(rhos) > 1)))
    if mus:
        squares = math.fsum(mu * mu for mu in mus)
        kept.append(Gaussian(mus[0] if len(mus) == 1 else _up(math.sqrt(squares))))
    return tuple(kept)


def _without_sampling(event: PrivacyEvent) -> PrivacyEvent:
    """Samples of everything as the Gaussian releases they are."""
    everything = (isinstance(event, PoissonSteps) and event.rate == 1) or (
        isinstance(event, FixedSizeSteps) and event.batch_size == event.n_rows
    )
    if not everything or not isinstance(event, PoissonSteps | FixedSizeSteps):
        return event
    profile = losses(event)
    assert isinstance(profile, GaussianProfile)
    return Gaussian(float(profile.mu[0, 0]))


def _by_one_theorem(merged: Events, delta: float) -> float | None:
    """The price by one exact or dedicated calculation, where all events fall under it."""
    profile = _one_profile(merged)
    if profile is not None:
        return profile.epsilon(delta)
    if len(merged) == 1 and isinstance(merged[0], SampledCurve | Concentrated | Point):
        return epsilon_alone(merged[0], delta)
    *others, last = merged
    mu_spent = last.mu if isinstance(last, Gaussian) else 0.0
    if not isinstance(last, Gaussian):
        others.append(last)
    if len(others) == 1 and isinstance(others[0], PoissonSteps | FixedSizeSteps):
        found = losses(others[0], mu_spent).epsilon(delta)
        return None if math.isinf(found) else found
    return None


def _one_profile(merged: Events) -> GaussianProfile | None:
    """The exact profile of at most one set of branches beside at most one Gaussian."""
    if not merged:
        return GaussianProfile.gaussian(0.0)
    *others, last = merged
    if not isinstance(last, Gaussian):
        return last.profile() if not others and isinstance(last, Branches) else None
    if not others:
        return last.profile()
    if len(others) == 1 and isinstance(others[0], Branches):
        return others[0].profile().compose_gaussian(last.mu)
    return None


def _summed(merged: Events, delta: float) -> float:
    """The sum of the events' epsilons: points at their own delta, the others share what is left."""
    points = [event for event in merged if isinstance(event, Point)]
    others = [event for event in merged if not isinstance(event, Point)]
    left = delta * (1 + DECIMAL_SLACK) - math.fsum(point.delta for point in points)
    if left < 0 or (others and left <= 0):
        return math.inf
    share = min(left, delta) / len(others) if others else 0.0
    epsilons = [point.epsilon for point in points] + [epsilon_alone(event, share) for event in others]
    return math.fsum(epsilons)


def _by_concentration(merged: Events, delta: float) -> float:
    """Everything as zCDP, where that is known."""
    rhos = [event.rho for event in merged if isinstance(event, Concentrated)]
    mus = [event.mu for event in merged if isinstance(event, Gaussian)]
    if not rhos or len(rhos) + len(mus) < len(merged):
        return math.inf
    return epsilon_alone(Concentrated(_up(math.fsum([*rhos, *(mu * mu / 2 for mu in mus)]))), delta)


@lru_cache(maxsize=64)
def _loss_distribution(merged: Events) -> Composition | None:
    """The privacy-loss distribution of all events, or None where some event has none."""
    curves = [(curve(event), count) for event, count in Counter(merged).items()]
    known = [(found, count) for found, count in curves if found is not None]
    return composed(known) if len(known) == len(curves) and known else None


def _up(value: float, rounded: bool = True) -> float:
    """A little above a value that was computed with a few roundings."""
    return value * (1 + 2**-50) if rounded else value


CURVE_POINTS = 400
_LARGEST_EPSILON = 500.0


@dataclass(frozen=True)
class Cost:
    """What one release, or several together, cost.

    Guarantee
    ---------
    ``epsilon``, ``delta`` and ``fits`` are upper bounds for all parts together, released in any order, each
    depending on what came before (docs/proofs/ledger.md). Gaussian parts, and one profile with Gaussian parts, are
    exact. Other mixtures go through privacy-loss distributions, and never cost more than their sum.

    Assumes
    -------
    Which parts there are was not chosen from earlier results, unless all are Gaussian.
    """

    parts: tuple[PrivacyEvent, ...] = ()

    @classmethod
    def gaussian(cls, mu: float) -> Cost:
        return cls((Gaussian(float(mu)),))

    @classmethod
    def of_profile(cls, profile: GaussianProfile, at: float = 1.0) -> Cost:
        """The price that a profile states. Of one with formulas of its own: many points, one of them ``at``."""
        if not np.isfinite(profile.mu).all():
            return cls.unbounded("a release without noise")
        if type(profile) is not GaussianProfile:
            return cls((_sampled(profile, at),))
        if profile.mu.shape == (1, 1) and profile.offset[0] == 0:
            return cls.gaussian(profile.mu[0, 0])
        return cls((_branches(profile),))

    @classmethod
    def point(cls, epsilon: float, delta: float) -> Cost:
        return cls((Point(float(epsilon), float(delta)),))

    @classmethod
    def concentrated(cls, rho: float) -> Cost:
        return cls((Concentrated(float(rho)),))

    @classmethod
    def unbounded(cls, reason: str) -> Cost:
        return cls((Unbounded(reason),))

    @property
    def only_gaussian(self) -> bool:
        return all(isinstance(part, Gaussian) for part in self.parts)

    @property
    def why_unbounded(self) -> str | None:
        return next((part.reason for part in self.parts if isinstance(part, Unbounded)), None)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon we can prove at ``delta``; may be infinite."""
        return composed_epsilon(self.parts, delta)

    def delta(self, epsilon: float) -> float:
        """Smallest delta we can prove at ``epsilon``."""
        return composed_delta(self.parts, epsilon)

    def fits(self, cap: Budget) -> bool:
        """Whether all parts together meet the cap, give or take a relative 1e-12."""
        return fit_within(self.parts, cap)

    def to_dict(self) -> dict[str, Any]:
        return {"parts": [event_to_json(part) for part in self.parts]}

    @classmethod
    def from_dict(cls, stored: object) -> Cost:
        """A cost from what JSON held; nothing is taken on trust."""
        if not isinstance(stored, dict) or set(stored) != {"parts"} or not isinstance(stored["parts"], list):
            raise InvalidInput('a cost must be an object with exactly the key "parts", a list.')
        return cls(tuple(event_from_json(part) for part in stored["parts"]))


def compose(costs: Iterable[Cost]) -> Cost:
    """What all of them cost together."""
    return Cost(tuple(part for cost in costs for part in cost.parts))


def _sampled(profile: GaussianProfile, at: float) -> SampledCurve:
    top = min(profile.epsilon(TAIL), _LARGEST_EPSILON)
    epsilons = sorted({0.0, float(at), *np.linspace(0.0, max(top, at), CURVE_POINTS).tolist()})
    deltas = np.minimum.accumulate(profile.deltas(np.array(epsilons)))
    return SampledCurve(tuple(epsilons), tuple(deltas.tolist()))


def _branches(profile: GaussianProfile) -> Branches:
    """Equal branches count as one."""
    rows, place = np.unique(np.column_stack([profile.offset, profile.mu]), axis=0, return_inverse=True)
    chance = np.bincount(place.ravel(), weights=profile.probability)
    return Branches(
        probability=tuple(chance.tolist()),
        offset=tuple(rows[:, 0].tolist()),
        mu=tuple(tuple(row) for row in rows[:, 1:].tolist()),
    )
