"""What releases cost, as plain data: it goes into JSON, comes back checked, and composes.

A cost is a tuple of parts. One release usually has one part; ``compose`` joins the parts of many.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from dperm.errors import InvalidInput
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.privacy.composition import Composition
from dperm.privacy.dominating import TAIL, Curve, FloatArray, composed
from dperm.privacy.fixed_size import fixed_size_losses
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.subsampled import poisson_losses
from dperm.privacy.zcdp import rho_to_epsilon

DECIMAL_SLACK = 1e-12  # relative: ten charges of 0.1 fill a cap of 1.0, whatever binary fractions say
MOST_NUMBERS = 1_000_000  # in one profile
MOST_STEPS = 10**8
CURVE_DOTS = 400
_LARGEST_EPSILON = 500.0
_PLD_FINEST = 512  # branches of a profile that a privacy-loss distribution tells apart
_BLOCK = 1_000_000
_ORDERS = 1 + np.geomspace(1e-3, 1e6, 600)


@dataclass(frozen=True)
class Part:
    """One way to describe a price. ``kind`` is its name in JSON."""

    kind: ClassVar[str]

    def epsilon_at(self, delta: float) -> float:
        """An epsilon that holds at ``delta`` for this part alone."""
        raise NotImplementedError

    def curve(self) -> Curve | None:
        """The part's delta(epsilon), for composition; None when there is none to work with."""
        raise NotImplementedError


@dataclass(frozen=True)
class Gaussian(Part):
    """Gaussian releases with root-sum-square ``mu`` of sensitivity over noise scale."""

    kind: ClassVar[str] = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        _check("mu", self.mu, 0 <= self.mu < 1e6)

    def profile(self) -> GaussianProfile:
        return GaussianProfile.gaussian(self.mu)

    def epsilon_at(self, delta: float) -> float:
        return self.profile().epsilon(delta)

    def curve(self) -> Curve | None:
        return _profile_curve(self.profile())


@dataclass(frozen=True)
class Branches(Part):
    """A ``GaussianProfile``: hidden branches with offsets and vertices."""

    kind: ClassVar[str] = "branches"
    probability: tuple[float, ...]
    offset: tuple[float, ...]
    mu: tuple[tuple[float, ...], ...]

    def __post_init__(self) -> None:
        if not 1 <= sum(map(len, self.mu)) <= MOST_NUMBERS or len({len(row) for row in self.mu}) != 1:
            raise InvalidInput(f"mu must have equally long rows and at most {MOST_NUMBERS} numbers in all.")
        if not all(0 <= value < 1e6 for row in self.mu for value in row):
            raise InvalidInput("every mu of a cost must lie between 0 and a million.")
        self.profile()

    def profile(self) -> GaussianProfile:
        return _profile(self)

    def epsilon_at(self, delta: float) -> float:
        return self.profile().epsilon(delta)

    def curve(self) -> Curve | None:
        return _profile_curve(_coarsened(self.profile()))


@dataclass(frozen=True)
class Dots(Part):
    """Some points of a curve delta(epsilon); as the true one is convex in exp(epsilon), so are chords above it."""

    kind: ClassVar[str] = "curve"
    epsilon: tuple[float, ...]
    delta: tuple[float, ...]

    def __post_init__(self) -> None:
        epsilon, delta = np.array(self.epsilon), np.array(self.delta)
        if not (len(epsilon) == len(delta) >= 1 and epsilon[0] == 0 and epsilon[-1] <= 600):
            raise InvalidInput("a curve needs as many deltas as epsilons, from 0 to 600 at most.")
        if (np.diff(epsilon) <= 0).any() or (np.diff(delta) > 0).any():
            raise InvalidInput("the epsilons of a curve must grow and its deltas must not.")
        if not 0 <= delta[-1] <= delta[0] <= 1:
            raise InvalidInput("the deltas of a curve must lie between 0 and 1.")

    def epsilon_at(self, delta: float) -> float:
        if delta < self.delta[-1]:
            return math.inf
        last = next(place for place, value in enumerate(self.delta) if value <= delta)
        if last == 0:
            return 0.0
        low, high = math.exp(self.epsilon[last - 1]), math.exp(self.epsilon[last])
        share = (self.delta[last - 1] - delta) / (self.delta[last - 1] - self.delta[last])
        return min(math.log(low + share * (high - low)) * (1 + 1e-12), self.epsilon[last])

    def curve(self) -> Curve | None:
        return Curve(self.delta_at, self.epsilon[-1])

    def delta_at(self, epsilon: FloatArray) -> FloatArray:
        ratio = np.exp(np.minimum(epsilon, self.epsilon[-1]))
        return np.interp(ratio, np.exp(self.epsilon), self.delta) * (1 + 1e-12)


@dataclass(frozen=True)
class PoissonSteps(Part):
    """Noisy sums over fresh Poisson samples, as in ``poisson_epsilon``."""

    kind: ClassVar[str] = "poisson"
    noise_multiplier: float
    rate: float
    steps: int
    neighbours: str

    def __post_init__(self) -> None:
        _check("noise_multiplier", self.noise_multiplier, 0.1 <= self.noise_multiplier < math.inf)
        _check("rate", self.rate, 0 < self.rate <= 1)
        _check("steps", self.steps, 1 <= self.steps <= MOST_STEPS)
        Neighbours.parse(self.neighbours)

    def epsilon_at(self, delta: float, mu_spent: float = 0.0) -> float:
        return self.losses(mu_spent).epsilon(delta)

    def curve(self) -> Curve | None:
        return _sampled_curve(self.losses())

    def losses(self, mu_spent: float = 0.0) -> Composition | GaussianProfile:
        return poisson_losses(self.noise_multiplier, self.rate, self.steps, self.neighbours, mu_spent)


@dataclass(frozen=True)
class FixedSizeSteps(Part):
    """Noisy sums over fresh samples of a fixed size, as in ``fixed_size_epsilon``."""

    kind: ClassVar[str] = "fixed-size"
    noise_multiplier: float
    batch_size: int
    n_rows: int
    steps: int

    def __post_init__(self) -> None:
        _check("noise_multiplier", self.noise_multiplier, 0.1 <= self.noise_multiplier < math.inf)
        _check("batch_size", self.batch_size, 1 <= self.batch_size <= self.n_rows)
        _check("steps", self.steps, 1 <= self.steps <= MOST_STEPS)

    def epsilon_at(self, delta: float, mu_spent: float = 0.0) -> float:
        return self.losses(mu_spent).epsilon(delta)

    def curve(self) -> Curve | None:
        return _sampled_curve(self.losses())

    def losses(self, mu_spent: float = 0.0) -> Composition | GaussianProfile:
        return fixed_size_losses(self.noise_multiplier, self.batch_size, self.n_rows, self.steps, mu_spent)


@dataclass(frozen=True)
class Concentrated(Part):
    """rho-zCDP."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        _check("rho", self.rho, 0 < self.rho < 1e6)

    def epsilon_at(self, delta: float) -> float:
        return rho_to_epsilon(self.rho, delta, "cks") * (1 + 1e-12)

    def curve(self) -> Curve | None:
        return Curve(self.delta_at, self.epsilon_at(TAIL))

    def delta_at(self, epsilon: FloatArray) -> FloatArray:
        """Canonne, Kamath and Steinke (2020), the best of many orders; every one is valid."""
        order = _ORDERS[:, None]
        constant = (order - 1) * np.log1p(-1 / order) - np.log(order)
        log_delta = (order - 1) * (order * self.rho - epsilon[None, :]) + constant
        return np.asarray(np.exp(np.minimum(log_delta.min(axis=0) + 1e-9, 0.0)))


@dataclass(frozen=True)
class Point(Part):
    """One (epsilon, delta) promise and nothing more."""

    kind: ClassVar[str] = "point"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon, 0 <= self.epsilon < 1e6)
        _check("delta", self.delta, 0 <= self.delta < 1)

    def epsilon_at(self, delta: float) -> float:
        return self.epsilon if self.delta <= delta else math.inf

    def curve(self) -> Curve | None:
        return Curve(self.delta_at, self.epsilon)

    def delta_at(self, epsilon: FloatArray) -> FloatArray:
        """The largest curve that the promise allows: randomised response, and everything told with chance delta."""
        told = -np.expm1(np.minimum(epsilon - self.epsilon, 0.0)) / (1 + math.exp(-self.epsilon))
        return np.asarray(self.delta + (1 - self.delta) * told)


@dataclass(frozen=True)
class Unbounded(Part):
    """No promise at all, and why."""

    kind: ClassVar[str] = "unbounded"
    reason: str

    def epsilon_at(self, delta: float) -> float:
        return math.inf

    def curve(self) -> Curve | None:
        return None


_KINDS: dict[str, type[Part]] = {
    part.kind: part
    for part in (Gaussian, Branches, Dots, PoissonSteps, FixedSizeSteps, Concentrated, Point, Unbounded)
}


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

    parts: tuple[Part, ...] = ()

    @classmethod
    def gaussian(cls, mu: float) -> Cost:
        return cls((Gaussian(float(mu)),))

    @classmethod
    def of_profile(cls, profile: GaussianProfile, at: float = 1.0) -> Cost:
        """The price that a profile states. Of one with formulas of its own: many points, one of them ``at``."""
        if not np.isfinite(profile.mu).all():
            return cls.unbounded("a release without noise")
        if type(profile) is not GaussianProfile:
            top = min(profile.epsilon(TAIL), _LARGEST_EPSILON)
            epsilons = sorted({0.0, float(at), *np.linspace(0.0, max(top, at), CURVE_DOTS).tolist()})
            deltas = np.minimum.accumulate([profile.delta(epsilon) for epsilon in epsilons])
            return cls((Dots(tuple(epsilons), tuple(deltas.tolist())),))
        if profile.mu.shape == (1, 1) and profile.offset[0] == 0:
            return cls.gaussian(profile.mu[0, 0])
        # Equal branches count as one.
        rows, place = np.unique(np.column_stack([profile.offset, profile.mu]), axis=0, return_inverse=True)
        chance = np.bincount(place.ravel(), weights=profile.probability)
        return cls(
            (
                Branches(
                    probability=tuple(chance.tolist()),
                    offset=tuple(rows[:, 0].tolist()),
                    mu=tuple(tuple(row) for row in rows[:, 1:].tolist()),
                ),
            )
        )

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
        if not 0 <= delta < 1:
            raise InvalidInput(f"delta must be at least 0 and below 1; got {delta!r}.")
        parts = self._merged()
        if delta == 0:
            return self._summed(parts, 0.0)
        alone = self._by_one_theorem(parts, delta)
        if alone is not None:
            return alone
        found = [self._summed(parts, delta), self._by_concentration(parts, delta)]
        if (losses := _losses(parts)) is not None:
            found.append(losses.epsilon(delta))
        return min(found)

    def delta(self, epsilon: float) -> float:
        """Smallest delta we can prove at ``epsilon``."""
        if not 0 <= epsilon < math.inf:
            raise InvalidInput(f"epsilon must be a finite number of at least 0; got {epsilon!r}.")
        parts = self._merged()
        profile = _one_profile(parts)
        if profile is not None:
            return profile.delta(epsilon)
        if len(parts) == 1 and isinstance(parts[0], Dots | Concentrated | Point):
            return float(parts[0].delta_at(np.array([epsilon]))[0])
        points = [part for part in parts if isinstance(part, Point)]
        found = [1.0]
        if len(points) == len(parts) and math.fsum(p.epsilon for p in points) <= epsilon:
            found.append(math.fsum(p.delta for p in points))
        if (losses := _losses(parts)) is not None:
            found.append(losses.delta(epsilon))
        return min(found)

    def fits(self, cap: Budget) -> bool:
        """Whether all parts together meet the cap, give or take a relative 1e-12."""
        epsilon, delta = cap.epsilon * (1 + DECIMAL_SLACK), cap.delta * (1 + DECIMAL_SLACK)
        parts = self._merged()
        if delta == 0:
            return self._summed(parts, 0.0) <= epsilon
        alone = self._by_one_theorem(parts, delta)
        return (
            (alone is not None and alone <= epsilon)
            or self.delta(epsilon) <= delta
            or min(self._summed(parts, delta), self._by_concentration(parts, delta)) <= epsilon
        )

    def to_dict(self) -> dict[str, Any]:
        return {"parts": [{"kind": part.kind, **_plain(part)} for part in self.parts]}

    @classmethod
    def from_dict(cls, stored: object) -> Cost:
        """A cost from what JSON held; nothing is taken on trust."""
        if not isinstance(stored, dict) or set(stored) != {"parts"} or not isinstance(stored["parts"], list):
            raise InvalidInput('a cost must be an object with exactly the key "parts", a list.')
        return cls(tuple(_part(part) for part in stored["parts"]))

    def _merged(self) -> tuple[Part, ...]:
        """Equal kinds joined by the laws that lose nothing: Gaussian, zCDP, steps of the same sampling."""
        parts = [_without_sampling(part) for part in self.parts]
        kept: list[Part] = []
        steps: Counter[Part] = Counter()
        for part in parts:
            if isinstance(part, PoissonSteps):
                steps[PoissonSteps(part.noise_multiplier, part.rate, 1, part.neighbours)] += part.steps
            elif isinstance(part, FixedSizeSteps):
                steps[FixedSizeSteps(part.noise_multiplier, part.batch_size, part.n_rows, 1)] += part.steps
            elif not isinstance(part, Gaussian | Concentrated):
                kept.append(part)
        for one, count in steps.items():
            values = {field.name: getattr(one, field.name) for field in fields(one)}
            kept.append(type(one)(**{**values, "steps": count}))
        mus = [part.mu for part in parts if isinstance(part, Gaussian) and part.mu > 0]
        rhos = [part.rho for part in parts if isinstance(part, Concentrated)]
        if rhos:
            kept.append(Concentrated(_up(math.fsum(rhos), len(rhos) > 1)))
        if mus:
            squares = math.fsum(mu * mu for mu in mus)
            kept.append(Gaussian(mus[0] if len(mus) == 1 else _up(math.sqrt(squares))))
        return tuple(kept)

    @staticmethod
    def _by_one_theorem(parts: tuple[Part, ...], delta: float) -> float | None:
        """The price by one exact or dedicated calculation, where all parts fall under it."""
        profile = _one_profile(parts)
        if profile is not None:
            return profile.epsilon(delta)
        if len(parts) == 1 and isinstance(parts[0], Dots | Concentrated | Point):
            return parts[0].epsilon_at(delta)
        *others, last = parts
        mu_spent = last.mu if isinstance(last, Gaussian) else 0.0
        if not isinstance(last, Gaussian):
            others.append(last)
        if len(others) == 1 and isinstance(others[0], PoissonSteps | FixedSizeSteps):
            found = others[0].epsilon_at(delta, mu_spent)
            return None if math.isinf(found) else found
        return None

    @staticmethod
    def _summed(parts: tuple[Part, ...], delta: float) -> float:
        """The sum of the parts' epsilons: points at their own delta, the others share what is left."""
        points = [part for part in parts if isinstance(part, Point)]
        others = [part for part in parts if not isinstance(part, Point)]
        left = delta * (1 + DECIMAL_SLACK) - math.fsum(point.delta for point in points)
        if left < 0 or (others and left <= 0):
            return math.inf
        share = min(left, delta) / len(others) if others else 0.0
        epsilons = [point.epsilon for point in points] + [part.epsilon_at(share) for part in others]
        return math.fsum(epsilons)

    @staticmethod
    def _by_concentration(parts: tuple[Part, ...], delta: float) -> float:
        """Everything as zCDP, where that is known."""
        rhos = [part.rho for part in parts if isinstance(part, Concentrated)]
        mus = [part.mu for part in parts if isinstance(part, Gaussian)]
        if not rhos or len(rhos) + len(mus) < len(parts):
            return math.inf
        return Concentrated(_up(math.fsum([*rhos, *(mu * mu / 2 for mu in mus)]))).epsilon_at(delta)


def compose(costs: Iterable[Cost]) -> Cost:
    """What all of them cost together."""
    return Cost(tuple(part for cost in costs for part in cost.parts))


def _without_sampling(part: Part) -> Part:
    """Samples of everything as the Gaussian releases they are."""
    everything = (isinstance(part, PoissonSteps) and part.rate == 1) or (
        isinstance(part, FixedSizeSteps) and part.batch_size == part.n_rows
    )
    if not everything or not isinstance(part, PoissonSteps | FixedSizeSteps):
        return part
    profile = part.losses()
    assert isinstance(profile, GaussianProfile)
    return Gaussian(float(profile.mu[0, 0]))


def _one_profile(parts: tuple[Part, ...]) -> GaussianProfile | None:
    """The exact profile of at most one set of branches beside at most one Gaussian."""
    if not parts:
        return GaussianProfile.gaussian(0.0)
    *others, last = parts
    if not isinstance(last, Gaussian):
        return last.profile() if not others and isinstance(last, Branches) else None
    if not others:
        return last.profile()
    if len(others) == 1 and isinstance(others[0], Branches):
        return others[0].profile().compose_gaussian(last.mu)
    return None


@lru_cache(maxsize=64)
def _losses(parts: tuple[Part, ...]) -> Composition | None:
    """The privacy-loss distribution of all parts, or None where some part has none."""
    counted = Counter(parts)
    curves = [(_curve(part), count) for part, count in counted.items()]
    known = [(curve, count) for curve, count in curves if curve is not None]
    return composed(known) if len(known) == len(curves) and known else None


@lru_cache(maxsize=1024)
def _curve(part: Part) -> Curve | None:
    return part.curve()


@lru_cache(maxsize=256)
def _profile(part: Branches) -> GaussianProfile:
    return GaussianProfile(np.array(part.probability), np.array(part.offset), np.array(part.mu))


def _profile_curve(profile: GaussianProfile) -> Curve:
    def delta(epsilon: FloatArray) -> FloatArray:
        blocks = np.array_split(epsilon, 1 + epsilon.size * profile.mu.size // _BLOCK)
        logs = np.concatenate([profile._log_deltas(block) for block in blocks])
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


def _sampled_curve(losses: Composition | GaussianProfile) -> Curve | None:
    """The curve of composed steps, the worse of both orders of the neighbours."""
    if isinstance(losses, GaussianProfile):
        return _profile_curve(losses)
    tops = (losses.epsilon(delta) for delta in (TAIL, 1e4 * TAIL))
    top = next((top for top in tops if math.isfinite(top)), None)
    return None if top is None else Curve(losses.deltas, top)


def _up(value: float, rounded: bool = True) -> float:
    """A little above a value that was computed with a few roundings."""
    return value * (1 + 2**-50) if rounded else value


def _check(name: str, value: object, allowed: bool) -> None:
    if not allowed:
        raise InvalidInput(f"{name} of a cost is out of range: {value!r}.")


def _plain(part: Part) -> dict[str, Any]:
    return {field.name: getattr(part, field.name) for field in fields(part)}


def _part(stored: object) -> Part:
    kind = stored.get("kind") if isinstance(stored, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise InvalidInput(f"every part of a cost needs a kind, one of {', '.join(_KINDS)}.")
    assert isinstance(stored, dict)
    known = fields(_KINDS[kind])
    if set(stored) != {"kind", *(field.name for field in known)}:
        raise InvalidInput(f"a cost of kind {kind!r} has other keys than it should.")
    values = {field.name: _value(stored[field.name], str(field.type)) for field in known}
    return _KINDS[kind](**values)


def _value(value: object, wanted: str) -> Any:
    """A JSON value as the annotation ``wanted`` says, or a refusal."""
    whole = isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53
    if wanted.startswith("tuple[") and isinstance(value, list | tuple) and len(value) <= MOST_NUMBERS:
        inner = wanted.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_value(item, inner) for item in value)
    if wanted == "str" and isinstance(value, str) and len(value) <= 1000:
        return value
    if wanted == "int" and whole:
        return value
    if wanted == "float" and (whole or (isinstance(value, float) and math.isfinite(value))):
        return float(value)  # type: ignore[arg-type]
    raise InvalidInput("a number or text in a cost is of the wrong type or out of range.")
