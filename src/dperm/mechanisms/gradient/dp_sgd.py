"""Noisy gradient descent on Poisson batches with a step size that is halved midway (Yu et al. 2020)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms.gradient.family import SampledGradientMechanism, SampledPlan, SampledSteps
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.planning.sampling import PoissonSampling
from dperm.privacy import Budget
from dperm.privacy.search import smallest_safe
from dperm.privacy.subsampled import SMALLEST_MULTIPLIER
from dperm.problem import Problem

Vector = NDArray[np.float64]

TIGHT_POISSON = "privacy-loss distributions of Poisson samples"


@dataclass(frozen=True)
class PoissonMechanism(SampledGradientMechanism):
    """Poisson batches, priced by the object that draws them."""

    rate: float = 0.1

    route: ClassVar[str] = "poisson"
    paper_accountant: ClassVar[str]

    def __post_init__(self) -> None:
        super().__post_init__()
        PoissonSampling(self.rate)

    @abstractmethod
    def step_sizes(self, steps: int, step_size: float) -> Vector:
        """The step size of every step."""

    @abstractmethod
    def paper_epsilon(self, noise_multiplier: float, steps: int, delta: float) -> float:
        """The paper's own price, for add-remove."""

    def paper_multiplier(self, steps: int, budget: Budget) -> float:
        """The smallest noise multiplier to which the paper's own calculation ascribes the budget."""
        budget.check_gaussian()
        start = max(1.0, self.rate * math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon)
        return smallest_safe(
            lambda z: self.paper_epsilon(z, steps, budget.delta) - budget.epsilon,
            start,
            tolerance=1e-4,
            lowest=SMALLEST_MULTIPLIER,
        )

    def _plan(self, problem: Problem, budget: Budget, mu_spent: float) -> SampledPlan:
        steps, step_size = self.rule(problem, mu_left(budget, mu_spent))
        sampling = PoissonSampling(self.rate)
        divisor = sampling.expected_rows(problem.n_rows)
        descent = self.descent(self.step_sizes(steps, step_size), divisor, problem.l2)
        if self.accounting == "tight":
            noise_multiplier = sampling.noise_multiplier(steps, budget, problem.neighbours, mu_spent)
            reached = None
        else:
            noise_multiplier = self.paper_multiplier(steps, budget)
            reached = sampling.epsilon(noise_multiplier, steps, budget.delta, problem.neighbours, mu_spent)
        return self.sampled_plan(
            problem,
            budget,
            SampledSteps(descent=descent, sampling=sampling, noise_multiplier=noise_multiplier),
            TIGHT_POISSON if reached is None else self.paper_accountant,
            reached,
        )


@register
@dataclass(frozen=True)
class DPSGD(PoissonMechanism):
    """DP-GD on Poisson batches: every row joins each step with probability ``rate``.

    It saves time, not noise: for a given number of steps full batches need no more of it. The first half of the
    steps has twice the step size of the second. The paper's own price is Rényi divergence under add-remove.

    Guarantee
    ---------
    That of ``PoissonSampling`` for all steps together (docs/proofs/sgd-ma.md), floating-point error included.
    """

    name: ClassVar[str] = "dp-sgd"
    title: ClassVar[str] = "gradient descent on Poisson batches, noise on every gradient"
    source: ClassVar[str] = "Yu et al. (2020)"
    paper_accountant: ClassVar[str] = "Rényi divergence of Poisson samples under add-remove, checked exactly"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"steps": 2, "rate": 0.5}, share=0.4),
        WorstCase(facts=REMOVED),
    )

    def step_sizes(self, steps: int, step_size: float) -> Vector:
        return np.where(np.arange(steps) < steps / 2, step_size, step_size / 2)

    def paper_epsilon(self, noise_multiplier: float, steps: int, delta: float) -> float:
        from dp_accounting import GaussianDpEvent, NeighboringRelation, PoissonSampledDpEvent
        from dp_accounting.rdp import RdpAccountant

        accountant = RdpAccountant(neighboring_relation=NeighboringRelation.ADD_OR_REMOVE_ONE)
        step = PoissonSampledDpEvent(self.rate, GaussianDpEvent(noise_multiplier))
        return float(accountant.compose(step, steps).get_epsilon(delta))
