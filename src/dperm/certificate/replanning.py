"""The fit planned once more, by the library itself: every field that a plan decides must come out the same."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dperm import __version__
from dperm.certificate.document import mechanism_of
from dperm.certificate.statement import OPTIONAL, VERSION, planned_part, problem_of
from dperm.errors import InvalidInput
from dperm.planning.rules import AUTO
from dperm.privacy import Budget

CLOSE = 1e-9


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
    expected = planned_part(plan, statement["targets"], statement["around"])
    expected["version"] = statement["version"]  # of the form; an older one says the same of the plan
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
    written, form = statement["libraries"]["dperm"], statement["version"]
    if written == __version__ and form == VERSION:
        return ""
    return (
        f"; the certificate has version {form} and was written by dperm {written}, this is version {VERSION} of dperm "
        f"{__version__}: verify it with the version that wrote it"
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
