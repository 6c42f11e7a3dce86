"""Checks made one after the other, what they found, and whether that is enough."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm.certificate.accountant import Price
from dperm.certificate.assumptions import Assumption
from dperm.errors import DpermError, InvalidInput
from dperm.strict_json import is_finite_float, matches
from dperm.unit import UNITS, PrivacyUnit

STRUCTURE, FORMULA, SECOND, REPLANNED = (
    "structure",
    "formulas of the proof",
    "second accountant",
    "planned again",
)
"""By which route a check was made."""
_BROKEN = (ArithmeticError, ValueError, TypeError, LookupError, MemoryError, AssertionError, DpermError)


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing that was checked, by which route, and what was found."""

    name: str
    route: str
    passed: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Requirements:
    """What the user asks of a model beyond a guarantee that stands: a largest price, and whom it protects."""

    max_epsilon: float | None = None
    max_delta: float | None = None
    unit: str | None = None

    def __post_init__(self) -> None:
        for name in ("max_epsilon", "max_delta"):
            value = getattr(self, name)
            if value is not None and not (is_finite_float(value) or matches(value, int)):
                raise InvalidInput(f"{name} must be a finite number; got {value!r}.")
            if value is not None and value < 0:
                raise InvalidInput(f"{name} must be at least 0; got {value!r}.")
        if self.unit is not None and self.unit not in UNITS:
            raise InvalidInput(f"unit must be one of {', '.join(UNITS)}; got {self.unit!r}.")

    def objections(self, guarantee: Mapping[str, float], unit: str, relation: str) -> tuple[str, ...]:
        """What of it a guarantee for a unit, in words, does not meet."""
        found = []
        for name, most in (("epsilon", self.max_epsilon), ("delta", self.max_delta)):
            if most is not None and not guarantee[name] <= most:
                found.append(f"{name} = {guarantee[name]:g} is above the {most:g} allowed")
        if self.unit is not None and not PrivacyUnit.in_words(unit, relation).protects(self.unit):
            why = f" under {relation}" if unit == UNITS["person"] else ""
            found.append(f"it protects {unit}{why}, and {UNITS[self.unit]} was asked for")
        return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Verdict:
    """What the verification of a model file found.

    ``ok`` is the answer: a guarantee is claimed, every check passed, nothing is NOT MET and the requirements hold;
    otherwise ``objections`` say why not. ``guarantee`` is the (epsilon, delta) that stands, None if none does.
    ``accepted`` tells only that the file follows from what it states, ``reason`` why it claims no guarantee.
    ``unmet`` are assumptions of which the file itself says that they were not met, ``cautions`` what else it warns of.
    ``unproven`` is what the claim rests on and nothing here can confirm: the constants of a loss from elsewhere.

    ``independent`` tells whether all of the price was computed anew by a second accountant. Two things stand against
    it: a mechanism from elsewhere can only be planned again, and a sensitivity that follows the weights cannot be
    computed from the file, which does not hold them; ``not_checked`` names those.
    """

    checks: tuple[Check, ...]
    claim: Mapping[str, float] | None
    reason: str | None
    unit: str = ""
    relation: str = ""
    price: Price | None = None
    unmet: tuple[Assumption, ...] = ()
    unproven: tuple[str, ...] = ()
    cautions: tuple[Assumption, ...] = ()
    not_checked: tuple[str, ...] = ()
    requirements: Requirements = field(default_factory=Requirements)

    @property
    def accepted(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[str, ...]:
        return tuple(f"{check.name}: {check.detail}" for check in self.checks if not check.passed)

    @property
    def guarantee(self) -> Mapping[str, float] | None:
        return self.claim if self.accepted and not self.unmet and not self.unproven else None

    @property
    def independent(self) -> bool:
        return self.accepted and self.price is not None and not self.not_checked

    @property
    def objections(self) -> tuple[str, ...]:
        """Why the model is not ok, the gravest first."""
        if not self.accepted:
            return self.failures
        if self.claim is None:
            return (f"no guarantee is claimed: {self.reason}",)
        return (*map(str, self.unmet), *self.unproven) or self.requirements.objections(
            self.claim, self.unit, self.relation
        )

    @property
    def ok(self) -> bool:
        return not self.objections

    @property
    def how(self) -> str:
        """By which route the price was found."""
        if self.independent:
            return "recomputed independently"
        if self.price is not None:
            return "recomputed from the stated sensitivities, of which some are not checked"
        return "planned again, not independently recomputed"

    @property
    def headline(self) -> str:
        """One line: the guarantee that stands, or the gravest objection."""
        if self.objections:
            return _printable(f"NOT OK: {self.objections[0]}")
        assert self.claim is not None
        guarantee = f"({self.claim['epsilon']:g}, {self.claim['delta']:g})-differentially private"
        return _printable(f"OK: {guarantee} for {self.unit}, {self.relation}; {self.how}")

    def __str__(self) -> str:
        rest = self.objections[1:] or [f"not checked: {line}" for line in self.not_checked if self.ok]
        return "\n  ".join([self.headline, *map(_printable, (*rest, *map(str, self.cautions)))])


def _printable(line: str) -> str:
    """One line, whatever a hostile file put into it."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


class Examination:
    """The checks made so far."""

    def __init__(self) -> None:
        self.checks: list[Check] = []

    @property
    def sound(self) -> bool:
        return all(check.passed for check in self.checks)

    def run(self, name: str, route: str, work: Callable[[], Any]) -> Any:
        """Do one check: an error is a failure, a text tells what was found."""
        value, detail, passed = None, "", True
        try:
            with np.errstate(divide="raise", over="raise", invalid="raise"):
                value = work()
            detail = value if isinstance(value, str) else "as it should be"
        except _BROKEN as error:
            passed = False
            detail = str(error) or type(error).__name__
        self.checks.append(Check(name=name, route=route, passed=passed, detail=detail))
        return value
