"""How noisy a private fit must be, from public facts alone: the one number that the rules for accuracy follow."""

from __future__ import annotations

import math

from dperm.privacy import Budget, gaussian_mu
from dperm.privacy.budget import DELTA_RANGE, EPSILON_RANGE
from dperm.problem import Problem


def noise_level(problem: Problem, budget: Budget) -> float:
    r""":math:`\nu = \sqrt p\,/(n \mu)` under replace-one, half of it under add-remove.

    It is the typical length of the noise on one private mean gradient, over the distance of two rows' gradients.
    """
    moved = problem.neighbours.rows_changed / 2 * math.sqrt(problem.dimension)
    return moved / (problem.n_rows * noise_parameter(problem, budget))


def noise_parameter(problem: Problem, budget: Budget) -> float:
    """The Gaussian parameter of the budget; without delta, noise is longer by about the root of its dimension."""
    if budget.delta == 0:
        return budget.epsilon / math.sqrt(problem.dimension)
    inside = [
        min(max(value, low), high)
        for value, (low, high) in ((budget.epsilon, EPSILON_RANGE), (budget.delta, DELTA_RANGE))
    ]
    return gaussian_mu(Budget(*inside))
