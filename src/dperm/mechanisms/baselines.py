"""Baselines that are NOT private: the minimiser without noise, and one prediction for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.errors import InvalidInput, NotCertified
from dperm.mechanisms.base import Job, Mechanism, Plan, weights_shape
from dperm.mechanisms.minimiser import minimise_by_lbfgs
from dperm.mechanisms.registry import register
from dperm.planning.rules import AUTO, check_positive, setting, without_noise
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows
    from dperm.losses import Loss


SIGN_ONLY = 1e-9
HALVINGS = 40
NO_GUARANTEE = "none: this baseline is not private"


@dataclass(frozen=True)
class _Baseline(Mechanism):
    family: ClassVar[str] = "baseline"
    released: ClassVar[str] = "weights without noise"
    private: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting != "tight" or self.standardise not in (False, AUTO):
            raise InvalidInput(
                f"mechanism {self.name!r} is not private, so it has no accounting or standardisation to choose."
            )

    def gains_by_standardising(self, problem: Problem, budget: Budget) -> bool:
        return False

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return without_noise(problem)

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        return Plan(
            mechanism=self, problem=problem, budget=budget, settings=self.settings, accountant=NO_GUARANTEE
        )


@register
@dataclass(frozen=True)
class NoPrivacy(_Baseline):
    """The minimiser itself, by L-BFGS, to a gradient norm of at most ``tolerance``."""

    tolerance: float = setting(1e-8, check_positive)

    name: ClassVar[str] = "none"
    title: ClassVar[str] = "exact minimiser, no noise"
    source: ClassVar[str] = "L-BFGS"

    def _run(self, jobs: Sequence[Job[Plan]], rows: Rows, gate: Gate) -> list[Floats]:
        plan_of = {job.model: job.plan for job in jobs}
        models = sorted(plan_of)
        engine = rows.select(models).open(precise=True)
        solution = minimise_by_lbfgs(engine, [plan_of[model].problem for model in models], self.tolerance)
        if solution.reached > 100 * self.tolerance:
            raise NotCertified("L-BFGS did not converge; raise l2 or tolerance.")
        points = solution.points
        return [points[:, models.index(job.model)] for job in jobs]


@register
@dataclass(frozen=True)
class Majority(_Baseline):
    """The most frequent label: an intercept so small that the loss is that of zero weights.

    Of numbers the one prediction with the least loss: their mean, where residuals are not clipped.
    """

    name: ClassVar[str] = "majority"
    title: ClassVar[str] = "always the most frequent label, or the best one number"
    source: ClassVar[str] = "label counts"

    def misfit(self, problem: Problem) -> str | None:
        if problem.intercept == 0:
            return "it needs fit_intercept=True"
        return super().misfit(problem)

    def _run(self, jobs: Sequence[Job[Plan]], rows: Rows, gate: Gate) -> list[Floats]:
        plan_of = {job.model: job.plan for job in jobs}
        models = sorted(plan_of)
        engine = rows.select(models).open(precise=True)
        loss = jobs[0].plan.problem.loss
        weights = np.zeros(weights_shape(engine.n_columns, [plan_of[model] for model in models]))
        if loss.labels == "real":
            self._halve(engine, loss, weights, 1 / jobs[0].plan.problem.intercept)
            return [weights[:, models.index(job.model)] for job in jobs]
        # At zero weights every row pulls the intercept of its own label by the same amount.
        pull = -engine.gradient_sum(loss, weights)[-1]
        if loss.outputs == 1:
            weights[-1] = np.where(pull >= 0, SIGN_ONLY, -SIGN_ONLY)
        else:
            weights[-1, np.arange(len(models)), pull.argmax(axis=1)] = SIGN_ONLY
        return [weights[:, models.index(job.model)] for job in jobs]

    @staticmethod
    def _halve(engine: Engine, loss: Loss, weights: Floats, most: float) -> None:
        """Set every intercept, ``most`` for a prediction of 1, to where the slope of the loss changes its sign."""
        low, high = np.full(weights.shape[1:], -most), np.full(weights.shape[1:], most)
        for _ in range(HALVINGS):
            weights[-1] = (low + high) / 2
            rising = engine.gradient_sum(loss, weights)[-1] > 0
            low, high = np.where(rising, low, weights[-1]), np.where(rising, weights[-1], high)
