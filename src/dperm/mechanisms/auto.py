"""``auto``: a public rule picks the mechanism, from the size of the task and the budget, never from rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms.base import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.objective.objective import Objective
from dperm.mechanisms.registry import register
from dperm.mechanisms.statistics.ssp import SSP
from dperm.mechanisms.worst_case import NEWTON_JOBS, REMOVED, WorstCase
from dperm.planning.penalty import noise_parameter
from dperm.privacy import Budget, Gate
from dperm.privacy.cost import Cost
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Rows

Vector = NDArray[np.float64]

FEW_FEATURES = 20  # below, standardising costs more than it gains
NOISY = 0.004  # noise level from which one-shot moments beat the perturbed objective
MOST_MOMENTS = 400  # columns whose second moments are worth releasing


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
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(facts=REMOVED, share=0.1, jobs=NEWTON_JOBS),  # what it chooses is audited by itself
        WorstCase(),
        WorstCase(
            name="mirrored row, many features, standardised",
            facts={"loss": Logistic(), "n_features": FEW_FEATURES + 1, "intercept": 0.1},
            rows="mirrored",
        ),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting != "tight" or self.standardise:
            raise InvalidInput("mechanism 'auto' chooses accounting and standardisation itself.")

    def l2_rule(self, problem: Problem, budget: Budget) -> float:
        """That of the mechanism that is chosen, which does not depend on l2."""
        chosen, _ = choose(problem, budget)
        return chosen.l2_rule(problem, budget)

    def plan(self, problem: Problem, budget: Budget) -> AutoPlan:
        chosen, why = choose(problem, budget)
        inner = chosen.plan(problem, budget)
        known = {field.name: getattr(inner, field.name) for field in fields(Plan)}
        settings = {"mechanism": chosen.name, "why": why, **inner.settings}
        return AutoPlan(**{**known, "mechanism": self, "settings": settings}, chosen=inner)

    def run(self, jobs: Sequence[Job[Any]], rows: Rows, gate: Gate) -> list[Outcome]:
        """Jobs of one chosen mechanism run together."""
        outcomes: dict[int, Outcome] = {}
        for mechanism in dict.fromkeys(job.plan.chosen.mechanism for job in jobs):
            mine = [i for i, job in enumerate(jobs) if job.plan.chosen.mechanism == mechanism]
            inner = [Job(plan=jobs[i].plan.chosen, model=jobs[i].model) for i in mine]
            outcomes.update(zip(mine, mechanism.run(inner, rows, gate), strict=True))
        return [outcomes[i] for i in range(len(jobs))]

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> AutoPlan:
        raise NotImplementedError("the chosen mechanism plans")

    def _run(self, jobs: Sequence[Job[AutoPlan]], rows: Rows, gate: Gate) -> list[Vector]:
        raise NotImplementedError("the chosen mechanism runs")

    def _cost(self, plan: AutoPlan) -> Cost | None:
        return plan.chosen.mechanism._cost(plan.chosen)


def noise_level(problem: Problem, budget: Budget) -> float:
    """Typical length of the noise that one private mean gradient would need, for rows of norm 1."""
    gap = problem.gradient_gap / problem.x_norm
    return math.sqrt(problem.dimension) * gap / (problem.n_rows * noise_parameter(problem, budget))


def choose(problem: Problem, budget: Budget) -> tuple[Mechanism, str]:
    """The mechanism for a task and a budget, and the reason in words.

    The limits were set on CPS, Adult, BANK, IPUMS-BR and MNIST and are constants since (docs/which-mechanism.md).
    """
    noisy = noise_level(problem, budget) >= NOISY
    standardise = problem.intercept > 0 and problem.n_features > FEW_FEATURES
    loss = problem.loss
    if loss.labels == "real":
        return DPGD(), "regression: noisy gradients fitted best at every budget"
    if loss.labels == "classes":
        why = "several classes: noisy gradients cost least per coefficient"
        return DPGD(clip=problem.x_norm, standardise=standardise), why + (
            ", on standardised rows" if standardise else ""
        )
    if not standardise:
        return (
            Objective(),
            f"at most {FEW_FEATURES} features or no intercept: a perturbed objective, not centred",
        )
    if not noisy:
        return Objective(standardise=True), "the noise is small: a perturbed objective on standardised rows"
    if type(loss) is Logistic and problem.n_columns <= MOST_MOMENTS:
        return SSP(standardise=True), "the noise is large: moments of standardised rows, released once"
    return DPGD(standardise=True), "the noise is large: noisy gradients on standardised rows"
