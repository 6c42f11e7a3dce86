"""``auto``: a public rule picks mechanism, loss and settings from the size of the task and the budget, never from rows.

The constants were chosen by leaving one of many public tables out at a time (docs/results/defaults.md); no guarantee
rests on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

from dperm.errors import InvalidInput
from dperm.losses import ClippedSquared, Logistic, Loss, SoftClippedSquared, Weighted, softly_clipped
from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.objective.family import l2_of_noise
from dperm.mechanisms.objective.objective import Objective
from dperm.mechanisms.registry import register
from dperm.mechanisms.standardising import LINEAR
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.rules import KNEE, noise_level, slope_for, without_noise
from dperm.privacy import Budget, Gate
from dperm.privacy.cost import Cost
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Rows


LEAST_L2 = 0.5  # of the rule's: with less the log-determinant costs too much
# Regression: the largest slope, for targets in [-1, 1].
RESIDUAL_BOUND, RESIDUAL_KNEE = 0.2, 0.5
# Several classes: steps, the bound on a row's gradient in x_norm, and how far descent goes: PATH n mu.
STEPS, GRADIENT_CLIP, MOMENTUM, PATH = 100, 0.4, 0.5, 1.5


@dataclass(frozen=True, eq=False, kw_only=True)
class AutoPlan(Plan):
    """The plan of the mechanism that was chosen, under the name of ``auto``."""

    chosen: Plan

    @property
    def trained_by(self) -> Plan:
        return self.chosen.trained_by


@register
@dataclass(frozen=True)
class Auto(Mechanism):
    """Plans and runs the mechanism that the rule of this module chooses; the report names it and says why."""

    name: ClassVar[str] = "auto"
    family: ClassVar[str] = "auto"
    released: ClassVar[str] = "as the one it chooses"
    title: ClassVar[str] = "the mechanism that a public rule chooses"
    source: ClassVar[str] = "this library"
    no_intervals: ClassVar[str | None] = None
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(  # what it chooses is audited by itself
            settings={"standardise": True}, facts=REMOVED, share=0.1, jobs=NEWTON_JOBS
        ),
        WorstCase(),
        WorstCase(
            name="mirrored row, many features, standardised",
            facts={"loss": Logistic(), "n_features": 21, "intercept": 0.1},
            rows="mirrored",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting != "tight":
            raise InvalidInput("mechanism 'auto' chooses the accounting itself.")

    def misfit(self, problem: Problem) -> str | None:
        return Objective().misfit(problem) if problem.loss.labels != "classes" else DPGD().misfit(problem)

    def gains_by_standardising(self, problem: Problem, budget: Budget) -> bool:
        return True

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        """That of the mechanism and the loss that are chosen, neither of which depends on l2."""
        if problem.loss.labels == "classes":
            return without_noise(problem)  # descent stops early, which regularises by itself
        resolved = replace(problem, loss=self.trained_loss(problem, budget))
        return l2_of_noise(resolved, budget.epsilon)

    def trained_loss(self, problem: Problem, budget: Budget) -> Loss:
        """A softly clipped one; a loss with settings of its own is kept."""
        loss = problem.loss
        if isinstance(loss, Weighted):
            return Weighted(self.trained_loss(replace(problem, loss=loss.base), budget), loss.bound)
        if loss.labels == "real":
            return SoftClippedSquared(RESIDUAL_BOUND, RESIDUAL_KNEE) if loss == ClippedSquared() else loss
        return softly_clipped(loss, slope_for(problem, budget), KNEE)

    def regularised(self, problem: Problem, budget: Budget, *, inference: bool = False) -> Problem:
        if inference and problem.loss.labels != "classes":
            return Objective().regularised(problem, budget, inference=True)  # for the loss that was asked for
        return super().regularised(problem, budget)

    def plan(self, problem: Problem, budget: Budget, *, inference: bool = False) -> AutoPlan:
        """The plan of the choice. Its problem has the loss that is trained with; planning for that gives the same.

        Intervals are for the coefficients of the loss that was asked for, on rows as they came.
        """
        resolved = problem if inference else replace(problem, loss=self.trained_loss(problem, budget))
        chosen, why = choose(resolved, budget, self.variant(problem, budget, inference=inference))
        why = f"{why}; intervals are for the loss that was asked for" if inference else why
        inner = chosen.plan(resolved, budget, inference=inference)
        known = {field.name: getattr(inner, field.name) for field in fields(Plan)}
        settings = {"mechanism": chosen.name, "why": why, **inner.settings}
        return AutoPlan(**{**known, "mechanism": self, "settings": settings}, chosen=inner)

    def run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Outcome]:
        """Jobs of one chosen mechanism run together."""
        choices = [job.plan.chosen.mechanism for job in jobs]
        outcomes: dict[int, Outcome] = {}
        for choice in dict.fromkeys(choices):
            mine = [i for i, made in enumerate(choices) if made == choice]
            inner = [Job(plan=jobs[i].plan.chosen, model=jobs[i].model) for i in mine]
            outcomes.update(zip(mine, choice.run(inner, rows, gate), strict=True))
        return [outcomes[i] for i in range(len(jobs))]

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> AutoPlan:
        raise NotImplementedError("the chosen mechanism plans")

    def _run(self, jobs: Sequence[Job[AutoPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        raise NotImplementedError("the chosen mechanism runs")

    def _cost(self, plan: AutoPlan) -> Cost | None:
        return plan.chosen.mechanism._cost(plan.chosen)


def choose(problem: Problem, budget: Budget, standardise: bool | str = LINEAR) -> tuple[Mechanism, str]:
    """The mechanism for a task and a budget, and the reason in words."""
    rows = "standardised rows" if standardise else "rows as they came"
    if problem.loss.labels != "classes":
        objective = Objective(standardise=standardise)
        if problem.l2 >= LEAST_L2 * l2_of_noise(problem, budget.epsilon):
            return objective, f"one margin: a perturbed objective on {rows} costs least for its accuracy"
        return (
            DPGD(standardise=standardise),
            f"the given l2 is too small for a perturbed objective: noisy gradients on {rows} need none",
        )
    heaviest = problem.loss.heaviest  # slopes are so many times as large
    path = PATH * math.sqrt(problem.dimension) / noise_level(problem, budget) / problem.x_norm**2 / heaviest
    descent = DPGD(
        steps=STEPS,
        step_size=(1 - MOMENTUM) * path / STEPS,
        momentum=MOMENTUM,
        clip=GRADIENT_CLIP * problem.x_norm * heaviest,
        standardise=standardise,
    )
    return descent, f"several classes: noisy gradients on {rows} cost least per coefficient"
