"""What was released, as plain data with checked numbers. How it is priced is in ``cost``."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, ClassVar, get_args

import numpy as np

from dperm.errors import InvalidInput
from dperm.privacy.profile import GaussianProfile
from dperm.unit import Neighbours

MOST_NUMBERS = 1_000_000  # in one profile
MOST_STEPS = 10**8


@dataclass(frozen=True)
class Gaussian:
    """Gaussian releases with root-sum-square ``mu`` of sensitivity over noise scale."""

    kind: ClassVar[str] = "gaussian"
    mu: float

    def __post_init__(self) -> None:
        _check("mu", self.mu, 0 <= self.mu < 1e6)

    def profile(self) -> GaussianProfile:
        return GaussianProfile.gaussian(self.mu)


@dataclass(frozen=True)
class Branches:
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


@dataclass(frozen=True)
class SampledCurve:
    """Points of a privacy curve delta(epsilon); as it is convex in exp(epsilon), chords between them lie above it."""

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


@dataclass(frozen=True)
class PoissonSteps:
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


@dataclass(frozen=True)
class FixedSizeSteps:
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


@dataclass(frozen=True)
class Concentrated:
    """rho-zCDP."""

    kind: ClassVar[str] = "zcdp"
    rho: float

    def __post_init__(self) -> None:
        _check("rho", self.rho, 0 < self.rho < 1e6)


@dataclass(frozen=True)
class Point:
    """One (epsilon, delta) guarantee and nothing more."""

    kind: ClassVar[str] = "point"
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon, 0 <= self.epsilon < 1e6)
        _check("delta", self.delta, 0 <= self.delta < 1)


@dataclass(frozen=True)
class Unbounded:
    """No guarantee at all, and why."""

    kind: ClassVar[str] = "unbounded"
    reason: str


PrivacyEvent = (
    Gaussian | Branches | SampledCurve | PoissonSteps | FixedSizeSteps | Concentrated | Point | Unbounded
)
"""Whatever has a price. ``kind`` is its name in JSON."""


@lru_cache(maxsize=256)
def _profile(event: Branches) -> GaussianProfile:
    return GaussianProfile(np.array(event.probability), np.array(event.offset), np.array(event.mu))


def _check(name: str, value: object, allowed: bool) -> None:
    if not allowed:
        raise InvalidInput(f"{name} of a cost is out of range: {value!r}.")


_KINDS: dict[str, type[PrivacyEvent]] = {event.kind: event for event in get_args(PrivacyEvent)}


def event_to_json(event: PrivacyEvent) -> dict[str, Any]:
    return {"kind": event.kind, **{field.name: getattr(event, field.name) for field in fields(event)}}


def event_from_json(stored: object) -> PrivacyEvent:
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
