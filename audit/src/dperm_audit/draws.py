"""Which rows take part? A price that rests on a secret order or sample holds only if the rows really are drawn so.

Every row is a direction of its own (a one-hot row), so what meets the noise tells which rows it was computed from.
The mechanism runs as users run it, on the operating system's randomness. Each test is exact, and all of them together
raise a false alarm with a probability of at most ``ALARM``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from dperm.losses import Logistic
from dperm.mechanisms import Mechanism, Plan
from dperm.mechanisms.gradient.noisy_sgd import HiddenPlan
from dperm.mechanisms.output.family import DescentPlan
from dperm.planning.sampling import FixedSizeSampling, PoissonSampling
from dperm.privacy import Budget, SystemEntropy
from dperm.problem import Problem
from dperm_audit.neighbours import Rows, table_of
from dperm_audit.replay_cases import short_plan
from dperm_audit.watch import NoiseEvent, Watch, WatchedEntropy

Flags = NDArray[np.bool_]
Batches = NDArray[np.int64]

ALARM = 1e-9
ROWS = 12
COLUMNS = ROWS + 1  # a draw of columns, as dp-cd makes, is none of rows
BUDGET = Budget(1.0, 1e-2)
RUNS = 400
BRIEF: dict[str, Any] = {
    "steps": 3,
    "epochs": 2,
    "average_every": 2,
    "passes": 2,
    "outer": 2,
    "inner": 2,
    "rate": 0.25,
    "batch_size": 3,
}
SMALL_STEP = 0.01


@dataclass(frozen=True, kw_only=True)
class DrawCheck:
    """What was seen of the draws: ``faults`` is empty where rows are drawn as the price assumes, or all are used."""

    drawn: str
    runs: int
    faults: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class OneHot:
    """A table whose rows are directions of their own, or whose persons are: then all rows of a person are alike."""

    problem: Problem
    rows: Rows

    @classmethod
    def of_rows(cls) -> OneHot:
        problem = Problem(loss=Logistic(), l2=0.5, x_norm=1.0, n_rows=ROWS, n_features=COLUMNS)
        return cls(problem, (np.eye(ROWS, COLUMNS), np.ones(ROWS)))


def check_draws(mechanism: Mechanism, runs: int = RUNS, one_hot: OneHot | None = None) -> DrawCheck:
    """Run ``runs`` times and see which rows, or persons, every event was computed from."""
    one_hot = OneHot.of_rows() if one_hot is None else one_hot
    plan, rows = _plan(mechanism, one_hot.problem), one_hot.rows
    if plan is None:
        return DrawCheck(drawn="nothing: no short run fits one-hot rows", runs=0, faults=())
    sampling, unit = plan.sampling, plan.problem.unit
    if isinstance(sampling, PoissonSampling):
        found = _sample_faults(_took_part(plan, rows, runs), sampling.rate, sampling.rate**2)
        return DrawCheck(
            drawn=f"every {unit} with probability {sampling.rate:g}", runs=runs, faults=tuple(found)
        )
    if isinstance(sampling, FixedSizeSampling):
        took_part = _took_part(plan, rows, runs)
        share = sampling.size / ROWS
        found = _sample_faults(took_part, share, share * (sampling.size - 1) / (ROWS - 1))
        size_is_right = (took_part.sum(axis=-1) == sampling.size).all()
        wrong_size = () if size_is_right else (f"a batch does not hold {sampling.size} rows",)
        return DrawCheck(drawn=f"{sampling.size} {unit}s at a time", runs=runs, faults=(*wrong_size, *found))
    if plan.secret_batches and isinstance(plan, HiddenPlan | DescentPlan):
        decode = _batches_by_pushes if isinstance(plan, HiddenPlan) else _batches_by_decay
        found = _order_faults(decode(plan, rows, runs), plan.secret_batches)
        return DrawCheck(drawn="a secret order", runs=runs, faults=tuple(found))
    once = Watch(WatchedEntropy(0))
    once.run(plan.mechanism, plan, table_of(plan.problem, rows))
    unknown = ROWS in once.ordered or any(event.rows_drawn for event in once.events)
    faults = ("rows are drawn in a way that this check does not know",) if unknown else ()
    return DrawCheck(drawn="nothing", runs=1, faults=faults)


def _plan(mechanism: Mechanism, problem: Problem) -> Plan | None:
    """A short run on one-hot rows; slopes of the logistic loss stay away from zero when steps are small.

    Batches are read from the decay of the weights, or without l2 from what each pushed.
    """
    plan = short_plan(mechanism, problem, BUDGET, {}, BRIEF)
    if plan is None:
        return None
    if isinstance(plan.trained_by, HiddenPlan):
        plan = short_plan(mechanism, replace(problem, l2=0.0), BUDGET, {}, BRIEF)
    elif "step_size" in mechanism.settings and not isinstance(plan.trained_by, DescentPlan):
        plan = short_plan(mechanism, problem, BUDGET, {"step_size": SMALL_STEP}, BRIEF)
    return None if plan is None else plan.trained_by


def _runs(plan: Plan, rows: Rows, runs: int) -> Iterator[list[NoiseEvent]]:
    table = table_of(plan.problem, rows)
    for _ in range(runs):
        watch = Watch(SystemEntropy())
        watch.run(plan.mechanism, plan, table)
        yield watch.events


def _took_part(plan: Plan, rows: Rows, runs: int) -> Flags:
    """Runs by event by rows: a sum over drawn rows has a coordinate for each row, zero if the row is not in it.

    Releases that are made of all rows in every run, and for which none were drawn, need no sample.
    """
    seen = [[p for p in run if p.kind == "release"] for run in _runs(plan, rows, runs)]
    sums = np.array([[event.values[:ROWS] != 0 for event in run] for run in seen])
    drawn = np.array([[event.rows_drawn for event in run] for run in seen])
    return np.asarray(sums[:, ~(sums.all(axis=(0, 2)) & ~drawn.any(axis=0))])


def _batches_by_decay(plan: Plan, rows: Rows, runs: int) -> Batches:
    """The batch of every row: weights decay between updates, so a weight tells when its row was last visited."""
    known = Watch(_PublicOrder(0))
    known.run(plan.mechanism, plan, table_of(plan.problem, rows))
    sizes = plan.secret_batches
    weights = known.events[-1].values
    of_batch = np.array([weights[place] for place in np.cumsum(sizes) - 1])
    seen = np.array([events[-1].values[:ROWS] for events in _runs(plan, rows, runs)])
    apart = np.abs(seen[:, :, None] - of_batch) / np.abs(of_batch)
    return np.where(apart.min(axis=-1) < 1e-9, apart.argmin(axis=-1), -1)


def _batches_by_pushes(plan: Plan, rows: Rows, runs: int) -> Batches:
    """The batch of every row in the first epoch: without l2 an update moves the weights of its rows alone."""
    found = []
    for events in _runs(plan, rows, runs):
        batch = np.full(ROWS, -1)
        before = np.zeros(ROWS)
        for place in range(len(plan.secret_batches)):
            pushed = events[place].values[:ROWS] != before
            batch[pushed & (batch < 0)] = place
            before = events[place].released[:ROWS]
        found.append(batch)
    return np.array(found)


class _PublicOrder(WatchedEntropy):
    def permutation(self, n: int) -> Batches:
        return np.arange(n)


def _order_faults(batch: Batches, sizes: tuple[int, ...]) -> Iterator[str]:
    """Every row is in every batch as often as a uniform order puts it there, and so is every pair of rows."""
    if (batch < 0).any() or any(((batch == j).sum(axis=1) != size).any() for j, size in enumerate(sizes)):
        yield "the batches are not those of the schedule"
        return
    runs = len(batch) // 2 * 2
    batch = batch[:runs]
    tests = [
        _p_value((batch[:, row] == j).sum(), runs, size / ROWS)
        for row in range(ROWS)
        for j, size in enumerate(sizes)
    ]
    same = sum(size * (size - 1) for size in sizes) / (ROWS * (ROWS - 1))
    together = [
        _p_value((batch[:, a] == batch[:, b]).sum(), runs, same) for a, b in combinations(range(ROWS), 2)
    ]
    stays = sum(size * size for size in sizes) / ROWS**2
    again = [_p_value((batch[0::2, row] == batch[1::2, row]).sum(), runs // 2, stays) for row in range(ROWS)]
    yield from _alarms(
        {
            "rows are not in the batches as often as a random order puts them there": tests,
            "rows are together in a batch too often or too seldom": together,
            "the order of one run tells of the next": again,
        }
    )


def _sample_faults(took_part: Flags, share: float, together: float) -> Iterator[str]:
    """Every row takes part as often as was priced, independently of other rows (or nearly), steps and runs."""
    flat = took_part.reshape(-1, ROWS)
    if len(flat) == 0:
        yield "rows are never drawn"
        return
    each = [_p_value(flat[:, row].sum(), len(flat), share) for row in range(ROWS)]
    both = [
        _p_value((flat[:, a] & flat[:, b]).sum(), len(flat), together)
        for a, b in combinations(range(ROWS), 2)
    ]
    half = len(flat) // 2
    again = [
        _p_value((flat[0 : 2 * half : 2, row] & flat[1 : 2 * half : 2, row]).sum(), half, share**2)
        for row in range(ROWS)
    ]
    yield from _alarms(
        {
            f"rows do not take part with probability {share:g}": each,
            "rows take part together too often or too seldom": both,
            "who takes part in one step tells of the next": again,
        }
    )


def _p_value(count: int, trials: int, probability: float) -> float:
    return float(binomtest(int(count), trials, probability).pvalue)


def _alarms(tests: dict[str, list[float]]) -> Iterator[str]:
    limit = ALARM / sum(map(len, tests.values()))
    yield from (message for message, values in tests.items() if min(values) < limit)
