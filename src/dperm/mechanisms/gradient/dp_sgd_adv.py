"""Noisy SGD on single rows, priced by advanced composition with amplification, as taught in lectures."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from dperm.mechanisms.gradient.family import SampledPlan
from dperm.mechanisms.gradient.psgd import ProjectedSGD
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.rules import AUTO, MOST_ROWS, check_count, setting
from dperm.privacy import Budget
from dperm.privacy.cost import Cost
from dperm.privacy.textbook import advanced_sgd_noise
from dperm.problem import Problem

FEWEST_STEPS, MOST_STEPS = 1_000, 30_000


@register
@dataclass(frozen=True)
class DPSGDAdv(ProjectedSGD):
    """One uniformly drawn row per step, projected, with steps that fall with the root of their number.

    By default it is accounted as in the lectures: the classic Gaussian mechanism, amplified by sampling and composed
    by the advanced theorem. That needs many steps and raises ``NotCertified`` below them. ``accounting="tight"``
    prices the same steps exactly, which takes half a minute to plan at 40,000 rows.
    By default the number of steps is the least for which the theorem holds, between 1,000 and 30,000.

    Guarantee
    ---------
    All steps together meet the budget: by the theorem within its condition (docs/proofs/dp-sgd-adv.md), or by
    the exact price of batches of a fixed size (docs/proofs/dp-sgd.md).
    """

    batch_size: int | None = setting(1, check_count, optional=True, most=MOST_ROWS)
    accounting: str = field(default="paper", kw_only=True)

    name: ClassVar[str] = "dp-sgd-adv"
    title: ClassVar[str] = "SGD on single rows, advanced composition"
    source: ClassVar[str] = "Dwork, Rothblum & Vadhan (2010); Balle, Barthe & Gaboardi (2018)"
    paper_accountant: ClassVar[str] = "advanced composition with amplification by sampling"
    paper_proves: ClassVar[bool] = True
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(
            settings={"steps": 8},
            share=0.03,
            out_of_reach="priced exactly, its noise costs less than a hundredth of the claim",
        ),
    )

    def misfit(self, problem: Problem) -> str | None:
        if self.accounting == "paper" and self.standardise not in (False, AUTO):
            return (
                "advanced composition is not combined with a private standardisation; use accounting='tight'"
            )
        return super().misfit(problem)

    def default_size(self, problem: Problem) -> int:
        return 1

    def default_steps(self, problem: Problem, budget: Budget, by_rule: int) -> int:
        least = (problem.n_rows * budget.epsilon) ** 2 / (32 * math.log(2 / budget.delta))
        return int(np.clip(math.ceil(least), FEWEST_STEPS, MOST_STEPS))

    def paper_scale(self, problem: Problem, budget: Budget, steps: int, unit: float) -> float:
        return advanced_sgd_noise(unit, problem.n_rows, steps, budget)

    def _cost(self, plan: SampledPlan) -> Cost | None:
        return None if self.accounting == "paper" else super()._cost(plan)
