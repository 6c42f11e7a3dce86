"""Mechanisms that train a softly clipped loss in place of the plain logistic one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from dperm.losses import Loss, softly_clipped
from dperm.mechanisms.base import Mechanism, Plan
from dperm.planning.rules import (
    AUTO,
    KNEE,
    NOISY_RESULT,
    against_descent_noise,
    check_share,
    setting,
    slope_for,
)
from dperm.privacy import Budget
from dperm.problem import Problem

# A penalty beyond both shrinks a clipped loss more than its noise was worth.
OVER_DESCENT, OVER_OWN = 40.0, 2.0  # times the l2 that noise on descent asks for, and that of the own rule


def check_clip(name: str, value: object) -> None:
    if not (isinstance(value, str) and value == AUTO):
        check_share(name, value, zero=False)


@dataclass(frozen=True)
class LossClippingMechanism(Mechanism):
    """A mechanism whose noise follows from the largest slope of the loss.

    Parameters
    ----------
    clip : float, "auto" or None
        Where the slope of the plain logistic loss ends, softly (``SoftClippedLogistic``): one row then moves the
        result less, which costs less noise. "auto" follows from the noise, and is None with the accounting of the
        paper, for intervals and with an l2 far above its rule; with None, and for any other loss, the loss is trained
        with as it is.
    """

    clip: float | str | None = setting(AUTO, check_clip, optional=True, kw_only=True)

    def trained_loss(self, problem: Problem, budget: Budget) -> Loss:
        clipped = replace(problem, loss=self._clipped(problem, budget))
        most = max(
            OVER_DESCENT * against_descent_noise(clipped, budget, NOISY_RESULT),
            OVER_OWN * self.l2_rule(clipped, budget),
        )
        return problem.loss if self.clip == AUTO and problem.l2 > most else clipped.loss

    def _clipped(self, problem: Problem, budget: Budget) -> Loss:
        """The loss by ``clip``, whatever l2 is."""
        clip = self.clip
        if clip == AUTO:
            clip = slope_for(problem, budget) if self.accounting == "tight" else None
        return problem.loss if clip is None else softly_clipped(problem.loss, float(clip), KNEE)

    def misfit_of_intervals(self, problem: Problem) -> str | None:
        reason = super().misfit_of_intervals(problem)
        if reason is None and self.clip not in (None, AUTO):
            return "a clipped loss has other coefficients than the one that was asked for; set clip=None"
        return reason

    def regularised(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Problem:
        """The problem with the l2 of the rule for the loss that is trained with."""
        if inference:
            return super().regularised(problem, budget, inference=True)
        clipped = replace(problem, loss=self._clipped(problem, budget))
        return replace(problem, l2=self.l2_rule(clipped, budget))

    def plan(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Plan:
        plan = super().plan(problem, budget, inference=inference)
        clip = getattr(plan.problem.loss.unweighted, "clip", None)
        return replace(plan, settings={**plan.settings, "clip": clip})

    def as_planned(self, plan: Plan) -> Self:
        return replace(super().as_planned(plan), clip=None)  # of the loss that is trained with
