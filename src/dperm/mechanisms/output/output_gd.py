"""Full-batch gradient descent with noise on the result (Zhang, Zheng, Mou & Wang 2017)."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import NotCertified
from dperm.mechanisms.output.family import DescentMechanism, DescentPlan
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.excess import Schedules, steps_to_try
from dperm.planning.rules import check_count, check_positive, setting
from dperm.planning.schedule import Schedule, branch_sensitivities
from dperm.privacy import Budget
from dperm.privacy.textbook import classic_gaussian_scale
from dperm.problem import Problem

ITERATIONS = (5, 10, 20, 40, 80, 160)


@register
@dataclass(frozen=True)
class OutputGD(DescentMechanism):
    """``iterations`` full gradient steps of one size, then noise.

    What is left open is chosen so that ``planning/excess.py`` predicts the least excess.
    """

    iterations: int | None = setting(None, check_count)
    step_size: float | None = setting(None, check_positive)

    name: ClassVar[str] = "output-gd"
    title: ClassVar[str] = "full gradient descent, noise on the result"
    source: ClassVar[str] = "Zhang, Zheng, Mou & Wang (2017)"
    permuted: ClassVar[bool] = False
    paper_accountant: ClassVar[str] = "classic Gaussian formula with the paper's sensitivity"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"iterations": 5}, share=2.0),)

    def settled(self, problem: Problem, mu: float) -> Self:
        tried = [
            (step, iterations, iterations + 1)
            for step in steps_to_try(problem, self.step_size)
            for iterations in ((self.iterations,) if self.iterations else ITERATIONS)
        ]
        step, iterations, _ = tried[Schedules.of(tried, 1, decay=False).best(problem, mu)]
        return replace(self, step_size=step, iterations=iterations)

    def schedule(self, problem: Problem) -> Schedule:
        """Of settled settings."""
        assert self.iterations is not None
        assert self.step_size is not None
        return Schedule(
            batch_sizes=(problem.n_rows,),
            step_sizes=np.full((self.iterations, 1), self.step_size),
            averaged=(False,) * self.iterations,
        )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> DescentPlan:
        plan = super()._plan(problem, budget, mu_spent)
        limit = closed_form_limit(problem, float(plan.schedule.step_sizes[0, 0]))
        if branch_sensitivities(plan.schedule, problem, rounding=False)[0] > limit * (1 + 1e-9):
            raise NotCertified(f"the sensitivity of {self.name} is above its closed-form limit {limit:.6g}.")
        return plan

    def paper_scale(
        self,
        problem: Problem,
        budget: Budget,
        share: NDArray[np.float64],
        sensitivities: NDArray[np.float64],
    ) -> float:
        return classic_gaussian_scale(self.paper_sensitivity(problem), budget)

    def paper_sensitivity(self, problem: Problem) -> float:
        """The paper's constants: 5R(L + l2)/(n l2 L), or 3R T step / n when l2 = 0."""
        R, L, n = problem.gradient_bound, problem.smoothness, problem.n_rows
        if problem.l2 > 0:
            return 5 * R * (L + problem.l2) / (n * problem.l2 * L)
        assert self.iterations is not None
        assert self.step_size is not None
        return 3 * R * self.iterations * self.step_size / n


def closed_form_limit(problem: Problem, step: float) -> float:
    """Proposition 2 of Chen, Lee & Kifer (2019) for one batch: a bound after any number of steps."""
    ratio = problem.contraction(step)
    return float("inf") if ratio >= 1 else step * problem.gradient_gap / (problem.n_rows * (1 - ratio))
