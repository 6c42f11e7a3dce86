"""The plans that are replayed: short runs of a mechanism on all problems and settings in which its code differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from itertools import islice, product
from types import MappingProxyType
from typing import Any

from dperm.errors import DpermError
from dperm.losses import Logistic, Weighted, example_losses
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.standardising import BOUNDED, LINEAR
from dperm.planning.rules import AUTO
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import Neighbours

BUDGET = Budget(0.2, 1e-6)  # a small epsilon is priced sooner
FACTS: dict[str, Any] = {"l2": 0.3, "intercept": 0.5, "x_norm": 1.5, "n_rows": 24, "n_features": 3}
HEAVIEST = 3.0  # weight of a row, where rows have weights
STRONG = 5.0  # the l2 with which a perturbed objective of so few rows is private for any loss
# Short runs, for the settings of these names. Where a theorem needs more, the defaults are kept.
BRIEF: dict[str, Any] = {
    "steps": 4,
    "epochs": 5,
    "average_every": 2,
    "passes": 2,
    "iterations": 4,
    "outer": 2,
    "splits": 4,
    "candidates": 5,
    "batch_size": 7,
    "rate": 0.5,
}
# Settings that lead through other code, or another theorem, than the defaults do.
OTHERWISE: dict[str, tuple[Any, ...]] = {
    "clip": (0.4, None),
    "split": (0.3,),
    "adaptive": (False,),
    "secret_order": (False,),
    "radius": (2.0,),
    "lazy": (True,),
    "rule": ("convex-constant", "convex-decreasing", "strong-constant"),
    "tolerance": (0.5,),
    "rate": (1.0,),
}
# What else must be set for a setting to have an effect.
BESIDES: dict[str, dict[str, Any]] = {"adaptive": {"clip": None}}
# Sizes and budgets for which ``auto`` chooses otherwise: what it trains with depends on how large the noise is.
WIDE: dict[str, Any] = {"n_features": 24}
WIDEST: dict[str, Any] = {"n_features": 401}
CLEAR, CLEAR_BUDGET = {**WIDE, "n_rows": 6000}, Budget(4.0, 1e-6)
# So large that even of few rows the released moments tell something, and the map depends on more than noise.
TELLING_BUDGET = Budget(20.0, 1e-3)


def plain(mechanism: Mechanism) -> Mechanism:
    """On rows as they came, unless it was said how to standardise them: noise is tried without another's before it."""
    return replace(mechanism, standardise=False) if mechanism.standardise == AUTO else mechanism


def replay_cases(mechanism: Mechanism, budget: Budget = BUDGET, thorough: bool = False) -> Iterator[Plan]:
    """Plans for short runs on all problems that the mechanism says it fits, plain, standardised and otherwise set.

    ``thorough`` adds problems without an intercept and problems without l2.
    """
    facts = [FACTS]
    if thorough:
        facts += [{**FACTS, "intercept": 0.0}, {**FACTS, "l2": 0.0}]
    losses, chooses = example_losses(), False
    for loss, relation, public in product(losses, Neighbours, facts):
        problem = Problem(loss=loss, neighbours=relation, **public)
        for settings in ({}, *other_settings(mechanism)):
            for plan in plans_for(mechanism, [problem], budget, settings):
                chooses = chooses or plan.trained_by is not plan
                yield plan
    # One plan for each kind of labels and relation, for rows that weigh up to HEAVIEST.
    for labels, relation in product(("binary", "real", "classes"), Neighbours):
        heavy = {**FACTS, "neighbours": relation, "l2": HEAVIEST * FACTS["l2"]}
        models = [loss for loss in losses if loss.labels == labels and loss.is_model]
        weighted = (Problem(loss=Weighted(loss, HEAVIEST), **heavy) for loss in models)
        yield from islice(plans_for(mechanism, weighted, budget), 1)
    # One standardised plan for each relation whose moments are above their noise, and one as it is by default.
    for relation in Neighbours:
        problems = [Problem(loss=loss, neighbours=relation, **FACTS) for loss in losses]
        standardised = {"accounting": "tight", "standardise": LINEAR}
        yield from islice(plans_for(mechanism, problems, TELLING_BUDGET, standardised), 1)
        yield from islice(plans_for(mechanism, problems, budget, {"standardise": AUTO}), 1)
    # With a release for intervals, for each loss and relation that it can be had for.
    both = [
        Problem(loss=loss, neighbours=relation, **FACTS) for loss, relation in product(losses, Neighbours)
    ]
    yield from plans_for(mechanism, both, budget, inference=True)
    for problem in both if chooses else ():
        sizes = [(WIDE, budget)]
        sizes += [(WIDEST, budget)] if isinstance(problem.loss, Logistic) else []
        sizes += [(CLEAR, CLEAR_BUDGET)] if problem.loss.labels == "binary" else []
        for public, budget in sizes:
            standardised = {"standardise": LINEAR}
            yield from plans_for(mechanism, [replace(problem, **public)], budget, standardised, brief={})


def other_settings(mechanism: Mechanism) -> Iterator[dict[str, Any]]:
    """Standardised rows in both variants, and each setting of ``OTHERWISE`` that the mechanism has."""
    exact: dict[str, Any] = {} if mechanism.accounting == "tight" else {"accounting": "tight"}
    yield from ({**exact, "standardise": variant} for variant in (LINEAR, BOUNDED))
    if exact:
        yield exact
    for name, values in OTHERWISE.items():
        for value in values if name in mechanism.settings else ():
            yield {**BESIDES.get(name, {}), name: value}


def plans_for(
    mechanism: Mechanism,
    problems: Iterable[Problem],
    budget: Budget,
    changes: Mapping[str, Any] = MappingProxyType({}),
    **how: Any,
) -> Iterator[Plan]:
    """Those of the problems that there is a :func:`short_plan` for."""
    plans = (short_plan(mechanism, problem, budget, changes, **how) for problem in problems)
    return (plan for plan in plans if plan is not None)


def short_plan(
    mechanism: Mechanism,
    problem: Problem,
    budget: Budget,
    changes: Mapping[str, Any],
    brief: Mapping[str, Any] = BRIEF,
    *,
    inference: bool = False,
) -> Plan | None:
    """A plan for short runs, or with more of the mechanism's own settings, or more l2, if it refuses; or None."""
    known = {part.name for part in fields(mechanism)} & set(brief)
    stronger = [replace(problem, l2=STRONG)] if 0 < problem.l2 < STRONG else []
    for tried, kept in product([problem, *stronger], (known, known - {"batch_size"}, set[str]())):
        try:
            wanted = {name: brief[name] for name in kept}
            changed = replace(plain(mechanism), **{**wanted, **changes})
            return changed.plan(tried, budget, inference=True) if inference else changed.plan(tried, budget)
        except DpermError:
            continue
    return None
