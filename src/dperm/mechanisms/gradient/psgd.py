"""Projected noisy SGD on single rows or batches of a fixed size (Bassily, Smith & Thakurta 2014)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput, Unsupported
from dperm.mechanisms.base import Plan
from dperm.mechanisms.gradient.family import SampledGradientMechanism, SampledPlan, row_bound
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import WorstCase
from dperm.planning.pricing import mu_left
from dperm.planning.rules import MOST_ROWS, check_count, check_positive, setting
from dperm.planning.sampling import FixedSizeSampling
from dperm.privacy import Budget, grid_exponent, padded
from dperm.privacy.textbook import bassily_sgd_noise
from dperm.problem import Problem

TIGHT_FIXED_SIZE = "privacy-loss distribution of batches of a fixed size"
LONGEST_DEFAULT = 1_000_000
RADIUS = 10.0  # of the ball of weights, over the norm of a row


@dataclass(frozen=True)
class ProjectedSGD(SampledGradientMechanism):
    """Random batches without repetition, steps that shrink with the root of their number, weights in a ball."""

    batch_size: int | None = setting(None, check_count, most=MOST_ROWS)
    radius: float | None = setting(None, check_positive)

    route: ClassVar[str] = "fixed-size"
    paper_accountant: ClassVar[str]
    paper_proves: ClassVar[bool] = False  # whether the theorem of the paper's noise is a proof by itself

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.accounting == "paper" and self.batch_size not in (None, 1):
            raise InvalidInput("the paper's own price is for single rows; set batch_size=1.")

    def misfit(self, problem: Problem) -> str | None:
        if self.batch_size is not None and self.batch_size > problem.n_rows:
            return f"batch_size = {self.batch_size} is above the number of rows, {problem.n_rows}"
        return super().misfit(problem)

    def as_planned(self, plan: Plan) -> Self:
        used: dict[str, Any] = {name: plan.settings[name] for name in ("steps", "step_size", "batch_size")}
        return replace(super().as_planned(plan), **used)

    @abstractmethod
    def default_size(self, problem: Problem) -> int:
        """Rows of a batch under tight accounting, where the user gave none."""

    @abstractmethod
    def default_steps(self, problem: Problem, budget: Budget, by_rule: int) -> int:
        """Number of steps where the user gave none; ``by_rule`` is that of full batches."""

    @abstractmethod
    def paper_scale(self, problem: Problem, budget: Budget, steps: int, unit: float) -> float:
        """The paper's noise on the gradient of one row, which has norm at most ``unit``."""

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> SampledPlan:
        by_rule, _ = self.rule(problem, mu_left(budget, mu_spent))
        paper = self.accounting == "paper"
        steps = self.steps or self.default_steps(problem, budget, by_rule)
        size = self.batch_size or (1 if paper else self.default_size(problem))
        sampling = FixedSizeSampling(size)
        row_unit, dimension = self.row_unit(problem), problem.dimension
        unit = padded(row_unit, dimension, grid_exponent(2 * row_unit, dimension))
        if paper:
            noise_multiplier = self.paper_scale(problem, budget, steps, unit) / unit
        else:
            noise_multiplier = sampling.noise_multiplier(problem.n_rows, steps, budget, mu_spent)
        noise_norm = math.sqrt(dimension) * noise_multiplier * unit / size
        radius = self.radius or RADIUS / problem.row_norm
        first = self.step_size or 2 * radius / math.hypot(
            row_bound(problem, self.clip_norm(problem)), noise_norm
        )
        descent = self.descent(problem, first / np.sqrt(np.arange(1, steps + 1)), size, radius)
        reached = None
        if paper and not self.paper_proves:
            reached = sampling.epsilon(noise_multiplier, problem.n_rows, steps, budget.delta, mu_spent)
        accountant = self.paper_accountant if paper else TIGHT_FIXED_SIZE
        return self.sampled_plan(
            problem,
            budget,
            descent,
            sampling,
            noise_multiplier,
            accountant,
            reached,
            batch_size=size,
            radius=radius,
        )


@register
@dataclass(frozen=True)
class PSGD(ProjectedSGD):
    """Each step draws ``batch_size`` rows, none twice; the step size falls with the root of the step's number.

    Parameters
    ----------
    batch_size : int, optional
        By default a tenth of the rows. The paper draws one row and takes n**2 steps.
    radius : float, optional
        Weights are projected on the ball of this radius.
    step_size : float, optional
        The first step size; by default the paper's, the diameter of the ball over the largest noisy gradient.
    constant : float
        c squared in the printed noise, for ``accounting="paper"`` only.

    Guarantee
    ---------
    That of batches of a fixed size for all steps together (docs/proofs/psgd.md, docs/proofs/dp-sgd.md). The printed
    noise is checked by the same price and marked as not certified where it falls short.
    """

    constant: float = setting(32.0, check_positive)

    name: ClassVar[str] = "psgd"
    title: ClassVar[str] = "projected SGD on random rows, noise on every gradient"
    source: ClassVar[str] = "Bassily, Smith & Thakurta (2014)"
    paper_accountant: ClassVar[str] = "noise of Bassily, Smith & Thakurta (2014), checked exactly"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"steps": 2, "batch_size": 4}, share=0.4),
    )

    def default_size(self, problem: Problem) -> int:
        return -(-problem.n_rows // 10)

    def default_steps(self, problem: Problem, budget: Budget, by_rule: int) -> int:
        if self.accounting == "tight":
            return by_rule
        if problem.n_rows**2 > LONGEST_DEFAULT:
            raise Unsupported(
                f"the paper takes n**2 = {problem.n_rows**2} steps, too many to start unasked; give steps."
            )
        return problem.n_rows**2

    def paper_scale(self, problem: Problem, budget: Budget, steps: int, unit: float) -> float:
        if budget.delta == 0:
            raise InvalidInput("the printed noise needs delta > 0; got 0.")
        return bassily_sgd_noise(unit, problem.n_rows, budget, self.constant)
