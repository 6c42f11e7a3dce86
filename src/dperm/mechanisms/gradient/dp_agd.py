"""Descent that buys its gradients and step sizes from a zCDP budget (Lee & Kifer 2018)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import NotCertified
from dperm.losses import Loss
from dperm.mechanisms.base import Job, Plan
from dperm.mechanisms.clipped_loss import LossClippingMechanism
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import gaussian_noise
from dperm.planning.rules import check_count, check_positive, check_share, path_length, setting, within
from dperm.planning.sensitivity import sum_error
from dperm.privacy import Budget, Gate, GaussianNoise, budget_to_rho, gaussian_mu
from dperm.privacy.cost import Cost
from dperm.privacy.noisy_min import NoisyMin
from dperm.privacy.renyi import ZcdpFilter
from dperm.problem import Problem
from dperm.typing import Floats

if TYPE_CHECKING:
    from dperm.engine import Engine, Rows


ROUNDS_PER_REVIEW = 10
REVIEW_MARGIN = 1.1
NOISE_MARGIN = 10.0


@dataclass(frozen=True, eq=False, kw_only=True)
class StepBudget:
    """What there is to spend, in zCDP, and what one gradient and one choice of a step cost at first."""

    rho: float
    gradient: float
    choice: float
    choice_epsilon: float


@dataclass(frozen=True, eq=False, kw_only=True)
class AGDPlan(Plan):
    """With the zCDP budget that gradients and choices are paid from."""

    step_budget: StepBudget


@register
@dataclass(frozen=True)
class DPAGD(LossClippingMechanism):
    """Take a noisy gradient, choose a step size privately, and pay for a better gradient when the choice is 0.

    Parameters
    ----------
    splits : int, optional
        Rounds for which the zCDP budget is cut. More rounds are noisier. None follows from the budget.
    choice_share : float
        Part of a round that goes to the choice of the step size.
    candidates : int
        Number of positive step sizes to choose from, besides 0.
    largest_step : float
        Length of the longest step, times the norm of a row. Every ten rounds it shrinks to 1.1 times the
        longest step chosen in them.
    growth : float
        By how much, relatively, the precision of a gradient grows when no step was found to help.

    Guarantee
    ---------
    All releases together cost at most the zCDP budget, whatever the rows and the choices were
    (docs/proofs/dp-agd.md). When a payment is refused the run ends without a further update. How many releases
    were made follows from released choices; the plan counts the most there can be.

    Scores are losses summed without clipping. Candidates lie on a segment of length s, so what a row adds to the
    scores varies by at most R s between candidates; replacing a row, by at most 2 R s. That is the range the
    exponential mechanism pays for. What a row adds to all candidates alike does not change the choice.
    """

    splits: int | None = setting(None, check_count)
    choice_share: float = setting(0.2, check_share, zero=False)
    candidates: int = setting(20, check_count)
    largest_step: float = setting(2.0, check_positive)
    growth: float = setting(0.1, check_positive)

    name: ClassVar[str] = "dp-agd"
    family: ClassVar[str] = "gradient"
    title: ClassVar[str] = "noisy gradients and privately chosen steps until a zCDP budget is spent"
    source: ClassVar[str] = "Lee & Kifer (2018)"
    route: ClassVar[str] = "adaptive-steps"
    released: ClassVar[str] = "noisy gradients and noisy choices of the step"
    labels: ClassVar[tuple[str, ...]] = ("binary",)  # losses of real labels have no bound at zero weights
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (WorstCase(settings={"splits": 2}, share=0.05),)

    def step_budget(self, problem: Problem, budget: Budget, mu_spent: float) -> StepBudget:
        paper = self.accounting == "paper"
        rho = step_budget_for(budget, mu_spent, paper)
        rounds = path_length(problem, gaussian_mu(budget), NOISE_MARGIN) * problem.gradient_bound / 4
        splits = within(rounds, 5, 60) if self.splits is None else self.splits
        each = rho / splits * (1 - 1e-9)  # so that roundings do not cost the last round
        choice = self.choice_share * each
        # Lee and Kifer price a choice of range e at e**2 / 2; e**2 / 8 is enough.
        epsilon = math.sqrt((2 if paper else 8) * choice)
        return StepBudget(
            rho=rho,
            gradient=(1 - self.choice_share) * each,
            choice=math.nextafter(epsilon * epsilon / (2 if paper else 8), math.inf),
            choice_epsilon=epsilon,
        )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> AGDPlan:
        step_budget = self.step_budget(problem, budget, mu_spent)
        paper = self.accounting == "paper"
        return AGDPlan(
            mechanism=self,
            problem=problem,
            budget=budget,
            settings={
                **self.settings,
                "splits": round((1 - self.choice_share) * step_budget.rho / step_budget.gradient),
            },
            accountant="zero-concentrated privacy by a filter, converted as in "
            + ("Bun & Steinke (2016)" if paper else "Canonne, Kamath & Steinke (2020)"),
            noise=gradient_noise(problem, 0.0, step_budget.gradient),
            releases=1
            + int(
                step_budget.rho
                / min(step_budget.choice, step_budget.gradient, self.growth * step_budget.gradient)
            ),
            step_budget=step_budget,
        )

    def _cost(self, plan: AGDPlan) -> Cost:
        mu_spent = 0.0 if plan.standardisation is None else plan.standardisation.mu
        return Cost.concentrated(plan.step_budget.rho + mu_spent * mu_spent / 2)

    def _run(self, jobs: Sequence[Job[AGDPlan]], rows: Rows, gate: Gate) -> list[Floats]:
        """All jobs in lock step: one pass for the gradients that they want next, one for all their candidates."""
        engine = rows.select([job.model for job in jobs]).open(precise=True)
        courses = [Course(job=k, plan=job.plan, mechanism=self) for k, job in enumerate(jobs)]
        while active := [course for course in courses if course.goes_on]:
            buying = [course for course in active if course.wants_gradient and course.pays_for_gradient()]
            if buying:
                sums = _of(engine, buying, courses).gradient_sum(*_weights(buying))
                for k, course in enumerate(buying):
                    course.exact = np.ascontiguousarray(sums[:, k])
                _buy(buying, gate)
            choosing = [course for course in active if course.goes_on and course.pays_for_choice()]
            if choosing:
                refining = self._choose(choosing, _of(engine, choosing, courses), gate)
                _buy([course for course in refining if course.pays_for_more()], gate)
        return [course.weights for course in courses]

    def _choose(self, courses: Sequence[Course], engine: Engine, gate: Gate) -> list[Course]:
        """Let every course choose its step, and return those that chose none."""
        shares = np.arange(self.candidates + 1) / self.candidates
        points = [course.points() for course in courses]
        begin, end = (np.stack([found[:, k] for found in points], axis=1) for k in (0, -1))
        values = engine.values_between(courses[0].plan.problem.loss, begin, end, shares)
        still = []
        for k, course in enumerate(courses):
            problem, prices = course.plan.problem, course.plan.step_budget
            choice = step_choice(problem, points[k], course.longest, prices.choice_epsilon)
            scores = values[:, k] + penalties(problem, points[k])
            index = gate.part([course.job]).choose(scores, choice, "dp-agd step")
            if index > 0:
                course.take(points[k][:, index], course.longest * index / self.candidates)
            else:
                still.append(course)
        return still


class Course:
    """Where one job stands: its weights, its zCDP budget, and the gradient that it bought for them."""

    def __init__(self, job: int, plan: AGDPlan, mechanism: DPAGD) -> None:
        self.job, self.plan, self._mechanism = job, plan, mechanism
        self.weights: Floats = np.zeros(plan.problem.n_columns)
        self.longest = mechanism.largest_step / plan.problem.row_norm
        self.goes_on = self.wants_gradient = True
        self.exact: Floats = np.zeros(0)
        self.price = 0.0
        self._filter = ZcdpFilter(plan.step_budget.rho)
        self._chosen: list[float] = []
        self._estimate: Floats = np.zeros(0)
        self._precision = 0.0

    def pays_for_gradient(self) -> bool:
        self._precision, self.price = 0.0, self.plan.step_budget.gradient
        return self._pays(self.price)

    def pays_for_choice(self) -> bool:
        return self._pays(self.plan.step_budget.choice)

    def pays_for_more(self) -> bool:
        self.price = self._mechanism.growth * self._precision
        return self._pays(self.price)

    def _pays(self, cost: float) -> bool:
        """A payment that is refused ends the course."""
        self.goes_on = self._filter.admit(cost)
        return self.goes_on

    @property
    def noise(self) -> GaussianNoise:
        return gradient_noise(self.plan.problem, float(np.linalg.norm(self.weights)), self.price)

    def bought(self, noisy: Floats) -> None:
        """The running mean of all that was bought of this gradient, by precision."""
        if self._precision > 0:
            total = self._precision + self.price
            noisy = (self._precision * self._estimate + self.price * noisy) / total
        self._estimate = noisy
        self._precision += self.price
        self.wants_gradient = False

    def points(self) -> Floats:
        """Candidates along the unit vector against the regularised gradient, one column per step size."""
        problem, candidates = self.plan.problem, self._mechanism.candidates
        steps = self.longest * np.arange(candidates + 1) / candidates
        direction = self._estimate / problem.n_rows + problem.l2 * self.weights
        length = float(np.linalg.norm(direction))
        direction = direction / length if length > 0 else direction
        return np.ascontiguousarray(self.weights[:, None] - direction[:, None] * steps)

    def take(self, point: Floats, step: float) -> None:
        self.weights, self.wants_gradient = point.copy(), True
        self._chosen.append(step)
        if len(self._chosen) % ROUNDS_PER_REVIEW == 0:
            self.longest = min(REVIEW_MARGIN * max(self._chosen[-ROUNDS_PER_REVIEW:]), self.longest)


def _of(engine: Engine, some: Sequence[Course], all_of_them: Sequence[Course]) -> Engine:
    return engine if len(some) == len(all_of_them) else engine.select([course.job for course in some])


def _weights(courses: Sequence[Course]) -> tuple[Loss, Floats]:
    return courses[0].plan.problem.loss, np.stack([course.weights for course in courses], axis=1)


def _buy(courses: Sequence[Course], gate: Gate) -> None:
    """Release the gradient of each course with noise for its price."""
    if not courses:
        return
    exact = np.stack([course.exact for course in courses], axis=1)
    mine = gate.part([course.job for course in courses])
    noisy = mine.release(exact, [course.noise for course in courses], "dp-agd gradient")
    for k, course in enumerate(courses):
        course.bought(np.ascontiguousarray(noisy[:, k]))


def step_budget_for(budget: Budget, mu_spent: float, bun_steinke: bool = False) -> float:
    """The zCDP that a budget leaves beside a Gaussian release, rounded down."""
    rho = budget_to_rho(budget, "bun-steinke" if bun_steinke else "cks") - mu_spent * mu_spent / 2
    if not rho > 0:
        raise NotCertified("the releases before training use up the whole budget; give them a smaller share.")
    return rho * (1 - 1e-12)


def gradient_noise(problem: Problem, weight_norm: float, rho: float) -> GaussianNoise:
    """Noise with which the gradient sum over all rows costs ``rho``."""
    sensitivity = problem.gradient_gap + sum_error(problem, weight_norm)
    return gaussian_noise(sensitivity, problem.dimension, math.sqrt(2 * rho) * (1 - 1e-12))


def penalties(problem: Problem, points: Floats) -> Floats:
    """What the regulariser adds to the loss of every candidate, summed over the rows."""
    return np.asarray(problem.n_rows * problem.l2 / 2 * np.sum(points * points, axis=0))


def step_choice(problem: Problem, points: Floats, longest: float, epsilon: float) -> NoisyMin:
    """The private choice among points on a segment of length ``longest``; the first column is its beginning."""
    norm = float(np.sqrt(np.sum(points * points, axis=0)).max())
    norm = math.ldexp(1.0, max(0, math.frexp(norm)[1]))  # for roundings only: a factor of two does not matter
    length = longest * (1 + 1e-9) + 16 * UNIT_ROUNDOFF * (norm + longest)
    moved = problem.gradient_gap * length / 2  # up to a common shift of all scores
    return NoisyMin(sensitivity=moved + 2 * score_error(problem, norm), epsilon=epsilon)


def score_error(problem: Problem, weight_norm: float) -> float:
    """Error of one computed score, by the arithmetic of the passes; weights of at most this norm."""
    n, labels, precise = problem.n_rows, np.array([-1.0, 1.0]), problem.arithmetic
    heaviest = problem.loss.heaviest
    at_zero = heaviest * float(np.abs(problem.loss.unweighted.value(np.zeros(2), labels)).max())
    value = at_zero + problem.gradient_bound * weight_norm
    margin = 2 * problem.n_columns * precise.margin * problem.row_norm * weight_norm
    one_row = problem.loss.lipschitz * margin + precise.value * (heaviest + value)
    penalty = problem.l2 / 2 * weight_norm**2
    rest = 2 * (problem.n_columns + 8) * UNIT_ROUNDOFF * (value + penalty)
    return n * one_row + n * (problem.sum_error(n) * value + rest)
