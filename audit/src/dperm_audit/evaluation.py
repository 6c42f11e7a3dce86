"""Do evaluations and mean predictions keep what they claim? Worst-case neighbours, how far they move sums, an attack.

As everywhere in the audit, "refuted" is a proof up to a stated probability and anything else proves nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.counting.bins import AGAINST, CONFIDENCE, SCORES, Scale, ScoreBins
from dperm.counting.classification import Classification, LabelledScores
from dperm.counting.design import Design, Owners
from dperm.counting.query import Query
from dperm.counting.regression import PredictedTargets, Regression
from dperm.estimators.persons import GroupedRows
from dperm.evaluation.groups import SUMMED, GroupSums, means_design
from dperm.planning.pricing import price_of
from dperm.privacy import Budget, Gate
from dperm.unit import Neighbours
from dperm_audit.bounds import ProfileFamily
from dperm_audit.results import AttackResult, AuditResult, ControlResult, ReplaySummary

Vector = NDArray[np.float64]

CLAIM = Budget(1.0, 1e-2)
RUNS, TRAINING, FAILURE = 20_000, 0.1, 1e-3
BINS, SURE = 12, 1e6
_SCALE = Scale(0.0, 1.0, 0.0)
_BINS = ScoreBins(BINS, dict.fromkeys((SCORES, CONFIDENCE, *(f"{AGAINST} {k}" for k in range(3))), _SCALE))
_ROWS_EACH = 3
NAME = "evaluation"
MOST_RUNS, CONTROL_RUNS = 50_000, 6000
_MOVES = (
    ("means in one group", (0, 1.0), (0, -1.0)),
    ("means in two groups", (0, 1.0), (1, -1.0)),
    ("means in the middle", (0, 0.0), (1, 0.0)),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Case:
    """What the two tables of a pair of neighbours give before noise, and the plan of the release."""

    name: str
    plan: Query
    left: Vector
    right: Vector

    @property
    def gap(self) -> float:
        return float(np.linalg.norm(self.left - self.right))


def worst_cases(neighbours: Neighbours, budget: Budget = CLAIM) -> list[Case]:
    """For each kind of model, neighbours that move what is released as far as its sensitivity says.

    A row, or a person with several, that is right and sure is replaced by one that is wrong and sure, or such a one
    comes; where errors are cut off, by one whose error is larger than the bound. A row whose prediction is averaged
    goes from one end of the range to the other, in its group or into another one, or from the middle, where the spread
    counts most, to that of another group.
    """
    found = []
    replaced = neighbours is Neighbours.REPLACE_ONE
    for n_classes, rows_each in ((2, 1), (3, 1), (2, _ROWS_EACH)):
        task = Classification(n_classes, True, _BINS)
        right, wrong = (
            _sure(label, said, n_classes, rows_each) for label, said in ((n_classes - 1,) * 2, (1, 0))
        )
        here, there = (
            task.design.vector(task.counts(rows, _of_one(len(rows.labels))))
            for rows in (wrong, right if replaced else _sure(0, 0, n_classes, 0))
        )
        whose = "" if rows_each == 1 else f", a person of {rows_each} rows"
        found.append(_case(f"{n_classes} classes{whose}", task.design, neighbours, budget, here, there))
    for bound in (None, 0.5):
        tables = [(np.array([-1.0]), np.array([1.0])), (np.array([-1.0]), np.array([-1.0]))]
        if not replaced:
            tables[1] = (np.zeros(0), np.zeros(0))
        errors = Regression((-1.0, 1.0), bound, neighbours)
        here, there = (errors.design.vector(errors.counts(PredictedTargets(*table))) for table in tables)
        named = "regression" if bound is None else "regression with a bound on errors"
        found.append(_case(named, errors.design, neighbours, budget, here, there))
    for name, row, other in _MOVES:
        here, there = _summed(*row), _summed(*other) if replaced else _summed()
        found.append(_case(name, means_design(2), neighbours, budget, here, there))
    return found


def attacked(case: Case, runs: int = RUNS, seed: int = 0, noise_share: float = 1.0) -> AttackResult:
    """Release both tables many times and bound epsilon from below, by the best possible score.

    ``noise_share`` below 1 is a release with less noise than planned: one that must be refuted.
    """
    noise, gate = case.plan.noise, Gate.seeded(seed)
    moved = (case.left - case.right) / noise.scale
    scores = []
    for exact in (case.left, case.right):
        columns = np.repeat((exact / noise_share)[:, None], runs, axis=1)
        published = noise_share * gate.for_jobs(runs).release(columns, [noise] * runs, "attacked")
        scores.append(moved @ published / noise.scale)
    budget, family = case.plan.budget, ProfileFamily(price_of([noise], 0.0))
    sides = scores[0], scores[1]
    return AttackResult.of_scores(case.name, budget, sides, round(TRAINING * runs), FAILURE, family)


def audit_evaluation(
    epsilon: float = CLAIM.epsilon, delta: float | None = None, runs: int = RUNS, seed: int = 0
) -> Iterator[AuditResult | ControlResult]:
    """All worst cases of both relations measured and attacked, then a release with half the noise, to be caught."""
    started = time.process_time()
    budget = Budget(epsilon, CLAIM.delta if delta is None else delta)
    cases = [case for relation in Neighbours for case in worst_cases(relation, budget)]
    failures = tuple(
        f"{case.name}: neighbours are {case.gap:g} apart, more than stated"
        for case in cases
        if not case.gap <= case.plan.noise.sensitivity * (1 + 1e-12)
    )
    yield AuditResult(
        mechanism=NAME,
        replays=ReplaySummary(replays=len(cases), failures=failures),
        attacks=tuple(attacked(case, min(runs, MOST_RUNS), seed) for case in cases),
        seconds=time.process_time() - started,
    )
    started = time.process_time()
    broken = attacked(cases[0], CONTROL_RUNS, seed, noise_share=0.5)
    yield ControlResult(
        control="evaluation with half the noise",
        what_is_wrong="Adds half the noise that its sensitivity asks for.",
        caught_by="audit",
        faults=(f"epsilon >= {broken.bounds.epsilon:.3g}, claimed {broken.claimed:g}",)
        if broken.refuted
        else (),
        seconds=time.process_time() - started,
        ratio=broken.ratio,
    )


def _case(
    name: str, design: Design, neighbours: Neighbours, budget: Budget, left: Vector, right: Vector
) -> Case:
    plan = Query(design=design, budget=budget, neighbours=neighbours)
    return Case(name=name, plan=plan, left=left, right=right)


def _summed(*row: float) -> Vector:
    """What a table with this row, its group and its prediction, or without any, gives in two groups."""
    design, group, t = means_design(2), *np.array([row]).reshape(-1, 2).T
    return design.vector({SUMMED: GroupSums(2).count(group.astype(np.int64), t)})


def _sure(label: int, said: int, n_classes: int, rows: int) -> LabelledScores:
    """Rows of this label that are given another, or their own, without a doubt."""
    odds = np.tile(np.where(np.arange(n_classes) == said, SURE, -SURE), (rows, 1))
    return LabelledScores(np.full(rows, label), odds[:, 1] if n_classes == 2 else odds, True)


def _of_one(rows: int) -> Owners:
    """All rows are of one person."""
    return Owners.of_persons(GroupedRows.of(np.zeros(rows, np.int64)))
