"""One-shot logistic regression from a noisy first and second moment (idea of Huggins, Adams & Broderick 2017)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms.base import Job, Plan
from dperm.mechanisms.inference import pack, triangle_size, unpack
from dperm.mechanisms.registry import register
from dperm.mechanisms.statistics.family import (
    StatisticsMechanism,
    check_width,
    label_sum_error,
    moment_error,
    weighed_by_user,
)
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import TIGHT, gaussian_noise, mu_left, price_of
from dperm.planning.rules import against_moment_noise, check_positive, setting
from dperm.planning.sensitivity import joint_statistic_sensitivity
from dperm.privacy import Budget, Gate, GaussianNoise
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Rows


# The margin that noise alone may cause, chosen among 10/8 to 10 on Adult, BANK, IPUMS-BR and CPS; constants since.
MARGIN, STANDARDISED_MARGIN = 10.0, 10.0 / 3


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentsPlan(Plan):
    """With the ridge that is added to the released second moments."""

    ridge: float


@register
@dataclass(frozen=True)
class SSP(StatisticsMechanism):
    """Release the sums of y x / 2 and of c x x^T at once and minimise the quadratic that they describe.

    Parameters
    ----------
    weight : float
        c times the bound on a row. Up to sqrt(1/8) the second moment costs nothing under replace-one; more
        weight makes it more precise and the first moment less so.
    ridge : float, optional
        Weight of half the squared norm, in place of l2.

    Guarantee
    ---------
    One Gaussian release of p + p (p + 1) / 2 numbers that moves by at most the joint sensitivity of the pair
    (docs/proofs/ssp.md) and the float64 error of the sums. All the rest is computed from it.
    """

    weight: float = setting(0.5, check_positive)
    ridge: float | None = setting(None, check_positive)

    name: ClassVar[str] = "ssp"
    title: ClassVar[str] = "noise on first and second moments, one shot"
    source: ClassVar[str] = "after Huggins, Adams & Broderick (2017)"
    route: ClassVar[str] = "pair"
    no_intervals: ClassVar[str | None] = (
        "it minimises a quadratic in place of the logistic loss, so its coefficients are not log odds; use 'objective'"
    )
    labels: ClassVar[tuple[str, ...]] = ("binary",)
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        # Two rows at 120 degrees move the first and the second moments together as far as they can.
        WorstCase(
            name="rows at 120 degrees",
            facts={"loss": Logistic(), "n_features": 2},
            turned_to=(-0.5, math.sqrt(0.75)),
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting != "tight":
            raise InvalidInput("mechanism 'ssp' has no paper's accounting; use accounting='tight'.")

    def misfit(self, problem: Problem) -> str | None:
        if weighed_by_user(problem):
            return "the sensitivity of its joint statistic is proved for rows of equal weight"
        if type(problem.loss.unweighted) is not Logistic:
            return f"it covers the logistic loss only, not {problem.loss.name}"
        if problem.l2 == 0 and self.ridge is None:
            return "it needs l2 > 0 or a ridge"
        return super().misfit(problem)

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return against_moment_noise(
            problem, budget, STANDARDISED_MARGIN if self.variant(problem, budget) else MARGIN
        )

    def sensitivity(self, problem: Problem) -> float:
        """How far the computed pair moves: rounding errors of both parts in both runs are added."""
        exact = problem.row_norm * joint_statistic_sensitivity(self.weight, problem.neighbours)
        return exact + 2 * (label_sum_error(problem) + self._moment_weight(problem) * moment_error(problem))

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> MomentsPlan:
        check_width(problem)
        mu = mu_left(budget, mu_spent)
        sensitivity = self.sensitivity(problem)
        p = problem.n_columns
        noise = gaussian_noise(sensitivity, p + triangle_size(p), mu)
        ridge = problem.l2 if self.ridge is None else self.ridge
        return MomentsPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={**self.settings, "l2_used": ridge},
            accountant=TIGHT,
            noise=noise,
            profile=price_of([noise], mu_spent),
            sensitivities=np.array([sensitivity]),
            ridge=ridge,
        )

    def _run(self, jobs: Sequence[Job[MomentsPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        weights = []
        for k, (job, (first, second)) in enumerate(
            zip(jobs, self._sums(jobs, rows, Logistic()), strict=True)
        ):
            noise, problem = job.plan.noise, job.plan.problem
            assert isinstance(noise, GaussianNoise)
            pair = np.concatenate([first, self._moment_weight(problem) * pack(second)])
            noisy = gate.part([k]).release_one(pair, noise, "first and second moments")
            weights.append(self._minimiser(noisy, problem, job.plan.ridge))
        return weights

    def _moment_weight(self, problem: Problem) -> float:
        return self.weight / problem.row_norm

    def _minimiser(self, pair: Floats, problem: Problem, ridge: float) -> Floats:
        """Of the quadratic w^T M w / 8n - <A, w>/n + ridge/2 |w|^2, with M made positive semi-definite."""
        first, triangle = np.split(pair, [problem.n_columns])
        moments = unpack(triangle / self._moment_weight(problem), problem.n_columns)
        eigenvalues, axes = np.linalg.eigh(moments / (4 * problem.n_rows))
        curvature = np.maximum(eigenvalues, 0.0) + ridge
        return np.asarray(axes @ (axes.T @ (first / problem.n_rows) / curvature))
