"""The audit of persons: certified or refused, replays with persons of 1, 3 and 50 rows, attacks, and controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context

import numpy as np

from dperm.audit.draws import DrawCheck
from dperm.audit.examination import EPSILON, RUNS, replay_control
from dperm.audit.results import ControlResult
from dperm.audit.worst_cases import audited_names
from dperm.errors import InvalidInput, Unsupported
from dperm.estimators.base import PrivateLinearModel
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.estimators.persons_audit.attacks import PersonAttack, attack_person, attacked_names
from dperm.estimators.persons_audit.broken import person_controls
from dperm.estimators.persons_audit.cases import person_cases, refused_settings
from dperm.estimators.persons_audit.pairs import SIZES
from dperm.estimators.persons_audit.replays import (
    ONE_IN,
    check_draws_of_persons,
    moved_as_rows,
    replay_persons,
    share_moved,
)
from dperm.mechanisms import Mechanism, resolve
from dperm.processors import processors_shared_by

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
    if processes == 1:
        yield from (task() for task in tasks)
        return
    with (
        processors_shared_by(processes),
        ProcessPoolExecutor(min(processes, len(tasks)), mp_context=get_context("spawn")) as pool,
    ):
        yield from (future.result() for future in [pool.submit(task) for task in tasks])


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
