"""A person with many rows is in the table or not: what do many runs prove of epsilon?

The same tables, with every row counted by itself, are the control: a guarantee for one row does not cover a person.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dperm.audit.attack import RELEASES, WEIGHTS, Attack
from dperm.audit.examination import CONFIDENCE, DELTA, EPSILON, RUNS, attack_once
from dperm.audit.neighbours import Pair, Rows, extreme_labels
from dperm.audit.results import AttackResult
from dperm.audit.worst_cases import LINEAR, ROWS
from dperm.estimators.persons import declared_persons, loss_of_persons
from dperm.estimators.persons_audit.cases import KINDS
from dperm.estimators.persons_audit.pairs import Person, laid_out, table_of_persons
from dperm.mechanisms import resolve
from dperm.neighbours import Neighbours
from dperm.privacy import Budget
from dperm.problem import Problem

PERSON_ROWS = 30
# What is set, and the share of the runs, of those that are attacked; the first of them in any case.
SETTINGS: dict[str, tuple[dict[str, Any], float]] = {
    "output": ({}, 0.1),
    "dp-gd": ({"steps": 3}, 0.1),
    "objective": ({}, 0.05),
}
ATTACKED = tuple(SETTINGS)


@dataclass(frozen=True, kw_only=True)
class PersonAttack:
    """What an attack on a person proved of a model for persons, and of one for rows that claims the same epsilon."""

    mechanism: str
    rows: int
    person: AttackResult
    row: AttackResult

    @property
    def faults(self) -> tuple[str, ...]:
        """Empty where the claim for persons was not refuted and the one for rows, made of a person, was."""
        found = []
        if self.person.refuted:
            found.append(
                f"{self.mechanism}: epsilon >= {self.person.bounds.epsilon:.3g} was proved for a person, claimed is "
                f"{self.person.claimed:g}"
            )
        if not self.row.refuted:
            found.append(
                f"{self.mechanism}: the control, a model for rows, was not refuted for a person of {self.rows} rows"
            )
        if max(self.person.null, self.row.null) > 0:
            found.append(f"{self.mechanism}: a table differs from itself: the audit is at fault")
        return tuple(found)


def attacked_names(names: Sequence[str]) -> tuple[str, ...]:
    """Those of the named mechanisms that are attacked, or else one of them all the same."""
    return tuple(name for name in ATTACKED if name in names) or ATTACKED[:1]


def attack_person(
    name: str, epsilon: float = EPSILON, delta: float | None = None, runs: int = RUNS, seed: int = 0
) -> PersonAttack:
    """Attack a model for persons, and a model for rows that claims as much, at a confidence of 0.999."""
    budget = Budget(epsilon, DELTA if delta is None else delta)
    person, row = (
        attack_once(attack, budget, attack.runs_of(runs), np.random.SeedSequence([seed, k]), 1 - CONFIDENCE)
        for k, attack in enumerate(attacks_on_person(name))
    )
    return PersonAttack(mechanism=name, rows=PERSON_ROWS, person=person, row=row)


def attacks_on_person(name: str, rows: int = PERSON_ROWS) -> tuple[Attack, Attack]:
    """The same tables for a model of persons and for a model of rows."""
    changed, share = SETTINGS[name]
    mechanism = replace(resolve(name), **changed)
    for_rows = replace(LINEAR, neighbours=Neighbours.ADD_REMOVE, n_rows=ROWS - 1 + rows)
    kind, most = KINDS[0]
    persons = declared_persons(True, kind.value, most, ROWS)
    for_persons = replace(for_rows, n_rows=ROWS, persons=persons, loss=loss_of_persons(LINEAR.loss, persons))

    def attack(problem: Problem) -> Attack:
        return Attack(
            name=f"a person of {rows} rows against a guarantee for one {problem.unit}",
            mechanism=mechanism,
            problem=problem,
            pair=lone_person(problem, rows),
            jobs=mechanism.worst_cases[0].jobs,
            sees=WEIGHTS if mechanism.family == "objective" else RELEASES,
            share=share,
        )

    return attack(for_persons), attack(for_rows)


def lone_person(problem: Problem, rows: int) -> Pair:
    """A person whose rows all are of full length, among persons with an empty row each, leaves."""
    low, high, _ = extreme_labels(problem)
    along = np.eye(problem.n_features)[0] * problem.x_norm
    nobody: Person = ((np.zeros(problem.n_features), low),)
    everyone: list[Person] = [nobody] * (ROWS - 1) + [((along, high),) * rows]

    def table(persons: list[Person]) -> Rows:
        if problem.persons is None:
            return laid_out(problem, persons)[:2]
        return table_of_persons(problem, persons)

    return Pair(name="lone person", left=table(everyone), right=table(everyone[:-1]), row=ROWS - 1)
