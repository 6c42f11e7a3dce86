"""The plans that are replayed with persons: short runs on all kinds of persons, losses, relations and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product
from typing import Any

from dperm.audit.replay_cases import BUDGET, FACTS, HEAVIEST, OTHERWISE, short_plan
from dperm.errors import DpermError
from dperm.estimators.persons import declared_persons, loss_of_persons
from dperm.losses import Loss, Weighted, example_losses
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.standardising import BOUNDED, LINEAR
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import PersonLoss

KINDS: tuple[tuple[PersonLoss, int | None], ...] = ((PersonLoss.MEAN, None), (PersonLoss.SUM, 3))
OTHER_KINDS = ((PersonLoss.MEAN, 3), (PersonLoss.SUM, 50), (PersonLoss.MEAN, 1))


def person_cases(mechanism: Mechanism, budget: Budget = BUDGET) -> Iterator[Plan]:
    """Plans for tables of persons, as estimators make them: every loss and relation, and every other setting once."""
    plain = product(example_losses(), Neighbours, KINDS)
    yield from _planned(mechanism, budget, (person_problem(*facts) for facts in plain))
    for relation, kind in product(Neighbours, KINDS):
        for changes in _settings(mechanism):
            problems = (person_problem(loss, relation, kind) for loss in example_losses())
            yield from islice(_planned(mechanism, budget, problems, changes), 1)
    for relation, kind in product(Neighbours, OTHER_KINDS):
        problems = (person_problem(loss, relation, kind) for loss in example_losses())
        yield from islice(_planned(mechanism, budget, problems), 1)
    for relation, kind in product(Neighbours, KINDS):
        weighted = (
            person_problem(Weighted(loss, HEAVIEST), relation, kind)
            for loss in example_losses()
            if loss.is_model
        )
        yield from islice(_planned(mechanism, budget, weighted), 1)


def person_problem(
    loss: Loss, relation: Neighbours, kind: tuple[PersonLoss, int | None], **facts: Any
) -> Problem:
    """A problem as an estimator states it for persons. The heavier a person may be, the more l2."""
    public = {**FACTS, **facts}
    persons = declared_persons(True, kind[0].value, kind[1], public["n_rows"])
    weighted = loss_of_persons(loss, persons)
    l2 = public["l2"] * max(1.0, weighted.heaviest)
    return Problem(loss=weighted, neighbours=relation, persons=persons, **{**public, "l2": l2})


def refused_settings(mechanism: Mechanism) -> Iterator[tuple[str, str]]:
    """Settings that a mechanism refuses for persons with several rows alone, and why."""
    for setting in _settings(mechanism):
        changed = replace(mechanism, **setting)
        for loss, relation in product(example_losses(), Neighbours):
            problem = person_problem(loss, relation, KINDS[0])
            reason = changed.misfit(problem)
            if reason is not None and mechanism.misfit(problem) is None:
                yield " ".join(f"{name}={value}" for name, value in setting.items()), reason
                break


def _settings(mechanism: Mechanism) -> Iterator[dict[str, Any]]:
    exact: dict[str, Any] = {} if mechanism.accounting == "tight" else {"accounting": "tight"}
    yield from ({**exact, "standardise": variant} for variant in (LINEAR, BOUNDED))
    if exact:
        yield exact
    for name, values in OTHERWISE.items():
        for value in values if name in mechanism.settings else ():
            yield {name: value}


def _planned(
    mechanism: Mechanism, budget: Budget, problems: Iterator[Problem], changes: dict[str, Any] | None = None
) -> Iterator[Plan]:
    for problem in problems:
        try:
            plan = short_plan(mechanism, problem, budget, changes or {})
        except DpermError:
            continue
        if plan is not None:
            yield plan
