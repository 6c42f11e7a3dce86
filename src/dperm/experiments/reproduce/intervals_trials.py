"""One simulated table, one private fit, and whether its intervals hold the true coefficients. NOT PRIVATE."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dperm.engine import open_rows
from dperm.losses import ClippedSquared, Logistic, Loss
from dperm.mechanisms import Job, Plan, resolve
from dperm.mechanisms.inference import curvature_from_release
from dperm.models.intervals.bending import CurvedRows
from dperm.models.intervals.ends import Ends, ends
from dperm.models.intervals.equations import equation_of
from dperm.models.intervals.first_order import Equation
from dperm.privacy import Budget, Gate
from dperm.problem import Problem

Floats = NDArray[np.float64]

DELTA, LEVEL, REACH = 1e-6, 0.95, 1.959964
LOGISTIC, LINEAR = "logistic", "linear"
LOSSES: dict[str, Loss] = {LOGISTIC: Logistic(), LINEAR: ClippedSquared()}
LEAST_SURE = (
    1.0  # noise level beyond which no intervals are computed, not even to see whether they would be right
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """What is fitted: all of it public, so that one plan serves every repeat."""

    kind: str
    n_rows: int
    n_features: int
    epsilon: float
    mechanism: str = "auto"

    @property
    def key(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False, kw_only=True)
class Trial:
    """What came of one table. Of ``plain`` intervals neither noise nor penalty was thought of."""

    noise_level: float
    found: Ends | None
    plain: tuple[Floats, Floats] | None
    fit_seconds: float
    interval_seconds: float

    def holds(self, truth: Floats) -> NDArray[np.bool_]:
        assert self.found is not None
        return (self.found.low <= truth) & (truth <= self.found.high)


@lru_cache(maxsize=64)
def planned(task: Task) -> Plan:
    budget, mechanism = Budget(task.epsilon, DELTA), resolve(task.mechanism)
    problem = Problem.for_table(task.n_rows, task.n_features, loss=LOSSES[task.kind], l2=0.0, x_norm=1.0)
    problem = mechanism.regularised(problem, budget, inference=True)
    return mechanism.plan(problem, budget, inference=True).trained_by


def targets(kind: str, X: Floats, truth: Floats, spread: float, rng: np.random.Generator) -> Floats:
    """Drawn from the model whose coefficients, the intercept last, are ``truth``."""
    score = X @ truth[:-1] + truth[-1]
    if kind == LINEAR:
        return np.asarray(score + spread * rng.standard_normal(len(score)))
    return np.where(rng.random(len(score)) < expit(score), 1.0, -1.0)


def trial(task: Task, X: Floats, y: Floats, seed: np.random.SeedSequence) -> Trial:
    """Fit as ``PrivateLogisticRegression(inference=True)`` and ``PrivateLinearRegression`` do, with seeded noise."""
    plan = planned(task)
    problem, started = plan.problem, time.perf_counter()
    (outcome,) = plan.mechanism.run([Job(plan=plan)], open_rows(X, y, problem), Gate.seeded(seed))
    fitted = time.perf_counter()
    assert plan.inference is not None
    assert plan.noise is not None
    assert outcome.curvature_release is not None
    curvature = curvature_from_release(plan.inference.stated, problem.n_columns, outcome.curvature_release)
    equation = equation_of(
        plan.mechanism, problem, plan.settings, plan.noise.scale, outcome.weights, curvature
    )
    units = np.eye(problem.n_columns)
    units[-1, -1] = problem.intercept
    found = None
    if equation.noise_level <= LEAST_SURE:
        curved = None
        if task.kind == LOGISTIC:
            curved = CurvedRows.of(equation.hessian, problem.intercept, problem.x_norm, problem.n_rows)
        found = ends(equation, units, LEVEL, curved)
    return Trial(
        noise_level=equation.noise_level,
        found=found,
        plain=_plain(equation, units) if found is not None else None,
        fit_seconds=fitted - started,
        interval_seconds=time.perf_counter() - fitted,
    )


def _plain(equation: Equation, units: Floats) -> tuple[Floats, Floats]:
    """As if weights were those of a minimiser without penalty and without noise."""
    at = units @ equation.weights
    far = REACH * np.sqrt(np.einsum("ij,jk,ik->i", units, equation.sampling, units))
    return at - far, at + far


Draw = Callable[[np.random.Generator, int], Floats]
"""Rows of norm at most 1, as many as asked for."""


def arcsine(rng: np.random.Generator, n_rows: int) -> Floats:
    """One feature in [-1, 1], 2z - 1 with z ~ Beta(1/2, 1/2)."""
    return np.asarray(2 * rng.beta(0.5, 0.5, (n_rows, 1)) - 1)
