"""Noisy coordinate descent (Mangold, Bellet, Salmon & Tommasi 2022)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.errors import Unsupported
from dperm.mechanisms.base import Job, Mechanism, Plan, alike, tolerant
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import gaussian_noise, gaussian_price, mu_left, shortfall
from dperm.planning.rules import check_count, check_positive, setting, within
from dperm.planning.sensitivity import whole_sum_error
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.privacy.textbook import mangold_cd_noise
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows


LONGEST_STEP, FEWEST_PASSES, MOST_PASSES = 2.0, 12, 24
ROWS_PER_STEP = 1060.0  # times mu and the root of the columns, for each step of 1 / smoothness


@dataclass(frozen=True, eq=False, kw_only=True)
class CoordinatesPlan(Plan):
    """With the passes, the step size of every coordinate and the Gaussian parameter of one update."""

    passes: int
    step_sizes: Floats
    mu: float


@register
@dataclass(frozen=True)
class DPCD(Mechanism):
    r"""In every pass, visit the coordinates in a random order and move each along its own noisy derivative.

    Parameters
    ----------
    passes : int, optional
        None follows from the budget, 12 to 24.
    step_size : float, optional
        In units of 1 over the smoothness along the coordinate, which follows from its bound. None follows from the
        budget, 1/8 to 2, beyond which steps along the intercept may grow.

    Guarantee
    ---------
    A feature is at most ``x_norm`` and the intercept column is public, which bounds every coordinate of a
    row's gradient by R_j. Each of the T updates costs :math:`\mu/\sqrt T`, whatever the coordinate, so all cost
    one Gaussian release of parameter mu (docs/proofs/dp-cd.md). The result is the mean over the second half.
    """

    passes: int | None = setting(None, check_count)
    step_size: float | None = setting(None, check_positive)

    name: ClassVar[str] = "dp-cd"
    family: ClassVar[str] = "gradient"
    title: ClassVar[str] = "one noisy coordinate at a time"
    source: ClassVar[str] = "Mangold, Bellet, Salmon & Tommasi (2022)"
    route: ClassVar[str] = "coordinates"
    released: ClassVar[str] = "noise on one coordinate at every step"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    side_by_side: ClassVar[bool] = False  # the walk through one column at a time is for rows of one map
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"passes": 3}, share=0.7),)

    def whole_sums(self) -> bool:
        return True

    def _path(self, problem: Problem, mu: float) -> float:
        """Steps of all passes together: the longer, the less noise there is and the less of a row a column has."""
        clarity = 2 / problem.neighbours.rows_changed * problem.n_rows * mu
        return clarity * math.sqrt(problem.n_columns) / ROWS_PER_STEP

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> CoordinatesPlan:
        mu = mu_left(budget, mu_spent)
        smoothness = coordinate_smoothness(problem)
        path = self._path(problem, mu)
        passes = self.passes or within(path / LONGEST_STEP, FEWEST_PASSES, MOST_PASSES)
        step = self.step_size or min(max(path / passes, 1 / 8), LONGEST_STEP)
        updates = passes * problem.n_columns
        each, reason = mu / math.sqrt(updates) * (1 - 1e-12), None
        if self.accounting == "paper":
            bound = problem.loss.lipschitz * problem.x_norm
            printed = mangold_cd_noise(bound, problem.n_rows, updates, budget) * problem.n_rows
            each = coordinate_noise(problem, 0, 0.0, 1.0).scale / printed
            reached = gaussian_price(each * math.sqrt(updates), mu_spent).epsilon(budget.delta)
            reason = shortfall(reached, budget, "the paper's noise") if reached > budget.epsilon else None
        return CoordinatesPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={**self.settings, "passes": passes, "step_size": step, "updates": updates},
            accountant="the paper's own noise" if self.accounting == "paper" else "exact Gaussian profile",
            noise=coordinate_noise(problem, 0, 0.0, each),
            releases=updates,
            profile=gaussian_price(each * math.sqrt(updates), mu_spent),
            not_certified=reason,
            passes=passes,
            step_sizes=step / smoothness,
            mu=each,
        )

    def _run(self, jobs: Sequence[Job[CoordinatesPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        engine = rows.select([job.model for job in jobs]).open(precise=not tolerant(jobs))
        weights: dict[int, Floats] = {}
        for columns in alike([job.plan.passes for job in jobs]):
            part = engine if len(columns) == len(jobs) else engine.select(columns)
            found = self._descend([jobs[k].plan for k in columns], part, gate.part(columns))
            weights.update(zip(columns, found, strict=True))
        return [weights[k] for k in range(len(jobs))]

    def _descend(self, plans: Sequence[CoordinatesPlan], engine: Engine, gate: Gate) -> list[Floats]:
        problems = [plan.problem for plan in plans]
        n_rows, l2 = (np.array([getattr(problem, name) for problem in problems]) for name in ("n_rows", "l2"))
        steps = np.stack([plan.step_sizes for plan in plans], axis=1)
        walk = engine.coordinate_pass(problems[0].loss, np.zeros((engine.n_columns, len(plans))))
        total, longest = np.zeros_like(walk.weights), np.zeros(len(plans))
        order = [j for _ in range(plans[0].passes) for j in gate.permutation(engine.n_columns)]
        tail = -(-len(order) // 2)
        for t, j in enumerate(order):
            derivative = walk.derivative(j)
            longest = np.maximum(longest, np.sqrt(np.sum(walk.weights * walk.weights, axis=0)))
            noises = [
                coordinate_noise(plan.problem, j, float(longest[k]), plan.mu) for k, plan in enumerate(plans)
            ]
            noisy = gate.release(derivative[None, :], noises, "dp-cd coordinate")
            walk.move(j, -steps[j] * (noisy[0] / n_rows + l2 * walk.weights[j]))
            if t >= len(order) - tail:
                total += walk.weights
        return [total[:, k] / tail for k in range(len(plans))]


def coordinate_bounds(problem: Problem) -> Floats:
    """Public bound on each entry of a row: the features', then that of the intercept column if there is one."""
    features = np.full(problem.n_features, problem.x_norm)
    return np.append(features, problem.intercept) if problem.intercept > 0 else features


def coordinate_smoothness(problem: Problem) -> Floats:
    """Smoothness of the regularised mean loss along each coordinate."""
    smoothness = problem.loss.smoothness * coordinate_bounds(problem) ** 2 + problem.l2
    if smoothness.min() == 0:
        raise Unsupported("a loss without curvature and l2 = 0 suggest no step size; choose another loss.")
    return np.asarray(smoothness)


def coordinate_noise(problem: Problem, j: int, weight_norm: float, mu: float) -> GaussianNoise:
    """Noise with which coordinate j of the gradient sum costs ``mu``; no weights so far were longer than the norm.

    It moves by R_j when a row is added or removed and by 2 R_j when one is replaced; a coordinate may change
    sign, so it does not help that the loss is monotone.
    """
    bound = problem.x_norm if j < problem.n_features else problem.intercept
    exact = problem.neighbours.rows_changed * problem.loss.lipschitz * bound
    return gaussian_noise(exact + whole_sum_error(problem, weight_norm), 1, mu)
