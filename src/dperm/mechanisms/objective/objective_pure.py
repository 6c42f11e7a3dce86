"""Objective perturbation without delta (Chaudhuri, Monteleoni & Sarwate 2011). Not certified: see the sampler."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dperm.errors import InvalidInput
from dperm.mechanisms.inference import WeightNoise
from dperm.mechanisms.objective.family import (
    ObjectiveMechanism,
    ObjectivePlan,
    Perturbation,
    gradient_limits,
    gradient_reach,
    l2_of_curvature,
)
from dperm.mechanisms.objective.objective_kst import several_margins
from dperm.mechanisms.objective.profile import (
    UP,
    check_one_margin,
    check_strength,
    curvature_bound,
    strength,
)
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import NEWTON_JOBS, WorstCase
from dperm.planning.rules import AUTO, against_objective_noise, check_share, setting
from dperm.privacy import Budget
from dperm.privacy.noise import ROUNDING_ALLOWANCE, GammaNormNoise
from dperm.problem import Problem

FLOATING_POINT = (
    "the noise of Gamma norm is drawn in floating point, and its pattern may give away what exact noise would hide; "
    "use mechanism='objective' for a release."
)


@register
@dataclass(frozen=True)
class ObjectivePure(ObjectiveMechanism):
    r"""Noise of Gamma norm in the objective; delta may be 0.

    Parameters
    ----------
    output_share : float
        Share of epsilon that pays for the distance between the computed and the exact minimiser.
    tolerance
        As in ``ObjectiveMechanism``.

    Guarantee
    ---------
    None that is certified: epsilon-DP holds in real arithmetic (docs/proofs/objective-pure.md), but the sampler
    uses floating point. The plan says so.
    """

    output_share: float = setting(0.001, check_share, zero=False)

    name: ClassVar[str] = "objective-pure"
    title: ClassVar[str] = "noise in the objective, delta = 0"
    source: ClassVar[str] = "Chaudhuri, Monteleoni & Sarwate (2011)"
    route: ClassVar[str] = ""
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    for_rows_alone: ClassVar[str | None] = "its charge for the Hessian is that of a matrix of rank one"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(delta=0.0, share=0.2, jobs=NEWTON_JOBS),)

    def misfit(self, problem: Problem) -> str | None:
        if self.standardise not in (False, AUTO):
            return "standardise releases moments with Gaussian noise, which needs delta > 0"
        return super().misfit(problem) or several_margins(problem.loss)

    def gains_by_standardising(self, problem: Problem, budget: Budget) -> bool:
        return False

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        return max(l2_of_curvature(problem, budget.epsilon), against_objective_noise(problem, budget, 1.0))

    def weight_noise(self, problem: Problem, used: Mapping[str, Any], noise_scale: float) -> WeightNoise:
        """By the mean square of the whole noise vector, p (p + 1) scale^2, since this noise is not Gaussian."""
        p = problem.dimension
        whole = math.sqrt(p * (p + 1)) * used["objective_noise"] / (problem.n_rows * used["l2_used"])
        return WeightNoise(deviation=math.hypot(whole, math.sqrt(p + 1) * used["output_noise"]))

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> ObjectivePlan:
        out = self.output_share * budget.epsilon
        pure = pure_plan(problem, budget.epsilon - out, published=self.accounting == "paper")
        used = replace(problem, l2=problem.l2 + pure.extra_strength / problem.n_rows)
        objective = GammaNormNoise(used.gradient_gap, pure.norm_scale, pure.norm_shape)
        limit, residual = gradient_limits(used, objective.reach, self._tolerance(problem))
        moved = 2 * residual / strength(used) * (1 + ROUNDING_ALLOWANCE)
        output = GammaNormNoise(moved, moved / out, used.dimension)
        return ObjectivePlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings=self._settings(
                problem,
                used,
                noise_epsilon=pure.noise_epsilon,
                objective_noise=objective.scale,
                output_noise=output.scale,
            ),
            accountant="pure epsilon: noise, Hessian and output added up",
            noise=objective,
            not_certified=FLOATING_POINT,
            residual=limit,
            perturbation=Perturbation(
                problem=used,
                objective=objective,
                output=output,
                limit=limit,
                reach=gradient_reach(used, objective.reach)[0],
            ),
        )


@dataclass(frozen=True)
class PurePlan:
    """A noise vector of uniform direction whose norm is Gamma(``norm_shape``, ``norm_scale``).

    ``noise_epsilon`` is what the noise may cost; ``extra_strength`` is added to the regulariser.
    """

    noise_epsilon: float
    extra_strength: float
    norm_shape: int
    norm_scale: float


def pure_plan(problem: Problem, epsilon: float, *, published: bool = False) -> PurePlan:
    r"""Objective perturbation with delta = 0 (Chaudhuri, Monteleoni & Sarwate 2011, Algorithm 2).

    The paper charges the Hessian :math:`2\ln(1 + \beta/\Lambda)`; half of it is enough and is what is used
    unless ``published``. If the charge eats epsilon up, the regulariser is strengthened until it is
    epsilon / 2.

    Guarantee
    ---------
    The exact minimiser, with a real-valued noise vector, is epsilon-DP under ``problem.neighbours``. An
    approximate minimiser or a floating-point sampler is not covered.
    """
    check_one_margin(problem)
    if not 0 < epsilon < math.inf:
        raise InvalidInput(f"epsilon must be a finite number above 0; got {epsilon!r}.")
    beta, charges = curvature_bound(problem), 2 if published else 1
    current = problem.n_rows * problem.l2
    charge = charges * math.log1p(beta / current) * UP if current > 0 else math.inf
    extra = 0.0
    if charge >= epsilon:
        extra = max(0.0, beta / math.expm1(epsilon / (2 * charges)) * UP - current)
        charge = epsilon / 2
    check_strength(current + extra)
    noise_epsilon = epsilon - charge
    return PurePlan(noise_epsilon, extra, problem.dimension, problem.gradient_gap / noise_epsilon * UP)
