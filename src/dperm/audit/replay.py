"""Replay: run a mechanism on two neighbours along the same public trajectory and compare all that meets noise.

Noise itself is not looked at; that is the business of a statistical audit. A replay tests what the noise is said to
hide: values before the noise are no further apart than declared, nothing else comes out, and what passed is what
was charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dperm.audit import replay_checks as checks
from dperm.audit.coupling import answers_for, distances, names_without
from dperm.audit.neighbours import Pair, Rows, pairs, table_of
from dperm.audit.price_check import price_faults
from dperm.audit.replay_cases import BUDGET, TELLING_BUDGET, replay_cases
from dperm.audit.replay_checks import Comparison, Finding
from dperm.audit.watch import Watch
from dperm.audit.watched_source import WatchedEntropy
from dperm.errors import DpermError, NotCertified
from dperm.mechanisms import Job, Mechanism, Plan, mechanism_names, resolve
from dperm.privacy import Budget, SystemEntropy
from dperm.problem import Problem

BESIDE = 3.0  # times the epsilon of a plan is that of the job which runs together with it


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What a replay found; without ``findings`` every check passed."""

    mechanism: str
    problem: Problem
    pair: str
    passages: tuple[Comparison, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def largest_share(self) -> float:
        """The largest distance, as a share of what was declared."""
        return max((step.distance / step.declared for step in self.passages), default=0.0)

    def __str__(self) -> str:
        facts = self.problem
        found = "; ".join(f"{finding.check}: {finding.message}" for finding in self.findings)
        where = f"{self.mechanism}, {facts.loss.name} loss, {facts.neighbours.value}, {self.pair}"
        return f"{where}: {found or 'passed'}"


def replay(
    mechanism: Mechanism,
    problem: Problem,
    budget: Budget,
    pair: Pair,
    seed: int = 0,
    plan: Plan | None = None,
    *,
    all_of_it: bool = True,
) -> ReplayReport:
    """Run a mechanism on both tables of a pair, the second time along the releases of the first.

    Both runs start from the same seed, so they share every hidden branch, such as the order of the rows. Where the
    second table lacks a row, the others keep what was drawn for them. Noise in an objective moves by the difference
    of the two gradients at the released point, the coupling of its proof. What hardly depends on the pair may be left
    to one replay of a plan, by ``all_of_it``: the price by the certificate's second route, a run on the operating
    system's source, and one together with another job.

    Assumes
    -------
    The mechanism draws from the gate that it is given. Its source is a seeded one but in the run on the operating
    system's, which must pass the gate as planned too.
    """
    plan = mechanism.plan(problem, budget) if plan is None else plan
    names = names_without(problem.n_rows, pair.row) if pair.removed else None
    one, same = (Watch(WatchedEntropy(seed)) for _ in range(2))
    other = Watch(WatchedEntropy(seed), names=names)
    left, right = table_of(problem, pair.left), table_of(problem, pair.right)
    findings: list[Finding] = []
    compared: list[Comparison] = []
    try:
        one.run(mechanism, plan, left)
        findings += [*checks.planned(plan, one), *checks.for_intervals(plan, one)]
        if plan.private:
            same.run(mechanism, plan, table_of(problem, pair.left))
            other.answers = answers_for(plan, one, pair)
            other.run(mechanism, plan, right)
            compared += [
                Comparison(name=name, distance=distance, declared=declared)
                for name, distance, declared in distances(plan.trained_by, one, other, pair)
            ]
            findings += [
                *checks.passages(one, other),
                *checks.noise(one, other),
                *checks.far_apart(compared),
                *checks.outcome(one.outcome, other.outcome),
                *checks.records(one),
                *checks.records(other),
                *checks.entropy(one, same, other),
                *(Finding("price", fault) for fault in price_faults(plan, one, all_of_it)),
                *checks.used_map(plan, other, right),
                *checks.told_map(plan, other),
                *checks.certified(plan, one, left),
                *checks.on_grid(one),
                *checks.within_ball(plan, one),
                *checks.stationary(plan, one, pair),
                *checks.engines(plan, left),
            ]
            if all_of_it:
                findings += _by_the_system(plan, pair.left)
            if all_of_it and not problem.many_rows:  # persons train one model at a time
                findings += _with_another_job(plan, pair.left)
    except DpermError as error:
        if plan.private:
            findings.append(Finding("refused", f"{type(error).__name__}: {error}"))
    return ReplayReport(
        mechanism=mechanism.name,
        problem=problem,
        pair=pair.name,
        passages=tuple(compared),
        findings=tuple(findings),
    )


def replay_all(
    names: Sequence[str] | None = None, budget: Budget = BUDGET, thorough: bool = False, share: int = 1
) -> Iterator[ReplayReport]:
    """Replay every registered mechanism, or those named, on every loss and relation that it declares.

    ``thorough`` takes all pairs of neighbours for every plan, instead of a third of them in turn for most, and adds
    problems without an intercept and problems without l2. A ``share`` above 1 is for a quick look: the first plan of
    every loss, relation and kind of release, every share-th of the other plans, and every share-th of the pairs.

    Raises
    ------
    NotCertified
        If a mechanism could be replayed on nothing.
    """
    for name in mechanism_names() if names is None else names:
        known: set[tuple[object, ...]] = set()
        for k, plan in enumerate(replay_cases(resolve(name), budget, thorough)):
            kind = _kind(plan)
            if kind in known and k % share:
                continue
            known.add(kind)
            every = share if thorough or plan.budget == TELLING_BUDGET else 3 * share
            for turn, (seed, pair) in enumerate(list(enumerate(pairs(plan.problem)))[k % every :: every]):
                yield replay(plan.mechanism, plan.problem, plan.budget, pair, seed, plan, all_of_it=turn == 0)
        if not known:
            raise NotCertified(
                f"mechanism {name!r} fits no problem of the replay, so nothing is known of it."
            )


def _kind(plan: Plan) -> tuple[object, ...]:
    facts = plan.problem
    return facts.loss.name, facts.neighbours, plan.standardisation is None, plan.inference is None


def require_replay(names: Sequence[str] | None = None, thorough: bool = False, share: int = 1) -> int:
    """Replay mechanisms, all registered ones by default, and return how many replays passed.

    Raises
    ------
    NotCertified
        If a single check failed. The message lists what was found.
    """
    reports = list(replay_all(names, thorough=thorough, share=share))
    broken = [str(report) for report in reports if not report.passed]
    if broken:
        raise NotCertified(f"{len(broken)} of {len(reports)} replays failed:\n" + "\n".join(broken))
    return len(reports)


def _by_the_system(plan: Plan, rows: Rows) -> Iterator[Finding]:
    """A run as users have it."""
    run = Watch(SystemEntropy())
    run.run(plan.mechanism, plan, table_of(plan.problem, rows))
    yield from (*checks.planned(plan, run), *checks.records(run), *checks.on_grid(run))


def _with_another_job(plan: Plan, rows: Rows) -> Iterator[Finding]:
    """Two jobs in one run, the other one of a larger budget: each must be as planned, recorded and told by itself."""
    larger = Budget(BESIDE * plan.budget.epsilon, plan.budget.delta)
    try:
        intervals = {} if plan.inference is None else {"inference": True}
        beside = plan.mechanism.plan(plan.problem, larger, **intervals)
    except DpermError:
        return
    if beside.trained_by.mechanism != plan.trained_by.mechanism:
        return
    both, table = Watch(WatchedEntropy(0)), table_of(plan.problem, rows, models=2)
    both.run_together(plan.mechanism, [Job(plan=plan), Job(plan=beside, model=1)], table)
    for k, one in enumerate((plan, beside)):
        run = both.of_lane(k)
        found = [
            *checks.planned(one, run),
            *checks.for_intervals(one, run),
            *checks.records(run),
            *checks.told_map(one, run),
            *checks.certified(one, run, table),
            *(Finding("price", fault) for fault in price_faults(one, run, second_route=False)),
        ]
        yield from (Finding(each.check, f"job {k} of two: {each.message}") for each in found)
    yield from checks.engines(plan, table)  # last, because it makes passes of its own
