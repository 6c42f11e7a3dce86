"""What releases cost: events that go into JSON, come back checked, and compose.

A cost is a tuple of parts, each an event. One release usually has one part; ``compose`` joins the parts of many.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.privacy.accounting import composed_delta, composed_epsilon, fit_within
from dperm.privacy.budget import Budget
from dperm.privacy.dominating import TAIL
from dperm.privacy.event_json import event_from_json, event_to_json
from dperm.privacy.events import (
    Branches,
    Concentrated,
    Gaussian,
    Point,
    PrivacyEvent,
    SampledCurve,
    Unbounded,
)
from dperm.privacy.profile import GaussianProfile

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
