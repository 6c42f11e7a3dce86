"""What one event costs by itself: epsilon at a delta, and its privacy curve delta(epsilon)."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import assert_never

import numpy as np

from dperm.privacy.composition import Composition
from dperm.privacy.dominating import TAIL, Curve, FloatArray
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
)
from dperm.privacy.fixed_size import fixed_size_losses
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.subsampled import poisson_losses
from dperm.privacy.zcdp import rho_to_epsilon

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
            # The largest curve that the promise allows: randomised response, and all revealed with chance delta.
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
