"""Linear regression from noisy moments, with a ridge that adapts to the spread of the rows (Wang 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from scipy.special import ndtri

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared
from dperm.mechanisms.base import Job, Plan, with_intervals
from dperm.mechanisms.inference import SQUARES_SHARE, pack, plan_squares, triangle_size, unpack
from dperm.mechanisms.registry import register
from dperm.mechanisms.statistics.family import (
    StatisticsMechanism,
    check_width,
    label_sum_error,
    moment_error,
    weighed_by_user,
)
from dperm.mechanisms.worst_case import REMOVED, WorstCase
from dperm.planning.pricing import TIGHT, gaussian_noise, mu_left, price_of
from dperm.planning.rules import check_positive, setting
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.problem import Problem
from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.engine import Rows


EIGENVALUE, MOMENTS = "smallest eigenvalue of X'X", ("X'X", "X'y")
SHARES = (1 / 3, 1 / 3, 1 / 3)  # of mu squared: smallest eigenvalue, second moments, moments with the target


@dataclass(frozen=True, eq=False, kw_only=True)
class ThreeReleases(Plan):
    """With the noise of the smallest eigenvalue, of X'X and of X'y."""

    noises: tuple[GaussianNoise, ...]


@register
@dataclass(frozen=True)
class AdaSSP(StatisticsMechanism):
    """Release the smallest eigenvalue of X^T X, X^T X and X^T y; solve with as much ridge as their noise needs.

    The squared loss is not clipped here: targets are.

    Parameters
    ----------
    target_bound : float
        Targets beyond it, in size, are cut off. The estimator moves its ``y_range`` to [-1, 1].
    failure : float
        Chance, of each of two events, with which the ridge may be too small for the noise. Accuracy only.

    Guarantee
    ---------
    Three Gaussian releases whose parameters' squares sum to that of the budget (docs/proofs/adassp.md).
    """

    target_bound: float = setting(1.0, check_positive)
    failure: float = setting(0.05, check_positive)

    name: ClassVar[str] = "adassp"
    title: ClassVar[str] = "noise on the moments of a linear regression, adaptive ridge"
    source: ClassVar[str] = "Wang (2018)"
    route: ClassVar[str] = "three"
    no_intervals: ClassVar[str | None] = None
    labels: ClassVar[tuple[str, ...]] = ("real",)
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(
            name="lone row removed, squared loss", facts={**REMOVED, "loss": ClippedSquared()}, share=1.2
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.failure >= 0.5:
            raise InvalidInput(f"failure must be below 0.5; got {self.failure!r}.")

    def misfit(self, problem: Problem) -> str | None:
        if weighed_by_user(problem):
            return "its moments count every row once; the proof has no weights"
        if type(problem.loss.unweighted) is not ClippedSquared:
            return f"it covers the squared loss only, not {problem.loss.name}"
        return super().misfit(problem)

    def sensitivities(self, problem: Problem) -> Floats:
        """How far each of the three computed statistics moves, float64 error in both runs included."""
        squared, summed = problem.row_norm**2 * (1 + 1e-15), moment_error(problem)
        replaced = problem.neighbours is Neighbours.REPLACE_ONE
        clipped = self._clipped(problem)
        solver = 10 * problem.n_columns * UNIT_ROUNDOFF * problem.n_rows * squared
        return np.array(
            [
                squared + 2 * (summed + solver),
                squared * (math.sqrt(2) if replaced else 1.0) + 2 * summed,
                clipped.gradient_gap + 2 * label_sum_error(clipped),
            ]
        )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> ThreeReleases:
        check_width(problem)
        budget.check_gaussian()
        sensitivities = self.sensitivities(problem)
        paper = self.accounting == "paper"
        noises = (
            self._paper_noises(problem, budget) if paper else self._noises(problem, mu_left(budget, mu_spent))
        )
        profile = price_of(noises, mu_spent)
        reached = profile.delta(budget.epsilon) <= budget.delta
        return ThreeReleases(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self.settings,
            accountant="the paper's three Gaussian releases" if paper else TIGHT,
            noise=noises[-1],
            releases=len(noises),
            profile=profile,
            sensitivities=sensitivities,
            not_certified=None
            if reached
            else "the paper's own noise does not reach the budget when checked exactly.",
            noises=noises,
        )

    def _plan_inferring(self, problem: Problem, budget: Budget) -> ThreeReleases:
        """X'X and X'y are released anyway: what is missing for intervals are the squared residuals."""
        self._check_intervals(problem)
        budget.check_gaussian()
        mu = math.sqrt(SQUARES_SHARE) * gaussian_mu(budget)
        plan = self._plan(problem, budget, mu)
        _, moments, cross = plan.noises
        return with_intervals(plan, plan_squares(problem, mu, (moments.scale, cross.scale)))

    def _noises(self, problem: Problem, mu: float) -> tuple[GaussianNoise, ...]:
        return tuple(
            gaussian_noise(float(sensitivity), dimension, math.sqrt(share) * mu)
            for sensitivity, dimension, share in zip(
                self.sensitivities(problem), _dimensions(problem), SHARES, strict=True
            )
        )

    def _paper_noises(self, problem: Problem, budget: Budget) -> tuple[GaussianNoise, ...]:
        """A third of epsilon for each, and the sensitivities of the paper, which are those of add-remove."""
        factor = 3 * math.sqrt(math.log(6 / budget.delta)) / budget.epsilon
        scales = np.array([problem.row_norm**2, problem.row_norm**2, problem.row_norm * self.target_bound])
        return tuple(
            GaussianNoise(sensitivity=float(sensitivity), scale=factor * float(scale), dimension=dimension)
            for sensitivity, scale, dimension in zip(
                self.sensitivities(problem), scales, _dimensions(problem), strict=True
            )
        )

    def _run(self, jobs: Sequence[Job[ThreeReleases]], rows: Rows, gate: Gate) -> list[Floats]:
        return self._run_keeping(jobs, rows, gate)[0]

    def _run_keeping(
        self, jobs: Sequence[Job[ThreeReleases]], rows: Rows, gate: Gate
    ) -> tuple[list[Floats], list[Floats]]:
        weights, kept = [], []
        cut = ClippedSquared(self.target_bound)  # at zero weights its slope is the target, cut off
        for k, (job, (cross, moments)) in enumerate(zip(jobs, self._sums(jobs, rows, cut), strict=True)):
            statistics = {
                EIGENVALUE: np.linalg.eigvalsh(moments)[:1],
                **dict(zip(MOMENTS, (pack(moments), cross), strict=True)),
            }
            smallest, noisy_moments, noisy_cross = (
                gate.part([k]).release_one(value, noise, name)
                for (name, value), noise in zip(statistics.items(), job.plan.noises, strict=True)
            )
            weights.append(self._solve(float(smallest[0]), noisy_moments, noisy_cross, job.plan))
            kept.append(np.concatenate([noisy_moments, noisy_cross]))
        return weights, kept

    def _solve(self, smallest: float, triangle: Floats, cross: Floats, plan: ThreeReleases) -> Floats:
        """(X'X + ridge)^-1 X'y; what is still below the noise on X'X is raised to it."""
        eigenvalues, axes = np.linalg.eigh(unpack(triangle, len(cross)))
        raised = np.maximum(eigenvalues + self.ridge(smallest, plan), plan.noises[1].scale)
        return np.asarray(axes @ (axes.T @ cross / raised))

    def ridge(self, smallest: float, plan: ThreeReleases) -> float:
        """n l2, or more where the noise on X'X might exceed its smallest eigenvalue."""
        by_eigenvalue, by_moments, _ = plan.noises
        p = plan.problem.n_columns
        deviation = by_moments.scale * (math.sqrt(2 * p) + math.sqrt(2 * max(0.0, -math.log(self.failure))))
        sure = max(0.0, smallest - by_eigenvalue.scale * float(ndtri(1 - self.failure)))
        return float(max(plan.problem.n_rows * plan.problem.l2, deviation - sure))

    def _clipped(self, problem: Problem) -> Problem:
        """The same rows with targets in [-target_bound, target_bound]: its gradient at zero weights is -X'y."""
        return replace(problem, loss=ClippedSquared(self.target_bound))


def _dimensions(problem: Problem) -> tuple[int, int, int]:
    return 1, triangle_size(problem.n_columns), problem.n_columns
