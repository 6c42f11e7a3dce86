"""The guarantee computed anew in two ways, from what a certificate states.

Independently: sensitivities by the formulas of the proofs, priced by the certificate's own accountant. And by the
library itself, which plans the fit once more: every field that a plan decides must come out the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dperm import __version__
from dperm.certificate.accountant import Price
from dperm.certificate.assumptions import read_assumptions
from dperm.certificate.constants import Facts
from dperm.certificate.routes import Route
from dperm.certificate.routes.evidence import Evidence
from dperm.certificate.statement import OPTIONAL, mechanism_of, planned_part, problem_of
from dperm.errors import InvalidInput
from dperm.planning.rules import AUTO
from dperm.privacy import Budget

CLOSE = 1e-9


def check_constants(statement: Mapping[str, Any]) -> str:
    """The constants of loss and rows, from what was declared."""
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


def check_price(price: Price, claim: Evidence | Budget) -> str:
    """The price by the certificate's own accountant, against the claim."""
    reached = price.delta(claim.epsilon)
    if not price.meets(claim.epsilon, claim.delta):
        raise InvalidInput(
            f"the noise costs delta = {reached:.6g} at epsilon = {claim.epsilon:g}, above the "
            f"{claim.delta:g} claimed ({price.how})."
        )
    return f"delta = {reached:.6g} at epsilon = {claim.epsilon:g} ({price.how})"


def recomputed_price(route: Route, evidence: Evidence) -> Price:
    """The price of the stated releases, once each of them follows from the constants."""
    evidence.check_passages()
    price = None if evidence.faults else route(evidence)
    if price is None or evidence.faults:
        raise InvalidInput("; ".join(dict.fromkeys(evidence.faults[:3])) + ".")
    return price


def releases_checked(evidence: Evidence) -> str:
    """What was looked at in each release, and what could not be."""
    count = sum(release.count for release in evidence.all_releases)
    found = f"sensitivity, grid, padding, size and count of {count} releases"
    left = unchecked(evidence)
    return f"{found}; not checked: {'; '.join(left)}" if left else found


def unchecked(evidence: Evidence) -> tuple[str, ...]:
    return tuple(dict.fromkeys(evidence.not_checked))


def check_plan(statement: Mapping[str, Any], asked_l2: object = None) -> str:
    """Every field that a plan decides, from the library itself; and l2, where its rule was ``asked``."""
    mechanism = mechanism_of(statement["mechanism"]["asked"])
    problem, budget = problem_of(statement), Budget(**statement["budget"])
    intervals = {"inference": True} if "inference" in statement else {}
    if asked_l2 == AUTO:
        by_rule = mechanism.regularised(problem, budget, **intervals).l2
        if not math.isclose(problem.l2, by_rule, rel_tol=CLOSE):
            raise InvalidInput(f"problem, l2 is not what l2='auto' stands for{_other_version(statement)}.")
    plan = mechanism.plan(problem, budget, **intervals)
    around = read_assumptions("certificate, around", statement["around"])
    expected = planned_part(plan, statement["targets"], around)
    planned = (*expected, *(name for name in OPTIONAL if name != "search"))  # which a fit does not plan
    stated = {name: statement[name] for name in planned if name in statement}
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
    return (
        f"; the certificate was written by dperm {written}, and this is dperm {__version__}: verify it with the "
        "version that wrote it"
    )


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


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _leaves(inner)
    else:
        yield value
