"""Check a model file's certificate: recompute its guarantee by a second route, then plan the fit once more."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dperm import __version__
from dperm.certificate.accountant import Price
from dperm.certificate.constants import unproven
from dperm.certificate.document import describe, is_finite_float, matches, mechanism_of
from dperm.certificate.facts import Facts
from dperm.certificate.routes import ROUTES
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.statement import (
    CAUTION,
    CHOSEN_BLINDLY,
    DECLARED,
    FEATURES_ASSUMED,
    NOT_MET,
    RELEASED,
    UNIT,
    UNITS,
    check_digests,
    check_statement,
    planned_part,
    problem_of,
)
from dperm.errors import DpermError, InvalidInput
from dperm.mechanisms import resolve
from dperm.privacy import Budget
from dperm.privacy.entropy import SystemEntropy

STRUCTURE, FORMULA, SECOND, REPLANNED = (
    "structure",
    "formulas of the proof",
    "second accountant",
    "planned again",
)
CLOSE = 1e-9
LARGEST_COUNT = 10_000_000
_LOSSES = {
    "PrivateLogisticRegression": ("logistic", "softmax"),
    "PrivateLinearSVC": ("huber-hinge",),
    "PrivateLinearRegression": ("squared",),
}
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

    def objections(self, guarantee: Mapping[str, float], unit: str) -> tuple[str, ...]:
        """What of it a guarantee does not meet."""
        found = []
        for name, most in (("epsilon", self.max_epsilon), ("delta", self.max_delta)):
            if most is not None and not guarantee[name] <= most:
                found.append(f"{name} = {guarantee[name]:g} is above the {most:g} allowed")
        if self.unit is not None and unit != UNITS[self.unit]:
            found.append(f"it protects {unit}, and {UNITS[self.unit]} was asked for")
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
    unmet: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
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
        return (*self.unmet, *self.unproven) or self.requirements.objections(self.claim, self.unit)

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

    def __str__(self) -> str:
        if self.ok:
            assert self.claim is not None
            head = (
                f"OK: ({self.claim['epsilon']:g}, {self.claim['delta']:g})-differentially private for {self.unit}, "
                f"{self.relation}; {self.how}"
            )
        else:
            head = f"NOT OK: {self.objections[0]}"
        rest = [f"not checked: {line}" for line in self.not_checked] if self.ok else list(self.objections[1:])
        return "\n  ".join(_printable(line) for line in (head, *rest, *self.cautions))


def _printable(line: str) -> str:
    """One line, whatever a hostile file put into it."""
    return "".join(letter if letter.isprintable() else "?" for letter in line)


def verify(
    document: Mapping[str, Any],
    *,
    max_epsilon: float | None = None,
    max_delta: float | None = None,
    unit: str | None = None,
) -> Verdict:
    """Whether a model file claims a guarantee that follows from the constants that it states.

    Parameters
    ----------
    document : mapping
        As :func:`dperm.estimators.saved.read_document` gives it.
    max_epsilon, max_delta : float, optional
        The largest guarantee that is ``ok``.
    unit : {"row", "person"}, optional
        Whom the guarantee must protect. Certificates of today are about one row, so "person" is never ``ok``.

    Guarantee
    ---------
    Of an accepted file with a guarantee: the stated noise costs at most the stated epsilon and delta, with the
    sensitivities that the proofs give for the stated constants, those named in ``not_checked`` excepted; numbers,
    schema and certificate belong together.

    Assumes
    -------
    That the file tells what was done. Who writes a false statement that is consistent in itself is not found out:
    no file can show that noise was really drawn, or that rows were really bounded.
    """
    requirements = Requirements(max_epsilon=max_epsilon, max_delta=max_delta, unit=unit)
    examination = _Examination()
    statement = examination.run("shape of the file", STRUCTURE, lambda: _shape(document))
    if statement is None:
        return examination.verdict(requirements)
    examination.run("digests", STRUCTURE, lambda: check_digests(document))
    examination.run("claim", STRUCTURE, lambda: _claim(statement))
    examination.run("parameters of the estimator", STRUCTURE, lambda: _parameters(document, statement))
    examination.statement = statement
    computable = statement["guarantee"] is not None and not unproven(statement)
    if computable and examination.sound:
        examination.run("constants", FORMULA, lambda: _constants(statement))
    if computable and examination.sound:
        examination.recompute(statement)
    if examination.sound:
        examination.run("the whole plan", REPLANNED, lambda: _plan_again(statement))
    return examination.verdict(requirements)


class _Examination:
    """The checks made so far."""

    def __init__(self) -> None:
        self.checks: list[Check] = []
        self.statement: Mapping[str, Any] | None = None
        self.price: Price | None = None
        self.not_checked: tuple[str, ...] = ()

    @property
    def sound(self) -> bool:
        return all(check.passed for check in self.checks)

    def run(self, name: str, route: str, work: Callable[[], Any]) -> Any:
        """Do one check: an error is a failure, a text or a pair (value, text) tells what was found."""
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

    def recompute(self, statement: Mapping[str, Any]) -> None:
        """Sensitivities by the formulas of the proof page, then the price by the second accountant."""
        name = statement["mechanism"]["chosen"]["name"]
        route = ROUTES.get(name) if type(resolve(name)).__module__.startswith("dperm.") else None
        if route is None:
            return
        evidence = Evidence(statement, Facts.of(statement))

        def releases() -> str:
            evidence.check_passages()
            if not evidence.faults:
                self.price = route(evidence)
            if evidence.faults:
                raise InvalidInput("; ".join(dict.fromkeys(evidence.faults[:3])) + ".")
            self.not_checked = tuple(dict.fromkeys(evidence.not_checked))
            passages = sum(release.count for release in evidence.all_releases)
            found = f"sensitivity, grid, padding, size and count of {passages} releases"
            return f"{found}; not checked: {'; '.join(self.not_checked)}" if self.not_checked else found

        self.run("releases", FORMULA, releases)
        if self.price is not None and self.sound:
            self.run("epsilon at delta", SECOND, lambda: _priced(self.price, evidence))

    def verdict(self, requirements: Requirements) -> Verdict:
        statement = self.statement or {"guarantee": None, "reason": None, "unit": "", "relation": ""}
        assumed = statement.get("assumptions", ())
        return Verdict(
            checks=tuple(self.checks),
            claim=statement["guarantee"],
            reason=statement["reason"],
            unit=statement["unit"],
            relation=statement["relation"],
            price=self.price if self.sound else None,
            unmet=tuple(line for line in assumed if line.startswith(NOT_MET)),
            unproven=() if self.statement is None else unproven(self.statement),
            cautions=tuple(line for line in assumed if line.startswith(CAUTION)),
            not_checked=self.not_checked,
            requirements=requirements,
        )


def _shape(document: Mapping[str, Any]) -> dict[str, Any]:
    needed = (*RELEASED, "parameters", "estimator", "schema", "certificate", "digest")
    if not isinstance(document, Mapping) or not set(needed) <= set(document):
        raise InvalidInput("a model file with a certificate was expected.")
    statement = check_statement(document["certificate"])
    for place in ("asked", "chosen"):
        mechanism_of(statement["mechanism"][place])
        settings = statement["mechanism"][place]["settings"]
        _check_sizes({f"{place}, {name}": value for name, value in settings.items()})
    _check_sizes(statement["mechanism"]["used"])
    return statement


def _check_sizes(settings: Mapping[str, Any]) -> None:
    for name, value in settings.items():
        if isinstance(value, int) and not isinstance(value, bool) and not 0 <= value <= LARGEST_COUNT:
            raise InvalidInput(f"mechanism, {name} = {value} is out of the range that can be checked.")


def _claim(statement: Mapping[str, Any]) -> str:
    """Who may claim a guarantee at all."""
    if statement["unit"] != UNIT:
        raise InvalidInput(f"unit must be {UNIT!r}.")
    if statement["bounds"] != DECLARED:
        raise InvalidInput(f"bounds must be {DECLARED!r}: bounds from the data are not covered.")
    if statement["guarantee"] is None:
        return "no guarantee is claimed"
    entropy = statement["entropy"]
    if not entropy["secure"] or entropy["source"] != SystemEntropy.name:
        raise InvalidInput("a guarantee is claimed for noise that did not come from the operating system.")
    if not statement["certified_arithmetic"]:
        raise InvalidInput("a guarantee is claimed for arithmetic that the plan does not account for.")
    if not statement["releases"]:
        raise InvalidInput("a guarantee is claimed without a release that has noise.")
    around = statement["around"]
    unmet = any(line.startswith(NOT_MET) for line in around)
    if not (unmet or any(line.endswith(CHOSEN_BLINDLY) for line in around)):
        raise InvalidInput("around does not say how the settings were chosen.")
    if not (unmet or FEATURES_ASSUMED in around):
        raise InvalidInput("around does not say how the features came about.")
    return "noise from the operating system, arithmetic as planned"


def _parameters(document: Mapping[str, Any], statement: Mapping[str, Any]) -> str:
    """The estimator's own parameters must tell the same story."""
    stated, problem = document.get("parameters"), statement["problem"]
    if not isinstance(stated, Mapping):
        raise InvalidInput("parameters must be an object.")
    mechanism = stated.get("mechanism")
    asked = describe(resolve(mechanism) if isinstance(mechanism, str) else mechanism_of(mechanism))
    removable = statement["relation"] == "add-remove"
    expected = {
        "epsilon": statement["budget"]["epsilon"],
        "delta": statement["budget"]["delta"],
        "l2": problem["l2"],
        "x_norm": problem["x_norm"],
        "neighbours": statement["relation"],
        "fit_intercept": problem["intercept"] > 0,
        "max_rows": problem["n_rows"] if removable else None,
    }
    if problem["loss"] == "squared":
        expected["residual_bound"] = problem["loss_parameters"][0]
        expected["y_range"] = [statement["targets"]["low"], statement["targets"]["high"]]
    for name, value in expected.items():
        found = stated.get(name)
        if name not in stated or found != value or isinstance(found, bool) != isinstance(value, bool):
            raise InvalidInput(f"parameter {name} is not what the certificate states.")
    if problem["loss"] not in _LOSSES.get(str(document.get("estimator")), ()):
        raise InvalidInput("the loss is not that of the estimator.")
    if asked != statement["mechanism"]["asked"]:
        raise InvalidInput("parameter mechanism is not the one that the certificate states.")
    _check_shape(document, problem)
    if statement["targets"]["kind"] == "classes":
        classes = document.get("classes")
        if not isinstance(classes, list) or len(classes) != statement["targets"]["count"]:
            raise InvalidInput("targets, count is not the number of classes.")
        declared = stated.get("classes")
        if (declared is not None) != (statement["targets"]["origin"] == DECLARED):
            raise InvalidInput("targets, origin does not agree with the parameter classes.")
        if declared is not None and declared != classes:
            raise InvalidInput("the parameter classes is not the list of classes.")
    if (stated.get("random_state") is None) != (statement["entropy"]["source"] == SystemEntropy.name):
        raise InvalidInput("entropy does not agree with the parameter random_state.")
    return "epsilon, delta, bounds, relation, mechanism and targets agree"


def _check_shape(document: Mapping[str, Any], problem: Mapping[str, Any]) -> None:
    """As many coefficients as the certificate is about."""
    rows = document["coefficients"] if problem["outputs"] > 1 else [document["coefficients"]]
    if not (isinstance(rows, list) and all(isinstance(row, list) for row in rows)):
        raise InvalidInput("coefficients must be lists of numbers.")
    if (len(rows), {len(row) for row in rows}) != (problem["outputs"], {problem["n_features"]}):
        raise InvalidInput("problem, n_features and outputs are not those of the coefficients.")


def _constants(statement: Mapping[str, Any]) -> str:
    facts, problem = Facts.of(statement), statement["problem"]
    derived = {
        "lipschitz": facts.slope,
        "smoothness": facts.curvature,
        "row_norm": facts.r,
        "n_coefficients": facts.dimension,
    }
    for name, value in derived.items():
        if not math.isclose(problem[name], value, rel_tol=1e-12):
            raise InvalidInput(f"problem, {name} is stated as {problem[name]:.12g}; it is {value:.12g}.")
    Budget(**statement["budget"])
    return f"{problem['loss']} loss, bounds of rows and gradients, number of coefficients"


def _priced(price: Price | None, evidence: Evidence) -> str:
    assert price is not None
    reached = price.delta(evidence.epsilon)
    if not price.meets(evidence.epsilon, evidence.delta):
        raise InvalidInput(
            f"the noise costs delta = {reached:.6g} at epsilon = {evidence.epsilon:g}, above the "
            f"{evidence.delta:g} claimed ({price.how})."
        )
    return f"delta = {reached:.6g} at epsilon = {evidence.epsilon:g} ({price.how})"


def _plan_again(statement: Mapping[str, Any]) -> str:
    """Every field that a plan decides, from the library itself."""
    mechanism = mechanism_of(statement["mechanism"]["asked"])
    plan = mechanism.plan(problem_of(statement), Budget(**statement["budget"]))
    expected = planned_part(plan, statement["targets"], statement["around"])
    stated = {name: statement[name] for name in expected}
    difference = first_difference(stated, expected)
    if difference is not None:
        raise InvalidInput(f"{difference} is not what this plan gives{_other_version(statement)}.")
    if statement["guarantee"] is not None and (not plan.private or plan.not_certified is not None):
        raise InvalidInput(plan.not_certified or "the mechanism has no noise, so it has no guarantee.")
    if statement["guarantee"] is not None:
        _planned_noise(statement, plan.noise)
    return f"{sum(1 for _ in _leaves(expected))} numbers and words agree with a new plan"


def _other_version(statement: Mapping[str, Any]) -> str:
    """Rules for settings that the user leaves open may change from version to version."""
    written = statement["libraries"]["dperm"]
    if written == __version__:
        return ""
    return f"; the file was written by dperm {written} and this is {__version__}: verify it with that version"


def _planned_noise(statement: Mapping[str, Any], noise: Any) -> None:
    """The noise of the plan must be among the releases; dp-gd may follow the weights, but only at the same cost."""
    exact = statement["mechanism"]["chosen"]["name"] != "dp-gd"
    scale = noise.scale if exact else noise.scale / noise.padded(noise.sensitivity)
    for release in statement["releases"]:
        stated = release["noise_scale"] / (1 if exact else release["padded_sensitivity"])
        same = math.isclose(stated, scale, rel_tol=CLOSE)
        if same and (not exact or math.isclose(release["sensitivity"], noise.sensitivity, rel_tol=CLOSE)):
            return
    raise InvalidInput("releases, noise_scale: the noise of the plan was not used.")


def first_difference(stated: Any, expected: Any, where: str = "") -> str | None:
    """Path of the first place at which two JSON values differ; floats may differ by a relative 1e-9."""
    if isinstance(expected, dict) and isinstance(stated, dict) and stated.keys() == expected.keys():
        parts = ((key, stated[key], expected[key]) for key in expected)
    elif isinstance(expected, list) and isinstance(stated, list) and len(stated) == len(expected):
        parts = ((str(i), a, b) for i, (a, b) in enumerate(zip(stated, expected, strict=True)))
    elif isinstance(expected, float) and isinstance(stated, float | int) and not isinstance(stated, bool):
        return None if math.isclose(stated, expected, rel_tol=CLOSE) else where
    else:
        return None if type(stated) is type(expected) and stated == expected else where
    for key, a, b in parts:
        found = first_difference(a, b, f"{where}, {key}" if where else key)
        if found is not None:
            return found
    return None


def _leaves(value: Any) -> Any:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value
