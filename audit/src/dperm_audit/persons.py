"""Does a guarantee for one person hold for persons with many rows? Replays, attacks and controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.persons import declared_persons, loss_of_persons
from dperm.losses import example_losses
from dperm.mechanisms import Mechanism, Plan, resolve
from dperm.mechanisms.standardising import MEAN, MOMENTS
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.unit import Neighbours, PersonLoss
from dperm_audit.attack import RELEASES, WEIGHTS, Attack
from dperm_audit.draws import RUNS as DRAWS
from dperm_audit.draws import DrawCheck, OneHot, check_draws
from dperm_audit.examination import (
    CONFIDENCE,
    DELTA,
    EPSILON,
    RUNS,
    attack_once,
    replay_control,
    side_by_side,
)
from dperm_audit.neighbours import Pair, Rows, changes, extreme_labels
from dperm_audit.person_cases import (
    KINDS,
    SIZES,
    Person,
    PersonPair,
    laid_out,
    other_persons,
    person_cases,
    person_controls,
    person_pairs,
    refused_settings,
    table_of_persons,
)
from dperm_audit.replay import ReplayReport, replay
from dperm_audit.replay_cases import BUDGET, FACTS, plain, short_plan
from dperm_audit.results import AttackResult, ControlResult
from dperm_audit.worst_cases import LINEAR, ROWS, audited_names

ONE_IN = 7  # pairs are taken in turn by the plans of a mechanism, as they have much in common


def replay_persons(plans: Sequence[Plan], one_in: int = ONE_IN) -> Iterator[tuple[PersonPair, ReplayReport]]:
    """Replay plans on persons of 1, 3 and 50 rows; each plan gets one in so many pairs, the next one others.

    The price by the certificate's recomputation, and a run on the operating system's source, are left to the first pair
    of a plan.
    """
    for k, plan in enumerate(plans):
        chosen = list(enumerate(person_pairs(plan.problem)))[k % one_in :: one_in]
        for turn, (seed, pair) in enumerate(chosen):
            facts = plan.mechanism, plan.problem, plan.budget
            yield pair, replay(*facts, pair, seed, plan, all_of_it=turn == 0)


def check_draws_of_persons(mechanism: Mechanism, runs: int = DRAWS) -> DrawCheck:
    """Whether persons of 1, 3 and 50 rows are drawn as the price assumes, all alike."""
    alone = OneHot.of_rows().problem
    persons = declared_persons(True, PersonLoss.MEAN.value, None, alone.n_rows)
    problem = replace(alone, persons=persons, loss=loss_of_persons(alone.loss, persons))
    axes = np.eye(problem.n_rows, problem.n_features)
    everyone = [((axis, 1.0),) * SIZES[i % len(SIZES)] for i, axis in enumerate(axes)]
    return check_draws(mechanism, runs, OneHot(problem, table_of_persons(problem, everyone)))


def share_moved(report: ReplayReport) -> float:
    """The largest distance as a share of what was declared, of all that is trained with."""
    steps = (step for step in report.events if step.name not in (MEAN, MOMENTS))
    return max((step.distance / step.declared for step in steps), default=0.0)


CLEARLY = 2.0  # times what is declared: no further loss is then looked at


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
            left, right = (
                laid_out(plan.problem, [*others[:at], (side,) * n_rows, *others[at + 1 :]])[:2]
                for side in (here, there)
            )
            pair = Pair(name="a person as rows", left=left, right=right, row=sum(map(len, others[:at])))
            report = replay(plan.mechanism, plan.problem, BUDGET, pair, 0, plan, all_of_it=False)
            shares.append(share_moved(report))
        if max(shares) > CLEARLY:
            break
    return max(shares)


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
    mechanism = plain(replace(resolve(name), **changed))
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


CERTIFIED, REFUSED, NOT_CERTIFIED = "certified", "refused", "NOT CERTIFIED"
TELLING = 0.3  # of what is declared: replays in which nothing moves so far show nothing


@dataclass(frozen=True, kw_only=True)
class PersonAudit:
    """One mechanism on persons.

    ``moved`` is the largest distance of two neighbours as a share of what was declared, by how many rows the differing
    person has; ``as_rows`` the same of a model for rows, the control. A mechanism that refuses has neither. What is
    refused, by itself or with a setting, stands in ``refusals`` with the reason. ``draws`` are those of the operating
    system's randomness: persons are drawn as often as was priced, whatever their rows.
    """

    mechanism: str
    standing: str
    refusals: tuple[tuple[str, str], ...] = ()
    replays: int = 0
    failures: tuple[str, ...] = ()
    moved: Mapping[int, float] = field(default_factory=dict)
    as_rows: float | None = None
    draws: DrawCheck | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Why what is claimed for persons is broken, or was not tried."""
        found = list(self.failures)
        if self.draws is not None:
            found += [f"{self.mechanism}, persons in place of rows: {fault}" for fault in self.draws.faults]
        if self.standing == NOT_CERTIFIED:
            found.append(f"{self.mechanism}: a fit with groups has no guarantee for one person")
        found += [
            f"{self.mechanism}: no replay of a person of {size} rows moved far enough to tell anything"
            for size, share in self.moved.items()
            if share < TELLING
        ]
        if self.as_rows is not None and not self.as_rows > 1:
            found.append(
                f"{self.mechanism}: the control, a person as rows, stayed within the bound for a row"
            )
        return tuple(found)


def audit_persons(
    names: Sequence[str] = (),
    epsilon: float = EPSILON,
    delta: float | None = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    one_in: int = ONE_IN,
    processes: int = 1,
) -> Iterator[PersonAudit | PersonAttack | ControlResult]:
    """Audit mechanisms on persons, by default every private one; attacks and controls come last.

    ``one_in`` of 1 replays every plan on every pair of neighbours. Attacks get a tenth of the ``runs`` or less.
    """
    if runs < 100:
        raise InvalidInput(f"runs must be at least 100; got {runs}.")
    for name in names:
        if name not in audited_names():
            resolve(name)
            raise InvalidInput(f"mechanism {name!r} is not private, so nothing of it can be audited.")
    chosen = tuple(dict.fromkeys(names)) or audited_names()
    tasks: list[Callable[[], PersonAudit | PersonAttack | ControlResult]] = [
        partial(audit_mechanism, name, one_in) for name in chosen
    ]
    tasks += [partial(attack_person, name, epsilon, delta, runs, seed) for name in attacked_names(chosen)]
    tasks += [partial(check_person_control, number) for number in range(len(person_controls()))]
    yield from side_by_side(tasks, processes, ready=list)


def audit_mechanism(name: str, one_in: int = ONE_IN) -> PersonAudit:
    """Whether a fit with ``groups`` is certified, and how far persons move what meets the noise."""
    mechanism = resolve(name)
    standing, reason = standing_of(mechanism)
    if standing == REFUSED:
        return PersonAudit(mechanism=name, standing=standing, refusals=((name, reason),))
    moved, failures, number = dict.fromkeys(SIZES, 0.0), list[str](), 0
    for pair, report in replay_persons(list(person_cases(mechanism)), one_in):
        number += 1
        moved[pair.n_rows] = max(moved[pair.n_rows], share_moved(report))
        if not report.passed:
            failures.append(str(report))
    return PersonAudit(
        mechanism=name,
        standing=standing,
        refusals=tuple((f"{name} with {what}", why) for what, why in refused_settings(mechanism)),
        replays=number,
        failures=tuple(failures),
        moved=moved,
        as_rows=moved_as_rows(mechanism),
        draws=check_draws_of_persons(mechanism),
    )


def standing_of(mechanism: Mechanism) -> tuple[str, str]:
    """What becomes of a fit with ``groups``: certified for one person, or refused, and why."""
    rng = np.random.default_rng(0)
    ids = np.repeat(np.arange(10 * len(SIZES)), SIZES * 10)
    X = rng.uniform(-0.5, 0.5, size=(len(ids), 3))
    y = (X[:, 0] > 0).astype(np.float64)
    try:
        model = _estimator(mechanism).fit(X, y, groups=ids)
    except Unsupported as refused:
        return REFUSED, str(refused).removeprefix(f"mechanism {mechanism.name!r} cannot be used here: ")
    stated = model.certificate_
    certified = stated["guarantee"] is not None and stated["unit"] == "one person"
    return (CERTIFIED if certified else NOT_CERTIFIED), ""


def _estimator(mechanism: Mechanism) -> PrivateLinearModel:
    if "binary" in mechanism.labels:
        return PrivateLogisticRegression(mechanism=mechanism, l2=1.0, classes=[0.0, 1.0])
    return PrivateLinearRegression(mechanism=mechanism, l2=1.0, y_range=(0.0, 1.0))


def check_person_control(number: int) -> ControlResult:
    return replay_control(person_controls()[number])
