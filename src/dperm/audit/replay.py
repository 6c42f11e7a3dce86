"""Replay: run a mechanism on two neighbours along the same public trajectory and compare all that meets noise.

Noise itself is not looked at; that is the business of a statistical audit. A replay tests what the noise is said to
hide: values before the noise are no further apart than declared, nothing else comes out, and what passed is what
was charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.audit.neighbours import Pair, Rows, pairs, table_of
from dperm.audit.price_check import ROUNDING, price_faults
from dperm.audit.replay_cases import BUDGET, replay_cases
from dperm.audit.watch import Watch, WatchedEntropy
from dperm.errors import DpermError, NotCertified
from dperm.mechanisms import Mechanism, Plan, mechanism_names, resolve
from dperm.mechanisms.gradient.noisy_sgd import HiddenPlan
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE
from dperm.mechanisms.output.descent import DescentPlan
from dperm.privacy import Budget, GaussianNoise, SystemEntropy
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem

Vector = NDArray[np.float64]

CHECKS = {
    "refused": "neither run is refused",
    "passages": "both runs pass the gate equally often, under the same names, with as many numbers",
    "noise": "the noise does not depend on the rows",
    "distance": "values before the noise are as close as declared",
    "outcome": "with the same releases both runs end in the same weights",
    "records": "the outcome's records are those of the passages",
    "plan": "what passes the gate is what was planned",
    "entropy": "all randomness is drawn at the gate, and alike whatever the rows",
    "price": "what passed the gate costs no more than the budget, by a second accountant too",
    "centre": "rows are centred by the mean that was released, and by nothing else",
    "grid": "what left a Gaussian passage lies on the grid of its noise, from the operating system's source too",
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
    """One passage in both runs: how far the values are apart, in the norm of its noise, and what was declared."""

    name: str
    distance: float
    declared: float


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
    second_route: bool = True,
    system: bool = False,
) -> ReplayReport:
    """Run a mechanism on both tables of a pair, the second time along the releases of the first.

    Both runs start from the same seed, so they share every hidden branch, such as the order of the rows. Where the
    second table lacks a row, the others keep what was drawn for them. Noise in an objective moves by the difference
    of the two gradients at the released point, the coupling of its proof. What hardly depends on the pair may be left
    to one replay of a plan: the price by the certificate's ``second_route``, and a run on the ``system``'s source.

    Assumes
    -------
    The mechanism draws from the gate that it is given. The source of that is a seeded one;
    with ``system`` a third run, on the operating system's, must pass the gate as planned too.
    """
    plan = mechanism.plan(problem, budget) if plan is None else plan
    names = _names_without(problem.n_rows, pair.row) if pair.removed else None
    one, same = (Watch(WatchedEntropy(seed)) for _ in range(2))
    other = Watch(WatchedEntropy(seed), names=names)
    findings: list[Finding] = []
    compared: list[Comparison] = []
    try:
        one.run(mechanism, plan, table_of(problem, pair.left))
        findings += _planned(plan, one)
        if plan.private:
            same.run(mechanism, plan, table_of(problem, pair.left))
            other.answers = _answers(plan, one, pair)
            other.run(mechanism, plan, table_of(problem, pair.right))
            compared += _compared(plan.trained_by, one, other, pair)
            findings += [
                *_passages(one, other),
                *_noise(one, other),
                *_far_apart(compared),
                *_outcome(one, other),
                *_records(one),
                *_records(other),
                *_entropy(one, same, other),
                *(Finding("price", fault) for fault in price_faults(plan, one, second_route)),
                *_centre(plan, other),
                *_on_grid(one),
                *_within_ball(plan, one),
                *_stationary(plan, one, pair),
            ]
            if system:
                third = Watch(SystemEntropy())
                third.run(mechanism, plan, table_of(problem, pair.left))
                findings += [*_planned(plan, third), *_records(third), *_on_grid(third)]
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
    names: Sequence[str] | None = None, budget: Budget = BUDGET, thorough: bool = False
) -> Iterator[ReplayReport]:
    """Replay every registered mechanism, or those named, on every loss and relation that it declares.

    ``thorough`` takes all pairs of neighbours instead of a third of them in turn, and adds problems without an
    intercept and problems without l2.

    Raises
    ------
    NotCertified
        If a mechanism could be replayed on nothing.
    """
    for name in mechanism_names() if names is None else names:
        cases = list(replay_cases(resolve(name), budget, thorough))
        if not cases:
            raise NotCertified(
                f"mechanism {name!r} fits no problem of the replay, so nothing is known of it."
            )
        for k, plan in enumerate(cases):
            every = 1 if thorough else 3
            for turn, (seed, pair) in enumerate(list(enumerate(pairs(plan.problem)))[k % every :: every]):
                first = turn == 0 and plan.private
                yield replay(
                    plan.mechanism,
                    plan.problem,
                    plan.budget,
                    pair,
                    seed,
                    plan,
                    second_route=first,
                    system=first,
                )


def require_replay(names: Sequence[str] | None = None, thorough: bool = False) -> int:
    """Replay mechanisms, all registered ones by default, and return how many replays passed.

    Raises
    ------
    NotCertified
        If a single check failed. The message lists what was found.
    """
    reports = list(replay_all(names, thorough=thorough))
    broken = [str(report) for report in reports if not report.passed]
    if broken:
        raise NotCertified(f"{len(broken)} of {len(reports)} replays failed:\n" + "\n".join(broken))
    return len(reports)


def _centre(plan: Plan, run: Watch) -> Iterator[Finding]:
    """The second run is told another table's mean, so its own one cannot pass for it."""
    released = [] if plan.centring is None else [run.passages[0].released]
    used = [row_map.centre for row_map in run.maps if row_map.centre is not None]
    assert run.outcome is not None
    told = [] if run.outcome.row_map.centre is None else [run.outcome.row_map.centre]
    if not all(
        len(seen) == len(released) and all(map(np.array_equal, released, seen)) for seen in (used, told)
    ):
        yield Finding("centre", "the rows were centred by another vector than the mean that was released")


def _within_ball(plan: Plan, run: Watch) -> Iterator[Finding]:
    """An update from within the ball leads no further than its step; what went before was projected on it."""
    plan = plan.trained_by
    if not isinstance(plan, HiddenPlan):
        return
    problem, radius = plan.problem, plan.radius
    step = float(plan.schedule.step_sizes.max())
    farthest = radius + step * (problem.gradient_bound + problem.l2 * radius)
    longest = max(float(np.linalg.norm(passage.values)) for passage in run.passages)
    if not longest <= farthest * (1 + ROUNDING):
        yield Finding(
            "ball", f"an iterate is {longest:.6g} long, at most {farthest:.6g} follows from the ball"
        )


def _stationary(plan: Plan, run: Watch, pair: Pair) -> Iterator[Finding]:
    """The gradient of the priced objective, at the point before its noise, is as short as the sensitivity assumes."""
    plan = plan.trained_by
    if plan.residual is None:
        return
    *_, last = run.passages
    n, l2 = plan.problem.n_rows, plan.settings.get("l2_used", plan.problem.l2)
    assert isinstance(l2, float)
    drawn = [passage.released for passage in run.passages if passage.name == OBJECTIVE_NOISE]
    released = [passage.released for passage in run.passages]
    total = _gradient_sum(plan, last.values, pair.left, released) + n * l2 * last.values + sum(drawn)
    # The residual is that of the sum where noise is in the objective, and of the mean where it is not.
    reached = float(np.linalg.norm(total)) / (1 if drawn else n)
    farthest = float(np.linalg.norm(last.values))
    error = plan.problem.gradient_error(n, farthest) * (n if drawn else 1) + 1e-12 * l2 * farthest
    if not reached <= plan.residual * (1 + ROUNDING) + 2 * error:
        yield Finding(
            "minimiser", f"the gradient is {reached:.6g} long there, at most {plan.residual:.6g} was priced"
        )


def _names_without(n_rows: int, row: int) -> NDArray[np.int64]:
    """New name of every row once ``row`` is taken out: later ones move up and the empty row is the last."""
    names = np.arange(n_rows)
    names[row + 1 :] -= 1
    names[row] = n_rows - 1
    return names


def _answers(plan: Plan, run: Watch, pair: Pair) -> list[Vector]:
    """What the second run gets at the gate: the same, but for noise in an objective."""
    plan = plan.trained_by
    answers = [passage.released for passage in run.passages]
    for k, passage in enumerate(run.passages):
        if passage.name == OBJECTIVE_NOISE and k + 1 < len(answers):
            point = run.passages[k + 1].values
            here, there = (_gradient_sum(plan, point, rows, answers) for rows in (pair.left, pair.right))
            answers[k] = passage.released + here - there
    return answers


def _gradient_sum(plan: Plan, point: Vector, rows: Rows, released: list[Vector]) -> Vector:
    """Gradients of all rows at these weights, by the plain engine, on centred rows where the plan centres them."""
    loss = plan.problem.loss
    weights = point[:, None] if loss.outputs == 1 else point.reshape(-1, 1, loss.outputs)
    table = table_of(plan.problem, rows)
    if plan.centring is not None:
        table = table.mapped(plan.centring.map_by(released[0]))
    engine = table.open(precise=True, engine="reference")
    return np.asarray(engine.gradient_sum(loss, np.ascontiguousarray(weights)).reshape(-1))


def _compared(plan: Plan, one: Watch, other: Watch, pair: Pair) -> Iterator[Comparison]:
    for k, (left, right) in enumerate(zip(one.passages, other.passages, strict=False)):
        if left.values.shape != right.values.shape:
            continue
        moved = left.values - right.values
        if isinstance(left.noise, NoisyMin):
            # A shift of all scores changes no choice. Two-sided scores are paid for twice.
            distance = float(np.ptp(moved)) / (1 if left.noise.one_sided else 2)
        elif left.name == OBJECTIVE_NOISE:
            distance = float(np.linalg.norm(moved) + np.linalg.norm(left.released - right.released))
        else:
            distance = float(np.linalg.norm(moved))
        declared = float(left.noise.sensitivity)
        if k == len(one.passages) - 1:
            declared = min(declared, _branch_sensitivity(plan, one, pair))
        yield Comparison(name=left.name, distance=distance, declared=declared)


def _branch_sensitivity(plan: Plan, run: Watch, pair: Pair) -> float:
    """What the plan declares for the batch that the differing row came to lie in, if it has fixed batches."""
    if not isinstance(plan, DescentPlan) or plan.sensitivities is None:
        return math.inf
    order = run.row_order
    position = pair.row if order is None else int(np.flatnonzero(order == pair.row)[0])
    batch = int(np.searchsorted(np.cumsum(plan.schedule.batch_sizes), position, side="right"))
    return float(plan.sensitivities[batch])


def _passages(one: Watch, other: Watch) -> Iterator[Finding]:
    left, right = (
        [(passage.kind, passage.name, passage.values.shape) for passage in run.passages]
        for run in (one, other)
    )
    if len(left) != len(right):
        yield Finding("passages", f"{len(left)} passages on one table and {len(right)} on its neighbour")
    for k, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            yield Finding("passages", f"passage {k} is {a} on one table and {b} on its neighbour")


def _noise(one: Watch, other: Watch) -> Iterator[Finding]:
    for k, (left, right) in enumerate(zip(one.passages, other.passages, strict=False)):
        if left.noise != right.noise:
            yield Finding(
                "noise", f"passage {k} has {left.noise} on one table and {right.noise} on the other"
            )


def _far_apart(compared: list[Comparison]) -> Iterator[Finding]:
    for k, step in enumerate(compared):
        if not step.distance <= step.declared * (1 + ROUNDING):
            yield Finding(
                "distance",
                f"passage {k}, {step.name!r}: values are {step.distance:.6g} apart, declared are {step.declared:.6g}",
            )


def _outcome(one: Watch, other: Watch) -> Iterator[Finding]:
    assert one.outcome is not None and other.outcome is not None  # noqa: PT018
    if not np.array_equal(one.outcome.weights, other.outcome.weights):
        apart = np.abs(one.outcome.weights - other.outcome.weights).max()
        yield Finding("outcome", f"the same releases led to weights that are {apart:.3g} apart")
    if (one.outcome.certified, one.outcome.records) != (other.outcome.certified, other.outcome.records):
        yield Finding("outcome", "the records or the certificate of the outcome depend on the rows")


def _records(run: Watch) -> Iterator[Finding]:
    assert run.outcome is not None
    public = [passage for passage in run.passages if passage.kind != "hidden"]
    written = run.outcome.records
    if len(written) != len(public):
        yield Finding("records", f"{len(public)} passages but {len(written)} records")
    for k, (record, passage) in enumerate(zip(written, public, strict=False)):
        noise = passage.noise
        facts = (record.sensitivity, record.noise_scale, record.dimension)
        if facts != (noise.sensitivity, noise.scale, passage.values.size):
            yield Finding("records", f"record {k} is not that of passage {k}")


def _on_grid(run: Watch) -> Iterator[Finding]:
    """The digits below the grid of the noise would be those of the secret value."""
    for k, passage in enumerate(run.passages):
        if isinstance(passage.noise, GaussianNoise):
            steps = np.ldexp(passage.released, -passage.noise.grid_exponent)
            if not np.array_equal(steps, np.rint(steps)):
                yield Finding("grid", f"passage {k}, {passage.name!r}, is off the grid of its noise")


def _planned(plan: Plan, run: Watch) -> Iterator[Finding]:
    assert run.outcome is not None
    if not plan.private:
        if run.outcome.certified or run.outcome.records or run.passages:
            yield Finding("plan", "a plan without noise has an outcome that looks private")
        return
    released = [p for p in run.passages if p.kind != "hidden" and p.name != OBJECTIVE_NOISE]
    planned = plan.releases + (plan.centring is not None)
    if not 1 <= len(released) <= planned:
        yield Finding("plan", f"{planned} releases were planned and {len(released)} were made")
    first = [p for p in run.passages if p.kind != "hidden"][(plan.centring is not None) :]
    if plan.releases == 1 and first and first[0].noise != plan.noise:
        yield Finding("plan", f"the noise is {first[0].noise}, planned was {plan.noise}")


def _source(run: Watch) -> WatchedEntropy:
    assert isinstance(run.source, WatchedEntropy)
    return run.source


def _entropy(one: Watch, same: Watch, other: Watch) -> Iterator[Finding]:
    if any(_source(run).free for run in (one, other)):
        yield Finding("entropy", "something was drawn from the source beside the gate")
    if _source(one).draws != _source(other).draws:
        yield Finding("entropy", "what is drawn at random, or how much of it, depends on the rows")
    pairs_of_runs = zip(one.passages, same.passages, strict=False)
    if len(one.passages) != len(same.passages) or not all(
        np.array_equal(a.values, b.values) and np.array_equal(a.released, b.released)
        for a, b in pairs_of_runs
    ):
        yield Finding("entropy", "the same rows and the same seed gave other values the second time")
