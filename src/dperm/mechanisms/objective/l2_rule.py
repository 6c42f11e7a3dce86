"""The l2 that objective perturbation takes where none is given: a public rule of the task and the budget."""

import math

from dperm.mechanisms.objective.profile import hessian_trace
from dperm.problem import Problem

# Chosen on public data sets; no guarantee rests on them.
NOISE_SHARE, NOISE_POWER = 2.0**-3.5, 1.25
COUPLED_FLOOR = 2.6  # in units of coupling r^2 / (n epsilon): the log-determinant costs next to nothing
CURVED_FLOOR = 12.0  # in units of the Hessian's trace over n epsilon: it costs about 8 % of epsilon


def l2_of_noise(problem: Problem, mu: float, epsilon: float) -> float:
    """As the noise of Gaussian parameter ``mu`` asks for, and never so little that the Hessian costs much."""
    noise = math.sqrt(problem.n_columns) / (problem.n_rows * mu)
    by_noise: float = NOISE_SHARE * noise**NOISE_POWER * problem.x_norm**2
    return max(by_noise, least_l2(problem, epsilon))


def least_l2(problem: Problem, epsilon: float) -> float:
    """Where the price of what one row adds to the Hessian begins to show."""
    loss = problem.loss
    if loss.sign_definite and loss.coupling is not None:
        floor = COUPLED_FLOOR * loss.coupling * problem.row_norm**2
    else:
        floor = CURVED_FLOOR * hessian_trace(problem)
    return floor / (problem.n_rows * epsilon)
