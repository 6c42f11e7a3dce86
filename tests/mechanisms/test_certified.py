"""One place decides what is certified, and by how precise every pass over the rows was."""

from dataclasses import fields, replace
from itertools import count

import numpy as np
import pytest
from every_private import BUDGET, NOT_STANDARDISED, each_case, planned, rows_for

from dperm.arithmetic import FLOAT32, FLOAT64, Arithmetic
from dperm.engine import Engine, ReferenceEngine, Rows, Table, open_rows
from dperm.engine.base.rows import OpenRequest
from dperm.errors import DpermError
from dperm.losses import Logistic
from dperm.mechanisms import AMP, Job, Majority, NoisySGD, NoPrivacy, OutputGD, Plan, resolve
from dperm.mechanisms.base import certified
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE
from dperm.privacy import Gate, ReleaseRecord
from dperm.problem import Problem

# Coarser than what any plan allows for by itself.
FLOAT32_SUMS = replace(FLOAT64, name="sums in float32", sum=FLOAT32.sum, alike=None)
# What no rows can certify, since its plan does not.
NOT_BY_PLAN = {"objective-pure": "floating point"}
BOUNDS = [part.name for part in fields(Arithmetic) if part.name not in ("name", "alike")]


class CoarseEngine(ReferenceEngine):
    def arithmetic(self, n_models: int) -> Arithmetic:
        return FLOAT32_SUMS


class CoarseTable(Table):
    """Rows whose sums are said to be as precise as float32 ones."""

    def _engine(self, request: OpenRequest) -> Engine:
        return CoarseEngine(self._stored(request), self._used)


class UnwatchedEngine(ReferenceEngine):
    def _note(self, n_models: int) -> None:
        pass


class UnwatchedTable(Table):
    """Rows of which no pass is noted."""

    def _engine(self, request: OpenRequest) -> Engine:
        return UnwatchedEngine(self._stored(request), self._used)


class PartlyCoarseTable(Table):
    """Rows whose engines are precise, apart from those opened at these turns."""

    def __init__(self, *rows: object, coarse: set[int], **facts: object) -> None:
        super().__init__(*rows, **facts)  # type: ignore[arg-type]
        self.turns, self.coarse = count(), coarse

    def _engine(self, request: OpenRequest) -> Engine:
        kind = CoarseEngine if next(self.turns) in self.coarse else ReferenceEngine
        return kind(self._stored(request), self._used)


def ran(plan: Plan, rows: Rows) -> tuple[bool, tuple[ReleaseRecord, ...]]:
    (outcome,) = plan.mechanism.run([Job(plan=plan)], rows, Gate.seeded(0))
    assert np.isfinite(outcome.weights).all()
    return outcome.certified, outcome.records


def table(kind: type[Table], problem: Problem, **more: object) -> Table:
    return kind(*rows_for(problem), row_map=problem.row_map, n_rows=problem.n_rows, **more)  # type: ignore[arg-type]


@pytest.mark.together
@each_case
def test_rows_decide_what_is_certified(name: str, standardise: bool) -> None:
    """Plain rows are; rows with float32 sums, and rows of which nothing is known, are not. All of them can be used."""
    plan = planned(name, standardise)
    assert (plan.not_certified is None) == (name not in NOT_BY_PLAN)
    if plan.not_certified is not None:
        assert NOT_BY_PLAN[name] in plan.not_certified
    assert ran(plan, open_rows(*rows_for(plan.problem), plan.problem))[0] == (name not in NOT_BY_PLAN)
    assert not ran(plan, table(CoarseTable, plan.problem))[0]
    assert not ran(plan, table(UnwatchedTable, plan.problem))[0]


@pytest.mark.together
@each_case
def test_a_plan_that_allows_for_coarse_sums_is_certified_on_them_and_declares_more(
    name: str, standardise: bool
) -> None:
    fine, coarse = (planned(name, standardise, arithmetic=kind) for kind in (FLOAT64, FLOAT32_SUMS))
    first = []
    for plan in (fine, coarse):
        sure, records = ran(plan, table(CoarseTable, plan.problem))
        assert sure == (plan is coarse and name not in NOT_BY_PLAN)
        first.append([r for r in records if not r.name.startswith(OBJECTIVE_NOISE)][: 1 + 2 * standardise])
    for before, after in zip(*first, strict=True):  # mean and moments too
        assert before.name == after.name
        assert after.sensitivity > before.sensitivity


@pytest.mark.parametrize("name", NOT_STANDARDISED)
def test_what_is_not_standardised_here_is_refused(name: str) -> None:
    with pytest.raises(DpermError):
        replace(resolve(name), standardise=True).plan(planned(name).problem, BUDGET)


def test_one_coarse_pass_among_precise_ones_is_enough() -> None:
    """A standardised run opens its rows three times: for mean, moments and training."""
    plan = planned("output-gd", True)
    turns: list[set[int]] = [set(), {0}, {1}, {2}, {3}]
    sure = [ran(plan, table(PartlyCoarseTable, plan.problem, coarse=coarse))[0] for coarse in turns]
    assert sure == [True, False, False, False, True]


def test_nothing_is_carried_over_from_an_earlier_run() -> None:
    plan = planned("output-gd")
    rows = table(PartlyCoarseTable, plan.problem, coarse={1})
    assert [ran(plan, rows)[0] for _ in range(3)] == [True, False, True]
    coarse_first = open_rows(*rows_for(plan.problem), plan.problem)
    mechanism = NoisySGD(epochs=1, standardise=False)
    jobs = [Job(plan=mechanism.plan(plan.problem, BUDGET))] * 2  # two models: float32 products
    assert not any(outcome.certified for outcome in mechanism.run(jobs, coarse_first, Gate.seeded(0)))
    assert ran(plan, coarse_first)[0]


# The rule itself.

PROBLEM = Problem(loss=Logistic(), l2=0.1, x_norm=1.0, n_rows=100, n_features=3, intercept=0.5)
PLAN = OutputGD(iterations=2).plan(PROBLEM, BUDGET)


def test_as_planned_or_finer_is_certified() -> None:
    assert certified(PLAN, {FLOAT64})
    assert certified(PLAN, {FLOAT64, replace(FLOAT64, name="finer", sum=0.0)})
    coarse = OutputGD(iterations=2).plan(replace(PROBLEM, arithmetic=FLOAT32), BUDGET)
    assert certified(coarse, {FLOAT32, FLOAT64})


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("worse", [1.0000001, np.inf, np.nan])
@pytest.mark.parametrize("bound", BOUNDS)
def test_no_error_may_be_larger_than_planned_or_unknown(bound: str, worse: float) -> None:
    used = replace(FLOAT64, **{bound: worse * getattr(FLOAT64, bound)})
    assert not certified(PLAN, {used})
    assert not certified(PLAN, {FLOAT64, used})


def test_a_run_that_noted_nothing_is_not_believed() -> None:
    assert not certified(PLAN, set())


@pytest.mark.parametrize("baseline", [NoPrivacy(), Majority()], ids=lambda baseline: baseline.name)
def test_a_baseline_is_never_certified(baseline: NoPrivacy) -> None:
    assert not certified(baseline.plan(PROBLEM, BUDGET), {FLOAT64})


def test_a_plan_that_falls_short_is_never_certified() -> None:
    assert not certified(AMP(accounting="paper").plan(PROBLEM, BUDGET), {FLOAT64})
    assert certified(AMP().plan(PROBLEM, BUDGET), {FLOAT64})
