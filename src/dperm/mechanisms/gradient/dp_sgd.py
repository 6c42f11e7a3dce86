"""Noisy gradient descent on Poisson batches with a step size that is halved midway (Yu et al. 2020)."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from dperm.mechanisms.gradient.family import SampledGradientMechanism, SampledPlan
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import REMOVED, WorstCase
from dperm.planning.pricing import mu_left
from dperm.planning.rules import setting
from dperm.planning.sampling import PoissonSampling, check_rate
from dperm.privacy import Budget
from dperm.privacy.renyi import epsilon_cks
from dperm.privacy.search import smallest_safe
from dperm.privacy.subsampled import SMALLEST_MULTIPLIER
from dperm.problem import Problem
from dperm.typing import Floats

TIGHT_POISSON = "privacy-loss distributions of Poisson samples"
ORDERS = (*(1 + tenth / 10 for tenth in range(1, 100)), *range(11, 64), 128, 256, 512, 1024)
"""Of the Rényi divergences in the paper's own price: those of dp-accounting and of TensorFlow Privacy before it."""
TERMS = 1000


@dataclass(frozen=True)
class PoissonMechanism(SampledGradientMechanism):
    """Poisson batches, priced by the object that draws them."""

    rate: float = setting(0.1, check_rate)

    longest_step: ClassVar[float] = 8.0
    route: ClassVar[str] = "poisson"
    paper_accountant: ClassVar[str]

    @abstractmethod
    def step_sizes(self, steps: int, step_size: float) -> Floats:
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
        descent = self.descent(problem, self.step_sizes(steps, step_size), divisor)
        if self.accounting == "tight":
            noise_multiplier = sampling.noise_multiplier(steps, budget, problem.neighbours, mu_spent)
            reached = None
        else:
            noise_multiplier = self.paper_multiplier(steps, budget)
            reached = sampling.epsilon(noise_multiplier, steps, budget.delta, problem.neighbours, mu_spent)
        return self.sampled_plan(
            problem,
            budget,
            descent,
            sampling,
            noise_multiplier,
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

    def step_sizes(self, steps: int, step_size: float) -> Floats:
        return np.where(np.arange(steps) < steps / 2, step_size, step_size / 2)

    def paper_epsilon(self, noise_multiplier: float, steps: int, delta: float) -> float:
        found = math.inf
        for order in ORDERS:
            divergence = steps * log_moment(noise_multiplier, self.rate, order) / (order - 1)
            if delta**2 > -math.expm1(-divergence):  # it bounds the total variation
                return 0.0
            found = min(found, epsilon_cks(divergence, order, delta))
        return found


def log_moment(noise_multiplier: float, rate: float, order: float) -> float:
    r"""Logarithm of the moment of that order of (1 - q) N(0, z^2) + q N(1, z^2) against N(0, z^2), or more.

    A finite sum for whole orders, and for others the series of Mironov, Talwar and Zhang (2019, section 3.3) in
    absolute values: an upper bound, infinite where ``TERMS`` terms do not bring it to within :math:`e^{-30}`.
    """
    z, q = noise_multiplier, rate
    if q == 1:
        return order * (order - 1) / (2 * z**2)
    i = np.arange(order + 1 if order == int(order) else TERMS)
    j = order - i
    log_choose = gammaln(order + 1) - gammaln(i + 1) - gammaln(j + 1)
    low = log_choose + i * math.log(q) + j * math.log1p(-q) + i * (i - 1) / (2 * z**2)
    if order == int(order):
        return float(logsumexp(low))
    edge = z**2 * math.log(1 / q - 1) + 0.5
    low += log_ndtr((edge - i) / z)
    high = (
        log_choose
        + j * math.log(q)
        + i * math.log1p(-q)
        + j * (j - 1) / (2 * z**2)
        + log_ndtr((j - edge) / z)
    )
    sums = np.logaddexp.accumulate(np.logaddexp(low, high))
    ends = (np.diff(low) < 0) & (np.diff(high) < 0) & (np.maximum(low, high)[1:] < sums[1:] - 30)
    return float(sums[1:][ends][0]) if ends.any() else math.inf
