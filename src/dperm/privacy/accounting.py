"""What several events cost together: the smallest bound that applies to them (docs/proofs/ledger.md, section 2)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from dperm.errors import InvalidInput
from dperm.privacy.budget import Budget
from dperm.privacy.composition import Composition
from dperm.privacy.dominating import composed
from dperm.privacy.event_prices import curve, deltas, epsilon_alone, losses
from dperm.privacy.events import (
    Branches,
    Concentrated,
    FixedSizeSteps,
    Gaussian,
    Point,
    PoissonSteps,
    PrivacyEvent,
    SampledCurve,
)
from dperm.privacy.profile import GaussianProfile

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
