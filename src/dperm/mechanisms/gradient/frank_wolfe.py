"""Private Frank-Wolfe on the L1 ball (Talwar, Thakurta & Zhang 2015)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import Unsupported
from dperm.mechanisms.base import Job, Plan, alike, tolerant
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.gradient.dp_agd import step_budget_for
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import shortfall
from dperm.planning.rules import AUTO, check_count, check_flag, check_positive, setting, within
from dperm.planning.sensitivity import whole_sum_error
from dperm.privacy import Budget, Gate, gaussian_mu, rho_to_epsilon
from dperm.privacy.cost import Cost
from dperm.privacy.noisy_min import LARGEST_SCORE, HeldScores, NoisyMin, block_width
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows


_GRID_BITS = 30  # of the largest coordinate of a row's gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class CornersPlan(Plan):
    """With the choice that is made at every step and the radius of the ball whose vertices are chosen."""

    choice: NoisyMin
    radius: float


def largest_coordinate(problem: Problem) -> float:
    """Bound on any coordinate of one row's gradient: a row of bounded norm has no larger feature."""
    return problem.loss.lipschitz * max(problem.x_norm, problem.intercept)


def grid_exponent(problem: Problem) -> int:
    """Coordinates of gradients are rounded to multiples of 2 to this power, at most 2**-29 of the largest."""
    return math.frexp(largest_coordinate(problem))[1] - _GRID_BITS


def lazy_sensitivity(problem: Problem, radius: float) -> float:
    """How far the score of a vertex moves between neighbours: what the rows add is exact, whole steps of the grid."""
    most = largest_coordinate(problem) * (1 + 2.0**-48) + math.ldexp(1.0, grid_exponent(problem))
    return radius * problem.neighbours.rows_changed * most / problem.n_rows * (1 + 2.0**-48)


def lazy_walk(plan: CornersPlan, engine: Engine, model: int, gate: Gate) -> Floats:
    """The weights of one model; w = scale * bar, of which a step changes a number each."""
    problem, exponent = plan.problem, grid_exponent(plan.problem)
    n_columns = engine.n_columns
    walk = engine.vertex_pass(problem.loss, model, exponent, block_width(n_columns))
    unit = Fraction(plan.radius) * Fraction(2) ** exponent / problem.n_rows
    scores = HeldScores(walk.sums, walk.changed, n_columns, unit, plan.choice)
    pull = _Pull(problem, plan.radius, exponent)
    scale, bar = 1.0, dict[int, float]()
    for t in range(1, plan.releases + 1):
        vertex = gate.choose(scores, plan.choice, "frank-wolfe corner")
        sign, j = (1, vertex) if vertex < n_columns else (-1, vertex - n_columns)
        share = 2 / (t + 2)
        change = share * sign * plan.radius
        walk.move(j, change, 1 - share)
        if t & (t - 1) == 0:
            walk.renew()
        scale *= 1 - share
        bar[j] = bar.get(j, 0.0) + change / scale
        for column, steps in pull.towards(bar, scale):
            walk.sums[column] += steps
            walk.changed[column // block_width(n_columns)] = 1
    weights = np.zeros(n_columns)
    for j, value in bar.items():
        weights[j] = scale * value
    return weights


class _Pull:
    """The gradient of the penalty in steps of the grid, which is public: it moves all neighbours' scores alike."""

    def __init__(self, problem: Problem, radius: float, exponent: int) -> None:
        self._per_weight = math.ldexp(problem.n_rows * problem.l2, -exponent)
        if not self._per_weight * radius < LARGEST_SCORE / 2:
            raise Unsupported(
                "l2 is so large beside the slopes that their sum cannot be kept; set lazy to False."
            )
        self._added: dict[int, int] = {}

    def towards(self, bar: dict[int, float], scale: float) -> list[tuple[int, int]]:
        """By how many steps each weight's own term differs from what was added before."""
        if self._per_weight == 0:
            return []
        terms = {j: round(self._per_weight * scale * value) for j, value in bar.items()}
        changes = [(j, term - self._added.get(j, 0)) for j, term in terms.items()]
        self._added = terms
        return changes


@register
@dataclass(frozen=True)
class FrankWolfe(LossClippingMechanism):
    r"""Move towards a privately chosen vertex of the L1 ball, by 2/(t + 2) of the way in step t.

    Parameters
    ----------
    steps : int, optional
        None follows from the budget, 20 to 120; 10 with delta = 0.
    radius : float, optional
        Of the L1 ball, over the norm of a row. None follows from the budget, 4 to 32.
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

    steps: int | None = setting(None, check_count)
    radius: float | None = setting(None, check_positive)
    lazy: bool = setting(False, check_flag)

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
        if self.lazy and self.standardise not in (False, AUTO):
            raise Unsupported("lazy steps are for rows as they are; set standardise or lazy to False.")

    def gains_by_standardising(self, problem: Problem, budget: Budget) -> bool:
        return not self.lazy and super().gains_by_standardising(problem, budget)

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
        return math.sqrt(8 * step_budget_for(budget, mu_spent) / steps) * (1 - 1e-12)

    def rule(self, problem: Problem, budget: Budget) -> tuple[int, float]:
        """Steps and the radius of the ball: more of both when one release shows more of a mean over the rows."""
        clarity = (
            problem.n_rows * gaussian_mu(budget) / problem.loss.unweighted.lipschitz
            if budget.delta > 0
            else 0.0
        )
        steps = within(clarity / 15, 20, 120) if budget.delta > 0 else 10  # pure choices add up linearly
        radius = min(max(clarity / 200, 4.0), 32.0)
        return self.steps or steps, (self.radius or radius) / problem.row_norm

    def whole_sums(self) -> bool:
        return True

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> CornersPlan:
        steps, radius = self.rule(problem, budget)
        epsilon = self.choice_epsilon(budget, mu_spent, steps)
        moved = lazy_sensitivity if self.lazy else vertex_sensitivity
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

    def _run(self, jobs: Sequence[Job[CornersPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        engine = rows.select([job.model for job in jobs]).open(precise=not tolerant(jobs))
        if self.lazy:
            return [lazy_walk(job.plan, engine, k, gate.part([k])) for k, job in enumerate(jobs)]
        weights: dict[int, Floats] = {}
        for columns in alike([job.plan.releases for job in jobs]):
            found = self._walk([jobs[k].plan for k in columns], engine.select(columns), gate.part(columns))
            weights.update(zip(columns, found, strict=True))
        return [weights[k] for k in range(len(jobs))]

    def _walk(self, plans: Sequence[CornersPlan], engine: Engine, gate: Gate) -> list[Floats]:
        weights = np.zeros((engine.n_columns, len(plans)))
        gates = [gate.part([k]) for k in range(len(plans))]
        for t in range(1, plans[0].releases + 1):
            sums = engine.gradient_sum(plans[0].problem.loss, weights)
            share = 2 / (t + 2)
            for k, plan in enumerate(plans):
                gradient = sums[:, k] / plan.problem.n_rows + plan.problem.l2 * weights[:, k]
                towards = plan.radius * gradient
                vertex = gates[k].choose(
                    np.concatenate([towards, -towards]), plan.choice, "frank-wolfe corner"
                )
                sign, j = (1, vertex) if vertex < len(gradient) else (-1, vertex - len(gradient))
                weights[:, k] *= 1 - share
                weights[j, k] += share * sign * plan.radius
        return [weights[:, k].copy() for k in range(len(plans))]


def vertex_sensitivity(problem: Problem, radius: float) -> float:
    """How far the score of a vertex of the L1 ball moves between neighbours, rounding included.

    The vertices of one axis move in opposite directions, so ``NoisyMin`` must not take the scores as one-sided.
    """
    exact = problem.neighbours.rows_changed * largest_coordinate(problem) / problem.n_rows
    summed = whole_sum_error(problem, radius) / problem.n_rows  # the L2 norm is at most the L1 norm
    rounded = 16 * UNIT_ROUNDOFF * (problem.gradient_bound + problem.l2 * radius)
    return radius * (exact + summed + rounded)
