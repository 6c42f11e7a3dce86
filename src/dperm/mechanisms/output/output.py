"""Noise on the exact minimiser (Chaudhuri, Monteleoni & Sarwate 2011), with a certified residual."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import NotCertified
from dperm.mechanisms.base import Plan
from dperm.mechanisms.minimiser import ATTAINABLE, check_condition, minimise_surely
from dperm.mechanisms.output.family import OutputMechanism
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import TIGHT, price_branches
from dperm.planning.rules import against_output_noise, check_positive, setting
from dperm.privacy import Budget, Gate
from dperm.privacy.textbook import classic_gaussian_scale
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Rows


@register
@dataclass(frozen=True)
class Output(OutputMechanism):
    """Minimise, then add noise.

    ``tolerance`` is the gradient norm to reach, as a share of one row's weight R/n. Where float64 arithmetic cannot
    promise it on every table, the norm that it can promise is reached and paid for instead.
    """

    tolerance: float = setting(1e-4, check_positive)

    name: ClassVar[str] = "output"
    title: ClassVar[str] = "exact minimiser, noise on the result"
    source: ClassVar[str] = "Chaudhuri, Monteleoni & Sarwate (2011)"
    needs_l2: ClassVar[bool] = True
    route: ClassVar[str] = "minimiser"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(share=2.0),)

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return against_output_noise(problem, budget)

    def residual(self, problem: Problem) -> float:
        """The gradient norm that the computed minimiser must show: one that a solver reaches whatever the rows."""
        asked = self.tolerance * problem.gradient_bound / problem.n_rows
        return max(asked, ATTAINABLE * gradient_error(problem))

    def minimiser_sensitivity(self, problem: Problem) -> float:
        r"""How far the computed minimiser moves: :math:`g/(n\lambda)` and the two residuals over :math:`\lambda`."""
        exact = problem.gradient_gap / (problem.n_rows * problem.l2)
        return exact + 2 * (self.residual(problem) + gradient_error(problem)) / problem.l2

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> Plan:
        check_condition(problem)
        if self.residual(problem) + gradient_error(problem) > problem.gradient_bound:
            raise NotCertified(
                "the tolerance is too large, or l2 too small for the curvature of the loss, to bound the rounding "
                f"error of a minimiser; lower the tolerance or raise l2, which is {problem.l2:g}."
            )
        sensitivity = self.minimiser_sensitivity(problem)
        paper = self.accounting == "paper"
        noise, profile = price_branches(
            problem,
            budget,
            np.ones(1),
            np.array([sensitivity]),
            mu_spent,
            (lambda: classic_gaussian_scale(sensitivity, budget)) if paper else None,
        )
        return Plan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self.settings,
            accountant="classic Gaussian formula" if paper else TIGHT,
            noise=noise,
            profile=profile,
            sensitivities=np.array([sensitivity]),
            residual=self.residual(problem),
        )

    def _train(self, plans: Sequence[Plan], rows: Rows, gate: Gate) -> Floats:
        problems = [plan.problem for plan in plans]
        limits = np.array([self.residual(problem) for problem in problems])
        return minimise_surely(rows.open(precise=True), problems, limits)


def gradient_error(problem: Problem) -> float:
    """Bound on the float64 error of the computed gradient at any minimiser, where the norm is at most R/l2."""
    weight_bound = 2 * problem.gradient_bound / problem.l2
    return (
        problem.gradient_error(problem.n_rows, weight_bound) + 4 * UNIT_ROUNDOFF * problem.l2 * weight_bound
    )
