"""The attacks on every registered mechanism: settings, neighbours and view for which its claim is tightest.

A mechanism declares its own worst cases (``Mechanism.worst_cases``); what it declares nothing of is tried on problems
that its theorem covers. The linear loss attains every sensitivity, so most attacks use it. The tables are tiny: a
claim says nothing of how many rows there are. Where a mechanism composes steps, a few are enough to see that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np

from dperm.errors import DpermError, InvalidInput
from dperm.losses import ClippedSquared, HuberHinge, Linear, Logistic, Loss, Softmax
from dperm.mechanisms import Mechanism, Plan, mechanism_names, resolve
from dperm.mechanisms.gradient.family import GradientMechanism
from dperm.mechanisms.gradient.noisy_sgd import HiddenPlan
from dperm.mechanisms.output.family import DescentPlan
from dperm.mechanisms.worst_case import WorstCase
from dperm.privacy import Budget
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.attack import (
    RELEASES,
    WEIGHTS,
    Attack,
    lone_pair,
    opposing_pair,
    opposite_pair,
    sideways_pair,
)
from dperm_audit.neighbours import Pair
from dperm_audit.replay_cases import plain

ROWS = 8
SECOND = 0.1  # share of the runs for attacks after the first
FEW_RUNS, SYSTEM_RUNS, SOFTMAX_JOBS = 1500, 2000, 500
STANDARDISED_RUNS = 3000  # they go one by one
CLIP = 0.25  # a quarter of what a gradient of these problems may be
BUDGET = Budget(1.0, 1e-2)

LOSSES: tuple[Loss, ...] = (Linear(), Logistic(), ClippedSquared(), HuberHinge(), Softmax(3))
LINEAR = Problem(loss=Linear(), l2=0.01, x_norm=1.0, n_rows=ROWS, n_features=1)
CLASSES = replace(LINEAR, loss=Softmax(3))


def audited_names() -> tuple[str, ...]:
    """Every registered mechanism that claims to be private."""
    return tuple(name for name in mechanism_names() if resolve(name).private)


def attacks_on(name: str) -> tuple[Attack, ...]:
    """The attacks on a registered mechanism; the first is the one meant to reach its claim."""
    if name not in audited_names():
        raise InvalidInput(
            f"no private mechanism is named {name!r}; choose from {', '.join(audited_names())}."
        )
    case, *others = resolve(name).worst_cases
    mechanism = plain(replace(resolve(name), **case.settings))
    first = _case(mechanism, case)
    second = [
        *_on_the_intercept(mechanism),
        *_unequal_batches(mechanism),
        *(_case(mechanism, other) for other in others),
        *_clipped_and_classes(mechanism),
        *_standardised(mechanism),
        _by_the_system(mechanism, first.problem),
    ]
    more = (replace(attack, share=attack.share * case.share * SECOND) for attack in second)
    return (first, *more)


def attacks_by(mechanism: Mechanism, problem: Problem, pair: Pair | None = None) -> tuple[Attack, ...]:
    """Attacks on any mechanism for any problem: on what it releases and on its weights, and on the intercept."""
    mine = lone_pair(problem) if pair is None else pair
    found = [replace(_attack("lone row, weights", mechanism, problem, mine), sees=WEIGHTS)]
    if problem.intercept > 0 and problem.neighbours is Neighbours.REPLACE_ONE:
        found.append(intercept_attack(mechanism, problem))
    return tuple(found)


def intercept_attack(mechanism: Mechanism, problem: Problem) -> Attack:
    """The label of a row without features: it moves the intercept alone, and the result is all that is seen."""
    pair = lone_pair(problem, np.zeros(problem.n_features))
    return replace(_attack("intercept alone, weights", mechanism, problem, pair), sees=WEIGHTS)


def is_slow(mechanism: Mechanism) -> bool:
    """Whether fewer runs than usual go side by side."""
    return mechanism.worst_cases[0].jobs < WorstCase().jobs


def _attack(name: str, mechanism: Mechanism, problem: Problem, pair: Pair | None = None) -> Attack:
    return Attack(
        name=name,
        mechanism=mechanism,
        problem=problem,
        pair=lone_pair(problem) if pair is None else pair,
        jobs=mechanism.worst_cases[0].jobs,
    )


def _case(mechanism: Mechanism, case: WorstCase) -> Attack:
    """A declared case. Under a public order the row stands last, in the batch whose push is decayed least."""
    mechanism = replace(mechanism, **case.settings)
    problem = _covered(mechanism, replace(LINEAR, **case.facts))
    changed = "label of a lone row" if problem.neighbours is Neighbours.REPLACE_ONE else "lone row removed"
    attack = _attack(
        case.name or f"{changed}, {problem.loss.name} loss", mechanism, problem, _pair(problem, case)
    )
    sees = WEIGHTS if case.weights_alone or _only_chooses(_plan(mechanism, problem)) else RELEASES
    return replace(attack, sees=sees, delta=case.delta, share=case.share, score=case.likelihood)


def _pair(problem: Problem, case: WorstCase) -> Pair:
    pair = {"lone": lone_pair, "opposing": opposing_pair, "mirrored": opposite_pair}[case.rows](problem)
    if case.turned_to is None:
        return pair
    X, y = pair.left
    other = X.copy()
    other[pair.row] = problem.x_norm * np.array(case.turned_to)
    return replace(pair, right=(other, y))


def _covered(mechanism: Mechanism, problem: Problem) -> Problem:
    """The problem, or one of another loss and relation, that the mechanism can plan for."""
    others = (
        replace(problem, loss=loss, neighbours=relation) for relation, loss in product(Neighbours, LOSSES)
    )
    for fitting in (problem, *others):
        if _plan(mechanism, fitting) is not None:
            return fitting
    raise InvalidInput(f"no attack on {mechanism.name!r} fits its theorem.")


def _plan(mechanism: Mechanism, problem: Problem, **settings: Any) -> Plan | None:
    try:
        return replace(mechanism, **settings).plan(problem, BUDGET).trained_by
    except DpermError:
        return None


def _only_chooses(plan: Plan | None) -> bool:
    """Its releases are choices, of which the weights tell all."""
    return plan is not None and isinstance(plan.noise, NoisyMin)


def _clipped_and_classes(mechanism: Mechanism) -> Iterator[Attack]:
    if isinstance(mechanism, GradientMechanism):
        clipped = replace(mechanism, clip=CLIP)
        yield from _fitting("label, clipped gradients", clipped, LINEAR)
        yield from _fitting("label of one of three, clipped", clipped, CLASSES)
        mechanism = replace(mechanism, clip=None)
    yield from _fitting("label of one of three classes", mechanism, CLASSES)


def _fitting(name: str, mechanism: Mechanism, problem: Problem, pair: Pair | None = None) -> Iterator[Attack]:
    """The attack, where a plan can be made for it."""
    if _plan(mechanism, problem) is None:
        return
    attack = _attack(name, mechanism, problem, pair)
    one_by_one = is_slow(mechanism) and problem.loss.outputs > 1
    yield replace(attack, jobs=SOFTMAX_JOBS, most_runs=FEW_RUNS) if one_by_one else attack


def _on_the_intercept(mechanism: Mechanism) -> Iterator[Attack]:
    for loss in LOSSES:
        problem = replace(LINEAR, x_norm=0.1, intercept=1.0, loss=loss)
        if _plan(mechanism, problem) is not None:
            yield intercept_attack(mechanism, problem)
            return


def _unequal_batches(mechanism: Mechanism) -> Iterator[Attack]:
    """With some l2 later batches move the weights more; the price is an average over the secret one of the row."""
    problem = replace(LINEAR, l2=0.1)
    plan = _plan(mechanism, problem)
    if plan is not None and len(plan.secret_batches) > 1:
        yield _attack("label, unequal hidden batches", mechanism, problem)


def _standardised(mechanism: Mechanism) -> Iterator[Attack]:
    """A mirrored row moves the mean as far as it can, a turned one the moments, and what is trained on the rows too."""
    try:
        standardised = replace(mechanism, standardise=True, accounting="tight")
    except InvalidInput:
        return
    for loss in LOSSES:
        mirrored = replace(LINEAR, loss=loss, intercept=0.1)
        turned = replace(LINEAR, loss=loss, n_features=2)
        attacks = [
            *_fitting("mirrored row, standardised", standardised, mirrored, opposite_pair(mirrored)),
            *_fitting("turned row, standardised", standardised, turned, sideways_pair(turned)),
        ]
        if attacks:
            yield from (replace(attack, most_runs=STANDARDISED_RUNS) for attack in attacks)
            return


def _by_the_system(mechanism: Mechanism, covered: Problem) -> Attack:
    """Everything from the operating system, one fit at a time, where a secret draw of rows pays for most.

    The row stands last, where a secret order that is not drawn would cost most; among samples of a fixed size first.
    """
    problem, row, settings = LINEAR, ROWS - 1, dict[str, Any]()
    if isinstance(_plan(mechanism, covered), HiddenPlan | DescentPlan):
        problem = replace(LINEAR, l2=1.0)
        forgetful = {"step_size": 0.8, "batch_size": 1}
        settings = {name: value for name, value in forgetful.items() if name in mechanism.settings}
    elif "rate" in mechanism.settings:
        settings = {"rate": 0.1}
    elif "batch_size" in mechanism.settings:
        row, settings = 0, {"batch_size": 1}
    if "clip" in mechanism.settings:
        settings["clip"] = CLIP
    for relation, loss, chosen in product(Neighbours, LOSSES, (settings, dict[str, Any]())):
        fitted = replace(problem, loss=loss, neighbours=relation)
        plan = _plan(mechanism, fitted, **chosen)
        if plan is None:
            continue
        changed, pair = replace(mechanism, **chosen), lone_pair(fitted, row=row)
        attack = _attack("label, all from the operating system", changed, fitted, pair)
        sees = WEIGHTS if _only_chooses(plan) else RELEASES
        return replace(attack, system=True, sees=sees, share=1 / SECOND, most_runs=SYSTEM_RUNS)
    raise InvalidInput(f"no attack on {mechanism.name!r} fits its theorem.")
