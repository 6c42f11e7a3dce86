"""Replay: run a mechanism on two neighbours along the same public trajectory and compare all that meets noise.

Noise itself is not looked at; that is the business of a statistical audit. A replay tests what the noise is said to
hide: values before the noise are no further apart than declared, nothing else comes out, and what passed is what
was charged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.errors import DpermError, NotCertified
from dperm.mechanisms import Job, Mechanism, Outcome, Plan, mechanism_names, resolve
from dperm.mechanisms.gradient.noisy_sgd import HiddenPlan
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE, ObjectivePlan
from dperm.mechanisms.statistics.adassp import MOMENTS
from dperm.privacy import Budget, GaussianNoise, SystemEntropy
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm_audit.coupling import answers_for, distances, gradient_sum, names_without
from dperm_audit.neighbours import Pair, Rows, pairs, table_of
from dperm_audit.price_check import ROUNDING, price_faults
from dperm_audit.replay_cases import BUDGET, TELLING_BUDGET, replay_cases
from dperm_audit.watch import NoiseEvent, Watch, WatchedEntropy, WatchedTable

Vector = NDArray[np.float64]

CHECKS = {
    "refused": "neither run is refused",
    "events": "both runs pass the gate equally often, under the same names, with as many numbers",
    "noise": "the noise does not depend on the rows",
    "distance": "values before the noise are as close as declared",
    "outcome": "with the same releases both runs end in the same weights, records and map of the rows",
    "records": "the outcome's records are those of the events, and name the source of the noise",
    "plan": "what passes the gate is what was planned",
    "entropy": "randomness comes from the gate's source, at the gate, alike whatever the rows; batches are drawn once",
    "price": "what passed the gate costs no more than the budget, by a second accountant too",
    "rows": "engines hold the rows that their map makes of them, no longer than the bound",
    "map": "rows are moved and scaled by what was released, and by nothing else",
    "precision": "engines sum gradients as precisely as they say",
    "certified": "an outcome is certified only if its passes over the rows were as precise as planned",
    "grid": "what left a Gaussian event lies on the grid of its noise, from the operating system's source too",
    "ball": "iterates that stay hidden stay in the ball that their price rests on",
    "minimiser": "what is released as a minimiser is one of the objective that was priced",
}


@dataclass(frozen=True)
class Finding:
    """A check of ``CHECKS`` that failed, and how."""

    check: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One event in both runs: how far the values are apart, in the norm of its noise, and what was declared."""

    name: str
    distance: float
    declared: float


# Two runs.


def same_events(one: Watch, other: Watch) -> Iterator[Finding]:
    left, right = (
        [(event.kind, event.name, event.values.shape) for event in run.events] for run in (one, other)
    )
    if len(left) != len(right):
        yield Finding("events", f"{len(left)} events on one table and {len(right)} on its neighbour")
    for k, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            yield Finding("events", f"event {k} is {a} on one table and {b} on its neighbour")


def noise(one: Watch, other: Watch) -> Iterator[Finding]:
    for k, (left, right) in enumerate(zip(one.events, other.events, strict=False)):
        if left.noise != right.noise:
            yield Finding("noise", f"event {k} has {left.noise} on one table and {right.noise} on the other")


def far_apart(compared: list[Comparison]) -> Iterator[Finding]:
    for k, step in enumerate(compared):
        if not step.distance <= step.declared * (1 + ROUNDING):
            yield Finding(
                "distance",
                f"event {k}, {step.name!r}: values are {step.distance:.6g} apart, declared are {step.declared:.6g}",
            )


def outcome(one: Outcome, other: Outcome) -> Iterator[Finding]:
    if not np.array_equal(one.weights, other.weights):
        apart = np.abs(one.weights - other.weights).max()
        yield Finding("outcome", f"the same releases led to weights that are {apart:.3g} apart")
    if (one.certified, one.records) != (other.certified, other.records):
        yield Finding("outcome", "the records or the certificate of the outcome depend on the rows")
    if one.row_map != other.row_map:
        yield Finding("outcome", "the map of the rows that the outcome tells depends on the rows")
    if not np.array_equal(_interval_numbers(one), _interval_numbers(other)):
        yield Finding("outcome", "the same releases led to other numbers for intervals")


def entropy(one: Watch, same: Watch, other: Watch) -> Iterator[Finding]:
    if not all(event.given for run in (one, other) for event in run.events):
        yield Finding("entropy", "noise was drawn from another source than the one that was given")
    if any(_source(run).free for run in (one, other)):
        yield Finding("entropy", "something was drawn from the source beside the gate")
    if _source(one).draws != _source(other).draws:
        yield Finding("entropy", "what is drawn at random, or how much of it, depends on the rows")
    pairs_of_runs = zip(one.events, same.events, strict=False)
    if len(one.events) != len(same.events) or not all(
        np.array_equal(a.values, b.values) and np.array_equal(a.released, b.released)
        for a, b in pairs_of_runs
    ):
        yield Finding("entropy", "the same rows and the same seed gave other values the second time")
    if same.draws_anew():
        yield Finding("entropy", "an order or batch was another one when it was asked for again")


def _source(run: Watch) -> WatchedEntropy:
    assert isinstance(run.source, WatchedEntropy)
    return run.source


# One run.


def planned(plan: Plan, run: Watch) -> Iterator[Finding]:
    if not plan.private:
        if run.outcome.certified or run.outcome.records or run.events:
            yield Finding("plan", "a plan without noise has an outcome that looks private")
        return
    inner = plan.trained_by
    public = _trained([p for p in run.events if p.kind != "hidden"][_first(plan) :], plan)
    drawn = [p for p in public if isinstance(inner, ObjectivePlan) and p.name == OBJECTIVE_NOISE]
    made = len(public) - len(drawn)
    if not 1 <= made <= plan.releases:
        yield Finding("plan", f"{plan.releases} releases were planned and {made} were made")
    if len(drawn) != isinstance(inner, ObjectivePlan):
        yield Finding("plan", f"noise was put in the objective {len(drawn)} times")
    hidden = sum(p.kind == "hidden" for p in run.events)
    if hidden != inner.hidden_noises:
        yield Finding(
            "plan",
            f"noise that stays hidden was planned {inner.hidden_noises} times and added {hidden} times",
        )
    if plan.releases == 1 and public and public[0].noise != plan.noise:
        yield Finding("plan", f"the noise is {public[0].noise}, planned was {plan.noise}")


def _trained(events: list[NoiseEvent], plan: Plan) -> list[NoiseEvent]:
    """Without the event for intervals, which is the last one where it is planned."""
    if plan.inference is None or not events or events[-1].noise != plan.inference.noise:
        return events
    return events[:-1]


def for_intervals(plan: Plan, run: Watch) -> Iterator[Finding]:
    """The numbers for intervals were released, last, with the noise that was planned."""
    numbers, last = _interval_numbers(run.outcome), run.events[-1] if run.events else None
    if plan.inference is None:
        if len(numbers):
            yield Finding("plan", "numbers for intervals came out that were not planned")
    elif last is None or last.name != plan.inference.name or last.noise != plan.inference.noise:
        yield Finding("plan", "the release for intervals is not the planned one, or not the last")
    else:
        released = [event.released for event in run.events if event.name in (*MOMENTS, last.name)]
        if not np.array_equal(numbers, np.concatenate(released)):
            yield Finding("outcome", "numbers for intervals came out that were not released")


def _interval_numbers(outcome: Outcome) -> Vector:
    return np.empty(0) if outcome.curvature_release is None else outcome.curvature_release


def records(run: Watch) -> Iterator[Finding]:
    public = [event for event in run.events if event.kind != "hidden"]
    written = run.outcome.records
    if len(written) != len(public):
        yield Finding("records", f"{len(public)} events but {len(written)} records")
    for k, (record, event) in enumerate(zip(written, public, strict=False)):
        facts = (record.sensitivity, record.noise_scale, record.dimension)
        if facts != (event.noise.sensitivity, event.noise.scale, event.values.size):
            yield Finding("records", f"record {k} is not that of event {k}")
        if isinstance(event.noise, GaussianNoise):
            rounded = event.noise.padded(event.noise.sensitivity), event.noise.grid_exponent
            if (record.padded_sensitivity, record.grid_exponent) != rounded:
                yield Finding("records", f"record {k} states another grid than that of its noise")
        if (record.entropy, record.secure) != (run.source.name, run.source.secure):
            yield Finding("records", f"record {k} names another source than that of its noise")


def told_map(plan: Plan, run: Watch) -> Iterator[Finding]:
    """The second run gets another table's mean and moments, so its own ones cannot pass for them."""
    if len(run.events) < _first(plan):
        yield Finding("map", "releases that the map of the rows is made from did not pass the gate")
    elif run.outcome.row_map != _wanted_maps(plan, run)[-1]:
        yield Finding("map", "the outcome tells another map of the rows than that of the releases")


def used_map(plan: Plan, run: Watch, table: WatchedTable) -> Iterator[Finding]:
    if len(run.events) < _first(plan):  # see told_map
        return
    if table.maps != ([] if plan.standardisation is None else _wanted_maps(plan, run)):
        yield Finding("map", "the rows were seen through other maps than those of the releases")


def _wanted_maps(plan: Plan, run: Watch) -> list[RowMap]:
    """What the rows are seen through, one after the other."""
    if plan.standardisation is None:
        return [plan.problem.row_map]
    return plan.standardisation.maps([event.released for event in run.events[: _first(plan)]])


def _first(plan: Plan) -> int:
    """How many releases are made before the training."""
    return 0 if plan.standardisation is None else len(plan.standardisation.noises)


def engines(plan: Plan, table: WatchedTable) -> Iterator[Finding]:
    yield from (Finding("rows", fault) for fault in dict.fromkeys(table.other_rows()))
    yield from (Finding("precision", fault) for fault in dict.fromkeys(table.imprecise_sums(plan.problem)))


def on_grid(run: Watch) -> Iterator[Finding]:
    """The digits below the grid of the noise would be those of the secret value."""
    for k, event in enumerate(run.events):
        if isinstance(event.noise, GaussianNoise):
            steps = np.ldexp(event.released, -event.noise.grid_exponent)
            if not np.array_equal(steps, np.rint(steps)):
                yield Finding("grid", f"event {k}, {event.name!r}, is off the grid of its noise")


def certified(plan: Plan, run: Watch, table: WatchedTable) -> Iterator[Finding]:
    precise = [any(map(made.within, plan.allows)) for used in table.noted for made in used]
    sound = bool(precise) and all(precise)
    if run.outcome.certified and not sound:
        yield Finding("certified", "the outcome is certified, but a pass was less precise than planned")


def within_ball(plan: Plan, run: Watch) -> Iterator[Finding]:
    """An update from within the ball leads no further than its step; what went before was projected on it."""
    plan = plan.trained_by
    if not isinstance(plan, HiddenPlan) or not run.events:
        return
    problem, radius = plan.problem, plan.radius
    step = float(plan.schedule.step_sizes.max())
    farthest = radius + step * (problem.gradient_bound + problem.l2 * radius)
    longest = max(float(np.linalg.norm(event.values)) for event in run.events)
    if not longest <= farthest * (1 + ROUNDING):
        yield Finding(
            "ball", f"an iterate is {longest:.6g} long, at most {farthest:.6g} follows from the ball"
        )


def stationary(plan: Plan, run: Watch, pair: Pair) -> Iterator[Finding]:
    """The gradient of the priced objective, at the point before its noise, is as short as the sensitivity assumes."""
    plan = plan.trained_by
    if plan.residual is None or not run.events:
        return
    *_, last = _trained(run.events, plan)
    n, l2 = plan.problem.n_rows, plan.settings.get("l2_used", plan.problem.l2)
    assert isinstance(l2, float)
    drawn = [event.released for event in run.events if event.name == OBJECTIVE_NOISE]
    released = [event.released for event in run.events]
    total = gradient_sum(plan, last.values, pair.left, released) + n * l2 * last.values + sum(drawn)
    # The residual is that of the sum where noise is in the objective, and of the mean where it is not.
    reached = float(np.linalg.norm(total)) / (1 if drawn else n)
    farthest = float(np.linalg.norm(last.values))
    error = plan.problem.gradient_error(n, farthest) * (n if drawn else 1) + 1e-12 * l2 * farthest
    if not reached <= plan.residual * (1 + ROUNDING) + 2 * error:
        yield Finding(
            "minimiser", f"the gradient is {reached:.6g} long there, at most {plan.residual:.6g} was priced"
        )


BESIDE = 3.0  # times the epsilon of a plan is that of the job which runs together with it


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """What a replay found; without ``findings`` every check passed."""

    mechanism: str
    problem: Problem
    pair: str
    events: tuple[Comparison, ...]
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        return not self.findings

    @property
    def largest_share(self) -> float:
        """The largest distance, as a share of what was declared."""
        return max((step.distance / step.declared for step in self.events), default=0.0)

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
    to one replay of a plan, by ``all_of_it``: the price by the certificate's recomputation, a run on the operating
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
        findings += [*planned(plan, one), *for_intervals(plan, one)]
        if plan.private:
            same.run(mechanism, plan, table_of(problem, pair.left))
            other.answers = answers_for(plan, one, pair)
            other.run(mechanism, plan, right)
            compared += [
                Comparison(name=name, distance=distance, declared=declared)
                for name, distance, declared in distances(plan.trained_by, one, other, pair)
            ]
            findings += [
                *same_events(one, other),
                *noise(one, other),
                *far_apart(compared),
                *outcome(one.outcome, other.outcome),
                *records(one),
                *records(other),
                *entropy(one, same, other),
                *(Finding("price", fault) for fault in price_faults(plan, one, all_of_it)),
                *used_map(plan, other, right),
                *told_map(plan, other),
                *certified(plan, one, left),
                *on_grid(one),
                *within_ball(plan, one),
                *stationary(plan, one, pair),
                *engines(plan, left),
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
        events=tuple(compared),
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
    yield from (*planned(plan, run), *records(run), *on_grid(run))


def _with_another_job(plan: Plan, rows: Rows) -> Iterator[Finding]:
    """Two jobs in one run, the other one of a larger budget: each as planned, recorded and released by itself."""
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
        run = both.of_job(k)
        found = [
            *planned(one, run),
            *for_intervals(one, run),
            *records(run),
            *told_map(one, run),
            *certified(one, run, table),
            *(Finding("price", fault) for fault in price_faults(one, run, recomputed=False)),
        ]
        yield from (Finding(each.check, f"job {k} of two: {each.message}") for each in found)
    yield from engines(plan, table)  # last, because it makes passes of its own
