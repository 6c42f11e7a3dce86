"""The audit: try to break the claim of every mechanism, and prove that broken ones are noticed.

A verdict of "broken" is a proof up to a stated probability. A verdict of "stands" proves nothing; the ratio of
audited to claimed epsilon says how hard the claim was tried, and at 0 the verdict is "inconclusive".
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import TypeVar

import numpy as np

from dperm.errors import DpermError, InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms import Mechanism, resolve
from dperm.planning.rules import check_count
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.processors import processors_shared_by
from dperm_audit.attack import Attack, Seen, direction, observe, scores
from dperm_audit.bounds import ProfileFamily
from dperm_audit.controls import CONTROLS, Control
from dperm_audit.draws import check_draws
from dperm_audit.neighbours import pairs
from dperm_audit.noise_check import (
    NoiseCheck,
    check_noise,
    empty_problem,
    processes_share_noise,
    with_enough_l2,
)
from dperm_audit.replay import ReplayReport, replay, replay_all
from dperm_audit.results import AttackResult, AuditResult, ControlResult, ReplaySummary
from dperm_audit.worst_cases import attacks_by, attacks_on, audited_names, is_slow

EPSILON, DELTA, CONFIDENCE, RUNS = 1.0, 1e-2, 0.999, 150_000
TRAINING, FEWEST_TRAINING = 0.1, 1000  # runs that choose the score and its threshold; at most a third of all
NOISE_RUNS, STANDARDISED_RUNS = 300, 150
CONTROL_RUNS = 10_000
FIRST_REPLAYS = 12  # before the draws and the noise are looked at, where one fault is enough

Result = TypeVar("Result")

WITH_INTERCEPT = 0.5
WIDE = 21  # features


def audit(
    mechanism: str | Mechanism,
    epsilon: float = EPSILON,
    delta: float | None = None,
    *,
    problem: Problem | None = None,
    runs: int = RUNS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    stop_at_first: bool = False,
) -> AuditResult:
    """Replay one mechanism on neighbours, check its draws and its noise, and attack it where its claim is tightest.

    Parameters
    ----------
    mechanism : str or Mechanism
        The name of a registered mechanism has replays and attacks of its own. An object is tried as it is set.
    epsilon, delta : float
        The claim to try. Without delta it is 0.01, or 0 for a pure claim: with a tiny delta almost no run shows an
        event that could refute the claim, and the direct bound has nothing to count.
    problem : Problem, optional
        For a mechanism object; for a name, its worst cases are known.
    runs : int
        On each of the two tables, for the first attack; slow mechanisms and second attacks get a share of them.
    seed : int
        Of the noise of most attacks. One attack, and the checks of draws and noise, use the operating system's.
    confidence : float
        A healthy mechanism is called broken by one attack with a probability of at most ``1 - confidence``.
    stop_at_first : bool
        Stop at the first fault instead of looking for all of them. A few replays then come before the checks of draws
        and noise, and the others after them: faults of the noise do not wait for replays, which cannot see them.
    """
    check_count("runs", runs)
    if runs < 100 or not 0 < confidence < 1:
        raise InvalidInput("runs must be at least 100 and confidence between 0 and 1.")
    if isinstance(mechanism, str):
        attacks = attacks_on(mechanism)
        reports: Iterator[ReplayReport] = iter(replay_all(names=(mechanism,)))
        blank = empty_problem(attacks[0].mechanism, attacks[0].problem)
    elif problem is None:
        raise InvalidInput("a mechanism object needs the problem on which to attack it.")
    else:
        attacks, blank = attacks_by(mechanism, problem), problem
        reports = _replays_of(mechanism, problem, Budget(epsilon, DELTA if delta is None else delta))
    first = attacks[0]
    claim = _Claim(epsilon=epsilon, delta=delta, runs=runs, seed=seed, failure=1 - confidence)
    started = time.process_time()
    found = AuditResult(
        mechanism=first.mechanism.name,
        out_of_reach=first.mechanism.worst_cases[0].out_of_reach,
    )
    steps: list[Callable[[AuditResult], AuditResult]] = [
        partial(_replayed_too, islice(reports, FIRST_REPLAYS if stop_at_first else None), stop_at_first),
        lambda found: replace(found, draws=check_draws(first.mechanism)),
        lambda found: replace(found, noise=tuple(_noise_checks(first.mechanism, blank, claim.budget(first)))),
        partial(_replayed_too, reports, stop_at_first),
        *(partial(_attacked_too, attack, number, claim) for number, attack in enumerate(attacks)),
    ]
    for step in steps:
        if stop_at_first and found.faults:
            break
        found = step(found)
    return replace(found, seconds=time.process_time() - started)


def audit_control(
    control: Control, *, runs: int = CONTROL_RUNS, seed: int = 0, confidence: float = CONFIDENCE
) -> ControlResult:
    """Attack a mechanism that is broken on purpose, at the delta of other audits, and check its noise."""
    started = time.process_time()
    claim = _Claim(epsilon=control.budget.epsilon, delta=None, runs=runs, seed=seed, failure=1 - confidence)
    attacks = attacks_by(control.mechanism, control.problem, control.pair)
    found = AuditResult(
        mechanism=control.name,
        noise=(check_noise(control.mechanism, control.problem, claim.budget(attacks[0]), NOISE_RUNS),),
        attacks=tuple(_attacked(attack, number, claim) for number, attack in enumerate(attacks)),
        seconds=time.process_time() - started,
    )
    return ControlResult(
        control=control.name,
        what_is_wrong=control.what_is_wrong,
        caught_by="audit",
        faults=found.faults,
        seconds=found.seconds,
        ratio=found.ratio,
    )


def audit_controls() -> tuple[Control, ...]:
    """The controls that the audit, and not a replay, must catch."""
    return tuple(control for control in CONTROLS if control.caught_by == "audit")


def check_control(name: str, runs: int = CONTROL_RUNS, seed: int = 0) -> ControlResult:
    """Whether the control of this name is caught by the part of this package that must catch it."""
    control = next(control for control in CONTROLS if control.name == name)
    return (
        audit_control(control, runs=runs, seed=seed)
        if control.caught_by == "audit"
        else replay_control(control)
    )


def replay_control(control: Control) -> ControlResult:
    """Whether replays of a mechanism that is broken on purpose notice its fault."""
    started = time.process_time()
    tried = pairs(control.problem) if control.pair is None else [control.pair]
    found = {
        finding.check
        for pair in tried
        for finding in replay(control.mechanism, control.problem, control.budget, pair).findings
    }
    return ControlResult(
        control=control.name,
        what_is_wrong=control.what_is_wrong,
        caught_by="replay",
        faults=(f"replay: {control.check}",) if control.check in found else (),
        seconds=time.process_time() - started,
    )


def audit_all(
    names: Sequence[str] | None = None,
    epsilon: float = EPSILON,
    delta: float | None = None,
    *,
    runs: int = RUNS,
    seed: int = 0,
    confidence: float = CONFIDENCE,
    controls: Sequence[str] = (),
    processes: int = 2,
) -> Iterator[AuditResult | ControlResult]:
    """Audit mechanisms, by default every private one; results come as they are ready.

    ``processes`` of 1 is this process, more are new ones. With ``controls`` those are tried too.
    """
    chosen = audited_names() if names is None else tuple(dict.fromkeys(names))
    for name in chosen:
        attacks_on(name)
    slow_first = sorted(chosen, key=lambda name: not is_slow(resolve(name)))
    one = partial(audit, epsilon=epsilon, delta=delta, runs=runs, seed=seed, confidence=confidence)
    tasks: list[Callable[[], AuditResult | ControlResult]] = [partial(one, name) for name in slow_first]
    tasks += [partial(check_control, name, seed=seed) for name in controls]
    yield from side_by_side(tasks, processes)


def side_by_side(
    tasks: Sequence[Callable[[], Result]],
    processes: int,
    ready: Callable[[list[Future[Result]]], Iterable[Future[Result]]] = as_completed,
) -> Iterator[Result]:
    """What tasks give: one after the other in this process, or in several new ones as they are ``ready``."""
    if processes == 1:
        yield from (task() for task in tasks)
        return
    with (
        processors_shared_by(processes),
        ProcessPoolExecutor(min(processes, len(tasks)), mp_context=get_context("spawn")) as pool,
    ):
        yield from (task.result() for task in ready([pool.submit(task) for task in tasks]))


def noise_differs_between_processes() -> bool:
    """Whether two processes that start alike draw different noise."""
    return processes_share_noise() == 0


@dataclass(frozen=True, kw_only=True)
class _Claim:
    """What is tried, and how hard."""

    epsilon: float
    delta: float | None
    runs: int
    seed: int
    failure: float

    def budget(self, attack: Attack) -> Budget:
        wanted = self.delta if self.delta is not None else attack.delta
        return Budget(self.epsilon, DELTA if wanted is None else wanted)


def _attacked(attack: Attack, number: int, claim: _Claim) -> AttackResult:
    sequence = np.random.SeedSequence([claim.seed, number])
    return attack_once(attack, claim.budget(attack), attack.runs_of(claim.runs), sequence, claim.failure)


def _attacked_too(attack: Attack, number: int, claim: _Claim, found: AuditResult) -> AuditResult:
    return replace(found, attacks=(*found.attacks, _attacked(attack, number, claim)))


def _noise_checks(mechanism: Mechanism, blank: Problem, budget: Budget) -> Iterator[NoiseCheck]:
    """As it is, and on standardised rows where it can have them."""
    yield check_noise(mechanism, blank, budget, NOISE_RUNS)
    moved = replace(blank, intercept=WITH_INTERCEPT)
    for standardise, problem in ((True, moved), (False, replace(moved, n_features=WIDE, loss=Logistic()))):
        try:
            changed = replace(mechanism, standardise=standardise, accounting="tight")
            plan = changed.plan(with_enough_l2(changed, problem, budget), budget)
        except DpermError:
            continue
        if plan.standardisation is not None:
            yield check_noise(changed, problem, budget, STANDARDISED_RUNS)
            return


def _replays_of(mechanism: Mechanism, problem: Problem, budget: Budget) -> Iterator[ReplayReport]:
    for seed, pair in enumerate(pairs(problem)):
        yield replay(mechanism, problem, budget, pair, seed)


def _replayed_too(reports: Iterator[ReplayReport], stop_at_first: bool, found: AuditResult) -> AuditResult:
    number, failures = found.replays.replays, list(found.replays.failures)
    for report in reports:
        number += 1
        if not report.passed:
            failures.append(str(report))
            if stop_at_first:
                break
    return replace(found, replays=ReplaySummary(replays=number, failures=tuple(failures)))


def attack_once(
    attack: Attack, budget: Budget, runs: int, seed: np.random.SeedSequence, failure: float
) -> AttackResult:
    """Run both sides, choose score and threshold on the first part of the runs, count on the rest."""
    plan = attack.mechanism.plan(attack.problem, budget)
    left, right = (observe(attack, plan, side, runs, seed) for side in (True, False))
    cut = min(runs // 3, max(FEWEST_TRAINING, round(TRAINING * runs)))
    chosen_on = [Seen(seen.published[:cut], seen.exact[:cut]) for seen in (left, right)]
    if attack.score is None:
        weights = direction(chosen_on[0], chosen_on[1], attack.sees)
        here, there = scores(left, weights), scores(right, weights)
    else:
        score = attack.score(plan)
        here, there = score(left.published), score(right.published)
    family = None if plan.profile is None else ProfileFamily(plan.profile)
    return AttackResult.of_scores(attack.name, budget, (here, there), cut, failure, family)
