"""Replays of whole persons: what meets the noise moves no further than declared, however many rows a person has.

The same persons in a table of rows, under a plan for rows, are the control: there they must move further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dperm.audit.draws import RUNS, DrawCheck, OneHot, check_draws
from dperm.audit.neighbours import Pair, Side, changes
from dperm.audit.replay import ReplayReport, replay
from dperm.audit.replay_cases import BUDGET, FACTS, short_plan
from dperm.estimators.persons import declared_persons, loss_of_persons
from dperm.estimators.persons_audit.pairs import (
    SIZES,
    PersonPair,
    laid_out,
    other_persons,
    person_pairs,
    table_of_persons,
)
from dperm.losses import example_losses
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.standardising import MEAN, MOMENTS
from dperm.problem import Problem
from dperm.unit import PersonLoss

ONE_IN = 7  # pairs are taken in turn by the plans of a mechanism, as they have much in common


def replay_persons(plans: Sequence[Plan], one_in: int = ONE_IN) -> Iterator[tuple[PersonPair, ReplayReport]]:
    """Replay plans on persons of 1, 3 and 50 rows; each plan gets one in so many pairs, the next one others.

    The price by the certificate's second route, and a run on the operating system's source, are left to the first pair
    of a plan.
    """
    for k, plan in enumerate(plans):
        chosen = list(enumerate(person_pairs(plan.problem)))[k % one_in :: one_in]
        for turn, (seed, pair) in enumerate(chosen):
            facts = plan.mechanism, plan.problem, plan.budget
            yield pair, replay(*facts, pair, seed, plan, all_of_it=turn == 0)


def check_draws_of_persons(mechanism: Mechanism, runs: int = RUNS) -> DrawCheck:
    """Whether persons of 1, 3 and 50 rows are drawn as the price assumes, all alike."""
    alone = OneHot.of_rows().problem
    persons = declared_persons(True, PersonLoss.MEAN.value, None, alone.n_rows)
    problem = replace(alone, persons=persons, loss=loss_of_persons(alone.loss, persons))
    axes = np.eye(problem.n_rows, problem.n_features)
    everyone = [((axis, 1.0),) * SIZES[i % len(SIZES)] for i, axis in enumerate(axes)]
    return check_draws(mechanism, runs, OneHot(problem, table_of_persons(problem, everyone)))


def share_moved(report: ReplayReport) -> float:
    """The largest distance as a share of what was declared, of all that is trained with."""
    steps = (step for step in report.passages if step.name not in (MEAN, MOMENTS))
    return max((step.distance / step.declared for step in steps), default=0.0)


def moved_as_rows(mechanism: Mechanism, n_rows: int = max(SIZES)) -> float:
    """The control: how far a person of so many rows moves a model for rows, as a share of what it declares."""
    shares = [0.0]
    for loss in example_losses():
        problem = Problem(loss=loss, **FACTS)
        others = other_persons(problem, "crowded")
        at = problem.n_rows // 2
        total = n_rows + sum(len(person) for i, person in enumerate(others) if i != at)
        plan = short_plan(mechanism, replace(problem, n_rows=total), BUDGET, {"accounting": "tight"})
        if plan is None:
            continue
        for here, there in list(changes(problem).values())[:3]:
            pair = _as_rows(plan.problem, others, at, (here,) * n_rows, (there,) * n_rows)
            shares.append(
                share_moved(replay(plan.mechanism, plan.problem, BUDGET, pair, 0, plan, all_of_it=False))
            )
        if max(shares) > 1:
            break
    return max(shares)


def _as_rows(
    problem: Problem,
    others: list[tuple[Side, ...]],
    at: int,
    here: tuple[Side, ...],
    there: tuple[Side, ...],
) -> Pair:
    left, right = list(others), list(others)
    left[at], right[at] = here, there
    first = sum(map(len, others[:at]))
    tables = [laid_out(problem, side)[:2] for side in (left, right)]
    return Pair(name="a person as rows", left=tables[0], right=tables[1], row=first)
