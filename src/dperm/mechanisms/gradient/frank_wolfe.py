"""Private Frank-Wolfe on the L1 ball (Talwar, Thakurta & Zhang 2015)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import InvalidInput, Unsupported
from dperm.mechanisms.base import Job, Mechanism, alike, tolerant
from dperm.mechanisms.gradient.dp_agd import purse_for
from dperm.mechanisms.gradient.lazy_corners import (
    CornersPlan,
    largest_coordinate,
    lazy_sensitivity,
    lazy_walk,
)
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.checks import check_count, check_positive
from dperm.planning.gaussian import shortfall
from dperm.planning.rules import within
from dperm.planning.sensitivity import whole_sum_error
from dperm.privacy import Budget, Gate, gaussian_mu, rho_to_epsilon
from dperm.privacy.cost import Cost
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows

Vector = NDArray[np.float64]


@register
@dataclass(frozen=True)
class FrankWolfe(Mechanism):
    r"""Move towards a privately chosen corner of the L1 ball, by 2/(t + 2) of the way in step t.

    Parameters
    ----------
    steps : int, optional
        None follows from the budget, 60 to 150; 10 with delta = 0.
    radius : float, optional
        Of the L1 ball, over the norm of a row. None follows from the budget, 10 to 40.
    lazy : bool
        After a step, renew the slopes of those rows alone that have the chosen feature, and those of all rows after
        steps 1, 2, 4, 8, ... (Raff, Khanna & Lu 2023). A step then looks at the rows and columns that it changes. It
        is another descent than with fresh slopes, at the same price. For dense and sparse rows in memory, without
        ``standardise``.

    Guarantee
    ---------
    Every choice is over the gradient of all rows and is bounded-range with the same parameter
    :math:`\varepsilon_0 = \sqrt{8\rho/T}`, so all T together are :math:`\rho`-zCDP (docs/proofs/frank-wolfe.md).
    With delta = 0, :math:`\varepsilon_0 = \varepsilon/T` and the guarantee is pure.
    """

    steps: int | None = None
    radius: float | None = None
    lazy: bool = False

    name: ClassVar[str] = "frank-wolfe"
    family: ClassVar[str] = "gradient"
    title: ClassVar[str] = "privately chosen corners of an L1 ball"
    source: ClassVar[str] = "Talwar, Thakurta & Zhang (2015)"
    route: ClassVar[str] = "corners"
    released: ClassVar[str] = "a noisy choice of a corner at every step"
    labels: ClassVar[tuple[str, ...]] = ("binary", "real")
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"steps": 12}, facts={"l2": 0.0}, weights_alone=True, share=0.2),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None:
            check_count("steps", self.steps)
        if self.radius is not None:
            check_positive("radius", self.radius)
        if not isinstance(self.lazy, bool):
            raise InvalidInput(f"lazy must be True or False; got {self.lazy!r}.")
        if self.lazy and self.standardise:
            raise Unsupported("lazy steps are for rows as they are; set standardise or lazy to False.")

    def misfit(self, problem: Problem) -> str | None:
        if self.lazy and problem.many_rows:
            return "lazy slopes are rounded row by row, and a person may have many; set lazy to False"
        return super().misfit(problem)

    def choice_epsilon(self, budget: Budget, mu_spent: float, steps: int) -> float:
        """Bounded range of one choice. The paper's own is that of advanced composition, slack left out."""
        if budget.delta == 0:
            return budget.epsilon / steps * (1 - 1e-12)
        if self.accounting == "paper":
            return budget.epsilon / math.sqrt(-2 * steps * math.log(budget.delta))
        return math.sqrt(8 * purse_for(budget, mu_spent) / steps) * (1 - 1e-12)

    def rule(self, problem: Problem, budget: Budget) -> tuple[int, float]:
        """Steps and the radius of the ball: more of both when one release shows more of a mean over the rows."""
        clarity = problem.n_rows * gaussian_mu(budget) if budget.delta > 0 else 0.0
        steps = within(clarity / 50, 60, 150) if budget.delta > 0 else 10  # pure choices add up linearly
        radius = min(max(clarity / 200, 10.0), 40.0)
        return self.steps or steps, (self.radius or radius) / problem.row_norm

    def whole_sums(self) -> bool:
        return True

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> CornersPlan:
        steps, radius = self.rule(problem, budget)
        epsilon = self.choice_epsilon(budget, mu_spent, steps)
        moved = lazy_sensitivity if self.lazy else corner_sensitivity
        choice = NoisyMin(sensitivity=moved(problem, radius), epsilon=epsilon)
        reason = None
        if self.accounting == "paper" and budget.delta > 0:
            rho = steps * epsilon**2 / 8 + mu_spent**2 / 2
            reached = rho_to_epsilon(rho, budget.delta, "cks")
            reason = (
                shortfall(reached, budget, "the paper's composition") if reached > budget.epsilon else None
            )
        return CornersPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={**self.settings, "steps": steps, "radius": radius * problem.row_norm},
            accountant=(
                "pure composition of the choices"
                if budget.delta == 0
                else "advanced composition of the choices"
                if self.accounting == "paper"
                else "zero-concentrated privacy, converted as in Canonne, Kamath & Steinke (2020)"
            ),
            noise=choice,
            releases=steps,
            not_certified=reason,
            choice=choice,
            radius=radius,
        )

    def _cost(self, plan: CornersPlan) -> Cost:
        if plan.budget.delta == 0:
            return Cost.point(plan.releases * plan.choice.epsilon, 0.0)
        mu_spent = 0.0 if plan.standardisation is None else plan.standardisation.mu
        return Cost.concentrated(plan.releases * plan.choice.rho + mu_spent * mu_spent / 2)

    def _run(self, jobs: Sequence[Job[CornersPlan]], rows: Rows, gate: Gate) -> list[Vector]:
        engine = rows.select([job.model for job in jobs]).open(precise=not tolerant(jobs))
        if self.lazy:
            return [lazy_walk(job.plan, engine, k, gate.part([k])) for k, job in enumerate(jobs)]
        weights: dict[int, Vector] = {}
        for columns in alike([job.plan.releases for job in jobs]):
            found = self._walk([jobs[k].plan for k in columns], engine.select(columns), gate.part(columns))
            weights.update(zip(columns, found, strict=True))
        return [weights[k] for k in range(len(jobs))]

    def _walk(self, plans: Sequence[CornersPlan], engine: Engine, gate: Gate) -> list[Vector]:
        weights = np.zeros((engine.n_columns, len(plans)))
        lanes = [gate.part([k]) for k in range(len(plans))]
        for t in range(1, plans[0].releases + 1):
            sums = engine.gradient_sum(plans[0].problem.loss, weights)
            share = 2 / (t + 2)
            for k, plan in enumerate(plans):
                gradient = sums[:, k] / plan.problem.n_rows + plan.problem.l2 * weights[:, k]
                towards = plan.radius * gradient
                corner = lanes[k].choose(
                    np.concatenate([towards, -towards]), plan.choice, "frank-wolfe corner"
                )
                sign, j = (1, corner) if corner < len(gradient) else (-1, corner - len(gradient))
                weights[:, k] *= 1 - share
                weights[j, k] += share * sign * plan.radius
        return [weights[:, k].copy() for k in range(len(plans))]


def corner_sensitivity(problem: Problem, radius: float) -> float:
    """How far the score of a corner of the L1 ball moves between neighbours, rounding included.

    The corners of one axis move in opposite directions, so ``NoisyMin`` must not take the scores as one-sided.
    """
    exact = problem.neighbours.rows_changed * largest_coordinate(problem) / problem.n_rows
    summed = whole_sum_error(problem, radius) / problem.n_rows  # the L2 norm is at most the L1 norm
    rounded = 16 * UNIT_ROUNDOFF * (problem.gradient_bound + problem.l2 * radius)
    return radius * (exact + summed + rounded)
