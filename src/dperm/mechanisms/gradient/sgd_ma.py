"""Noisy SGD on Poisson batches with the moments accountant (Abadi et al. 2016)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.errors import NotCertified
from dperm.mechanisms.gradient.dp_sgd import PoissonMechanism, log_moment
from dperm.mechanisms.registry import register
from dperm.mechanisms.worst_case import REMOVED, WorstCase
from dperm.planning.rules import setting
from dperm.planning.sampling import check_rate
from dperm.privacy import Budget
from dperm.typing import Floats

MOMENTS = 32


@register
@dataclass(frozen=True)
class SGDMA(PoissonMechanism):
    """SGD on Poisson batches of an expected share ``rate`` of the rows, with a constant step size.

    The sum of a batch is divided by its expected size; an empty batch is noised and stepped on like any other.
    The paper's own price is the moments accountant with 32 moments, under add-remove.

    Guarantee
    ---------
    That of ``PoissonSampling`` for all steps together (docs/proofs/sgd-ma.md), up to the floating-point
    error of the accountant.
    """

    rate: float = setting(0.05, check_rate)

    name: ClassVar[str] = "sgd-ma"
    title: ClassVar[str] = "SGD on Poisson batches, noise on every gradient"
    source: ClassVar[str] = "Abadi et al. (2016)"
    paper_accountant: ClassVar[str] = "moments accountant under add-remove, checked exactly"
    worst_cases: ClassVar[tuple[WorstCase, ...]] = (
        WorstCase(settings={"steps": 2, "rate": 0.25}, share=0.4),
        WorstCase(facts=REMOVED),
    )

    def step_sizes(self, steps: int, step_size: float) -> Floats:
        return np.full(steps, step_size)

    def paper_epsilon(self, noise_multiplier: float, steps: int, delta: float) -> float:
        return moments_epsilon(noise_multiplier, self.rate, steps, delta)

    def paper_multiplier(self, steps: int, budget: Budget) -> float:
        least = -math.log(budget.delta) / MOMENTS if budget.delta > 0 else math.inf
        if budget.epsilon <= least:
            raise NotCertified(
                f"with {MOMENTS} moments no noise brings epsilon below log(1/delta)/{MOMENTS} = {least:.3g}; got "
                f"{budget.epsilon:g}. Use accounting='tight'."
            )
        return super().paper_multiplier(steps, budget)


def moments_epsilon(noise_multiplier: float, rate: float, steps: int, delta: float) -> float:
    r"""Epsilon at ``delta`` by the moments accountant: least of
    :math:`(T\alpha(\lambda) + \ln(1/\delta))/\lambda` over :math:`\lambda = 1, \dots, 32`.

    :math:`\alpha` is the exact moment of (1 - q) N(0, z^2) + q N(1, z^2) against N(0, z^2).
    """
    found = math.inf
    for moment in range(1, MOMENTS + 1):
        spent = steps * log_moment(noise_multiplier, rate, moment + 1)
        found = min(found, (spent - math.log(delta)) / moment)
    return found
