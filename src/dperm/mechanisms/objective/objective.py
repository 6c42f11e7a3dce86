"""Objective perturbation with exact prices (docs/proofs/objective.md)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from scipy.special import log_ndtr

from dperm.errors import NotCertified, Unsupported
from dperm.losses import HuberHinge, Logistic, SoftClippedLogistic
from dperm.mechanisms.objective.family import ObjectiveMechanism, ObjectivePlan, likelihood_of_a_lone_row
from dperm.mechanisms.objective.profile import (
    calibrate_objective,
    check_one_margin,
    curvature_bound,
    strength,
)
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.planning.rules import check_share, setting
from dperm.privacy import Budget, GaussianProfile
from dperm.privacy.search import smallest_safe
from dperm.problem import Problem
from dperm.unit import Neighbours

TIGHT = "exact profile of the perturbed minimiser"


@register
@dataclass(frozen=True)
class Objective(ObjectiveMechanism):
    """Noise in the objective and a certified minimiser.

    Parameters
    ----------
    output_share : float
        Share of mu squared that pays for the distance between the computed and the exact minimiser.
    tolerance
        As in ``ObjectiveMechanism``.

    Guarantee
    ---------
    Theorem 3 of docs/proofs/objective.md, for the losses of its table, softmax included.
    """

    output_share: float = setting(0.001, check_share, zero=False)

    name: ClassVar[str] = "objective"
    title: ClassVar[str] = "noise in the objective, exact prices"
    source: ClassVar[str] = "Redberg, Koskela & Wang (2023)"
    no_intervals: ClassVar[str | None] = None
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        # Hardly any noise beside that in the objective.
        WorstCase(settings={"output_share": 1e-5}, facts=REMOVED, share=0.9, jobs=NEWTON_JOBS),
        WorstCase(),
        WorstCase(
            name="row among opposing ones, logistic loss",
            facts={**REMOVED, "loss": Logistic(), "n_rows": 1000},
            rows="opposing",
            share=1.5,
        ),
        # Hinge loss and little l2: most of the price is that of what the row adds to the Hessian.
        WorstCase(
            name="lone row removed, weak l2, exact likelihood",
            facts={**REMOVED, "loss": HuberHinge(0.5), "l2": 0.075},
            weights_alone=True,
            likelihood=likelihood_of_a_lone_row,
            share=1.5,
        ),
        # A soft clip at a strength at which its Hessian costs nothing: the price is that of its largest gradient.
        WorstCase(
            name="lone row removed, soft clip, exact likelihood",
            facts={**REMOVED, "loss": SoftClippedLogistic(0.5, 0.7), "l2": 0.14},
            weights_alone=True,
            likelihood=likelihood_of_a_lone_row,
            share=1.5,
        ),
    )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> ObjectivePlan:
        mu = mu_left(budget, mu_spent)
        mu_out = math.sqrt(self.output_share) * mu
        if self.accounting == "paper":
            scale, accountant = _published_scale(problem, budget), "the paper's profile, add-remove"
        else:
            scale, accountant = calibrate_objective(problem, budget, mu_out, mu_spent), TIGHT
        return self._gaussian_plan(problem, problem, budget, scale, mu_out, mu_spent, accountant)


def _published_scale(problem: Problem, budget: Budget) -> float:
    """Noise by the paper's bound for the exact minimiser, with nothing set aside for other releases."""
    start = problem.gradient_gap * math.sqrt(-2 * math.log(budget.delta)) / budget.epsilon
    if published_profile_delta(problem, 1e9 * start, budget.epsilon) > budget.delta:
        raise NotCertified(
            f"No noise brings the bound of {Objective.source} to epsilon = {budget.epsilon:g}: the Hessian alone costs "
            "that much. Raise l2 or epsilon, or use accounting='tight'."
        )
    return smallest_safe(
        lambda scale: published_profile_delta(problem, scale, budget.epsilon) - budget.delta, start=start
    )


def published_profile_delta(problem: Problem, scale: float, epsilon: float) -> float:
    r"""Delta of Redberg, Koskela & Wang (2023), for comparison.

    They charge both ends of the gradient's segment and :math:`|\ln(1 - \beta/\Lambda)|`: for a sign-definite
    loss never less than ``vertex_profile`` once epsilon exceeds the offset.
    """
    check_one_margin(problem)
    if problem.neighbours is not Neighbours.ADD_REMOVE:
        raise Unsupported("The bound of Redberg, Koskela & Wang is for the add-remove relation.")
    share = curvature_bound(problem) / strength(problem)
    if share >= 1:
        raise NotCertified(
            f"The bound of Redberg, Koskela & Wang needs n_rows * l2 above {curvature_bound(problem):g}."
        )
    mu = problem.gradient_bound / scale
    left = epsilon + math.log1p(-share)
    if left >= mu**2 / 2:
        return 2 * GaussianProfile.gaussian(mu).delta(left)
    return 1 - 2 * math.exp(left + float(log_ndtr(-mu)))
