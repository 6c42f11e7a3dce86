"""What a replay checks: in two runs along the same releases, in one of them, and in jobs that run together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.audit.coupling import gradient_sum
from dperm.audit.neighbours import Pair
from dperm.audit.price_check import ROUNDING
from dperm.audit.watch import Passage, Watch
from dperm.audit.watched_rows import WatchedTable
from dperm.audit.watched_source import WatchedEntropy
from dperm.mechanisms import Outcome, Plan
from dperm.mechanisms.gradient.noisy_sgd import HiddenPlan
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE, ObjectivePlan
from dperm.mechanisms.statistics.adassp import MOMENTS
from dperm.privacy import GaussianNoise
from dperm.row_map import RowMap

Vector = NDArray[np.float64]

CHECKS = {
    "refused": "neither run is refused",
    "passages": "both runs pass the gate equally often, under the same names, with as many numbers",
    "noise": "the noise does not depend on the rows",
    "distance": "values before the noise are as close as declared",
    "outcome": "with the same releases both runs end in the same weights, records and map of the rows",
    "records": "the outcome's records are those of the passages, and name the source of the noise",
    "plan": "what passes the gate is what was planned",
    "entropy": "randomness comes from the gate's source, at the gate, alike whatever the rows; batches are drawn once",
    "price": "what passed the gate costs no more than the budget, by a second accountant too",
    "rows": "engines hold the rows that their map makes of them, no longer than the bound",
    "map": "rows are moved and scaled by what was released, and by nothing else",
    "precision": "engines sum gradients as precisely as they say",
    "certified": "an outcome is certified only if its passes over the rows were as precise as planned",
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


# Two runs.


def passages(one: Watch, other: Watch) -> Iterator[Finding]:
    left, right = (
        [(passage.kind, passage.name, passage.values.shape) for passage in run.passages]
        for run in (one, other)
    )
    if len(left) != len(right):
        yield Finding("passages", f"{len(left)} passages on one table and {len(right)} on its neighbour")
    for k, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            yield Finding("passages", f"passage {k} is {a} on one table and {b} on its neighbour")


def noise(one: Watch, other: Watch) -> Iterator[Finding]:
    for k, (left, right) in enumerate(zip(one.passages, other.passages, strict=False)):
        if left.noise != right.noise:
            yield Finding(
                "noise", f"passage {k} has {left.noise} on one table and {right.noise} on the other"
            )


def far_apart(compared: list[Comparison]) -> Iterator[Finding]:
    for k, step in enumerate(compared):
        if not step.distance <= step.declared * (1 + ROUNDING):
            yield Finding(
                "distance",
                f"passage {k}, {step.name!r}: values are {step.distance:.6g} apart, declared are {step.declared:.6g}",
            )


def outcome(one: Outcome, other: Outcome) -> Iterator[Finding]:
    if not np.array_equal(one.weights, other.weights):
        apart = np.abs(one.weights - other.weights).max()
        yield Finding("outcome", f"the same releases led to weights that are {apart:.3g} apart")
    if (one.certified, one.records) != (other.certified, other.records):
        yield Finding("outcome", "the records or the certificate of the outcome depend on the rows")
    if one.row_map != other.row_map:
        yield Finding("outcome", "the map of the rows that the outcome tells depends on the rows")
    if not np.array_equal(_told(one), _told(other)):
        yield Finding("outcome", "the same releases led to other numbers for intervals")


def entropy(one: Watch, same: Watch, other: Watch) -> Iterator[Finding]:
    if not all(passage.given for run in (one, other) for passage in run.passages):
        yield Finding("entropy", "noise was drawn from another source than the one that was given")
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
    if same.draws_anew():
        yield Finding("entropy", "an order or batch was another one when it was asked for again")


def _source(run: Watch) -> WatchedEntropy:
    assert isinstance(run.source, WatchedEntropy)
    return run.source


# One run.


def planned(plan: Plan, run: Watch) -> Iterator[Finding]:
    if not plan.private:
        if run.outcome.certified or run.outcome.records or run.passages:
            yield Finding("plan", "a plan without noise has an outcome that looks private")
        return
    inner = plan.trained_by
    public = _trained([p for p in run.passages if p.kind != "hidden"][_first(plan) :], plan)
    drawn = [p for p in public if isinstance(inner, ObjectivePlan) and p.name == OBJECTIVE_NOISE]
    made = len(public) - len(drawn)
    if not 1 <= made <= plan.releases:
        yield Finding("plan", f"{plan.releases} releases were planned and {made} were made")
    if len(drawn) != isinstance(inner, ObjectivePlan):
        yield Finding("plan", f"noise was put in the objective {len(drawn)} times")
    hidden = sum(p.kind == "hidden" for p in run.passages)
    if hidden != inner.hidden_noises:
        yield Finding(
            "plan",
            f"noise that stays hidden was planned {inner.hidden_noises} times and added {hidden} times",
        )
    if plan.releases == 1 and public and public[0].noise != plan.noise:
        yield Finding("plan", f"the noise is {public[0].noise}, planned was {plan.noise}")


def _trained(passages: list[Passage], plan: Plan) -> list[Passage]:
    """Without the passage for intervals, which is the last one where it is planned."""
    if plan.inference is None or not passages or passages[-1].noise != plan.inference.noise:
        return passages
    return passages[:-1]


def for_intervals(plan: Plan, run: Watch) -> Iterator[Finding]:
    """What is told for intervals was released, last, with the noise that was planned."""
    told, last = _told(run.outcome), run.passages[-1] if run.passages else None
    if plan.inference is None:
        if len(told):
            yield Finding("plan", "numbers for intervals were told that were not planned")
    elif last is None or last.name != plan.inference.name or last.noise != plan.inference.noise:
        yield Finding("plan", "the release for intervals is not the planned one, or not the last")
    else:
        released = [passage.released for passage in run.passages if passage.name in (*MOMENTS, last.name)]
        if not np.array_equal(told, np.concatenate(released)):
            yield Finding("outcome", "numbers for intervals were told that were not released")


def _told(outcome: Outcome) -> Vector:
    return np.empty(0) if outcome.told is None else outcome.told


def records(run: Watch) -> Iterator[Finding]:
    public = [passage for passage in run.passages if passage.kind != "hidden"]
    written = run.outcome.records
    if len(written) != len(public):
        yield Finding("records", f"{len(public)} passages but {len(written)} records")
    for k, (record, passage) in enumerate(zip(written, public, strict=False)):
        facts = (record.sensitivity, record.noise_scale, record.dimension)
        if facts != (passage.noise.sensitivity, passage.noise.scale, passage.values.size):
            yield Finding("records", f"record {k} is not that of passage {k}")
        if isinstance(passage.noise, GaussianNoise):
            rounded = passage.noise.padded(passage.noise.sensitivity), passage.noise.grid_exponent
            if (record.padded_sensitivity, record.grid_exponent) != rounded:
                yield Finding("records", f"record {k} states another grid than that of its noise")
        if (record.entropy, record.secure) != (run.source.name, run.source.secure):
            yield Finding("records", f"record {k} names another source than that of its noise")


def told_map(plan: Plan, run: Watch) -> Iterator[Finding]:
    """The second run is told another table's mean and moments, so its own ones cannot pass for them."""
    if run.outcome.row_map != _wanted_maps(plan, run)[-1]:
        yield Finding("map", "the outcome tells another map of the rows than that of the releases")


def used_map(plan: Plan, run: Watch, table: WatchedTable) -> Iterator[Finding]:
    if table.maps != ([] if plan.standardisation is None else _wanted_maps(plan, run)):
        yield Finding("map", "the rows were seen through other maps than those of the releases")


def _wanted_maps(plan: Plan, run: Watch) -> list[RowMap]:
    """What the rows are seen through, one after the other."""
    if plan.standardisation is None:
        return [plan.problem.row_map]
    return plan.standardisation.maps([passage.released for passage in run.passages[: _first(plan)]])


def _first(plan: Plan) -> int:
    """How many releases are made before the training."""
    return 0 if plan.standardisation is None else len(plan.standardisation.noises)


def engines(plan: Plan, table: WatchedTable) -> Iterator[Finding]:
    yield from (Finding("rows", fault) for fault in dict.fromkeys(table.other_rows()))
    yield from (Finding("precision", fault) for fault in dict.fromkeys(table.imprecise_sums(plan.problem)))


def on_grid(run: Watch) -> Iterator[Finding]:
    """The digits below the grid of the noise would be those of the secret value."""
    for k, passage in enumerate(run.passages):
        if isinstance(passage.noise, GaussianNoise):
            steps = np.ldexp(passage.released, -passage.noise.grid_exponent)
            if not np.array_equal(steps, np.rint(steps)):
                yield Finding("grid", f"passage {k}, {passage.name!r}, is off the grid of its noise")


def certified(plan: Plan, run: Watch, table: WatchedTable) -> Iterator[Finding]:
    precise = [any(map(made.within, plan.allows)) for used in table.noted for made in used]
    sound = bool(precise) and all(precise)
    if run.outcome.certified and not sound:
        yield Finding("certified", "the outcome is certified, but a pass was less precise than planned")


def within_ball(plan: Plan, run: Watch) -> Iterator[Finding]:
    """An update from within the ball leads no further than its step; what went before was projected on it."""
    plan = plan.trained_by
    if not isinstance(plan, HiddenPlan) or not run.passages:
        return
    problem, radius = plan.problem, plan.radius
    step = float(plan.schedule.step_sizes.max())
    farthest = radius + step * (problem.gradient_bound + problem.l2 * radius)
    longest = max(float(np.linalg.norm(passage.values)) for passage in run.passages)
    if not longest <= farthest * (1 + ROUNDING):
        yield Finding(
            "ball", f"an iterate is {longest:.6g} long, at most {farthest:.6g} follows from the ball"
        )


def stationary(plan: Plan, run: Watch, pair: Pair) -> Iterator[Finding]:
    """The gradient of the priced objective, at the point before its noise, is as short as the sensitivity assumes."""
    plan = plan.trained_by
    if plan.residual is None or not run.passages:
        return
    *_, last = _trained(run.passages, plan)
    n, l2 = plan.problem.n_rows, plan.settings.get("l2_used", plan.problem.l2)
    assert isinstance(l2, float)
    drawn = [passage.released for passage in run.passages if passage.name == OBJECTIVE_NOISE]
    released = [passage.released for passage in run.passages]
    total = gradient_sum(plan, last.values, pair.left, released) + n * l2 * last.values + sum(drawn)
    # The residual is that of the sum where noise is in the objective, and of the mean where it is not.
    reached = float(np.linalg.norm(total)) / (1 if drawn else n)
    farthest = float(np.linalg.norm(last.values))
    error = plan.problem.gradient_error(n, farthest) * (n if drawn else 1) + 1e-12 * l2 * farthest
    if not reached <= plan.residual * (1 + ROUNDING) + 2 * error:
        yield Finding(
            "minimiser", f"the gradient is {reached:.6g} long there, at most {plan.residual:.6g} was priced"
        )
