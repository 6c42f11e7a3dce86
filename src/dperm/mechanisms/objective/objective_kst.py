"""Objective perturbation of Kifer, Smith & Thakurta (2012), with a certified minimiser."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dperm.losses import Loss
from dperm.mechanisms.objective.family import ObjectiveMechanism, ObjectivePlan
from dperm.mechanisms.objective.objective import TIGHT
from dperm.mechanisms.objective.profile import (
    UP,
    calibrate_objective,
    check_delta,
    check_one_margin,
    check_strength,
    curvature_bound,
)
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.planning.rules import check_share, setting
from dperm.privacy import Budget
from dperm.problem import Problem


@dataclass(frozen=True)
class KstPlan:
    """Noise scale of b, and what must be added to the strength of the regulariser."""

    scale: float
    extra_strength: float


@register
@dataclass(frozen=True)
class ObjectiveKST(ObjectiveMechanism):
    r"""Noise in the objective, and a total strength of at least :math:`2\beta/\varepsilon`.

    Parameters
    ----------
    output_share : float
        Share of mu squared that pays for the distance between the computed and the exact minimiser.
    tolerance
        As in ``ObjectiveMechanism``. The l2 grows as the theorem asks.

    Guarantee
    ---------
    The noise is the smallest by Theorem 3 of docs/proofs/objective.md. With ``accounting="paper"`` it is the
    paper's formula (docs/proofs/objective-kst.md), whose slack also pays for the noise on the result; the exact
    profile checks that.
    """

    output_share: float = setting(0.001, check_share, zero=False)

    name: ClassVar[str] = "objective-kst"
    title: ClassVar[str] = "noise in the objective, classic regulariser"
    source: ClassVar[str] = "Kifer, Smith & Thakurta (2012)"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"output_share": 1e-5}, facts=REMOVED, share=0.9, jobs=NEWTON_JOBS),
        WorstCase(),
    )

    def misfit(self, problem: Problem) -> str | None:
        return super().misfit(problem) or several_margins(problem.loss)

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> ObjectivePlan:
        mu_out = math.sqrt(self.output_share) * mu_left(budget, mu_spent)
        paper = kst_scale(problem, budget)
        used = replace(problem, l2=problem.l2 + paper.extra_strength / problem.n_rows)
        if self.accounting == "paper":
            scale, accountant = paper.scale, "the paper's formula, checked by the exact profile"
        else:
            scale, accountant = calibrate_objective(used, budget, mu_out, mu_spent), TIGHT
        return self._gaussian_plan(problem, used, budget, scale, mu_out, mu_spent, accountant)


def several_margins(loss: Loss) -> str | None:
    return None if loss.outputs == 1 else f"it is not proved for the several margins of {loss.name}"


def kst_scale(problem: Problem, budget: Budget) -> KstPlan:
    r"""Noise of Kifer, Smith & Thakurta (2012), for comparison.

    :math:`\sigma^2 = g^2 (8\ln(2/\delta) + 4\varepsilon)/\varepsilon^2` with g the gradient gap, and a total
    strength of at least :math:`2\beta/\varepsilon`. They state add/remove; our proof covers replace-one too.
    """
    check_one_margin(problem)
    check_delta(budget)
    epsilon = budget.epsilon
    scale = problem.gradient_gap * math.sqrt(8 * math.log(2 / budget.delta) + 4 * epsilon) / epsilon
    current = problem.n_rows * problem.l2
    extra = max(0.0, 2 * curvature_bound(problem) / epsilon - current) * UP
    check_strength(current + extra)
    return KstPlan(scale * UP, extra)
