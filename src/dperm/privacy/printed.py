"""Noise scales as papers print them, to reproduce their runs. Check each with the exact price before use.

None of these is a guarantee by itself; docs/proofs/ says where each falls short. The exact prices are
``gaussian_steps_epsilon`` for full batches and coordinates, ``fixed_size_epsilon`` for single rows.
"""

import math

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget
from dperm.privacy.profile import GaussianProfile


def gaussian_steps_epsilon(sensitivity: float, scale: float, steps: int, delta: float) -> float:
    """Exact epsilon at ``delta`` of ``steps`` Gaussian releases of the same sensitivity and scale."""
    if not (sensitivity > 0 and scale > 0 and steps >= 1):
        raise InvalidInput("sensitivity and scale must be above 0 and steps at least 1.")
    return GaussianProfile.gaussian(sensitivity * math.sqrt(steps) / scale).epsilon(delta)


def yu_gd_noise(gradient_bound: float, n_rows: int, steps: int, budget: Budget) -> float:
    r"""Yu et al. (2020), gradient descent: :math:`2\sqrt2 R \sqrt{T \ln(1/\delta)} / (n\varepsilon)`.

    Noise on the mean gradient, replace-one (sensitivity 2R/n). Private only below about epsilon = 8.9 at
    delta = 1e-8.
    """
    return 2 * math.sqrt(2) * gradient_bound * _root(steps, budget) / (n_rows * budget.epsilon)


def bassily_sgd_noise(gradient_bound: float, n_rows: int, budget: Budget, constant: float = 32.0) -> float:
    r"""Bassily, Smith and Thakurta (2014), n**2 steps on single rows.

    :math:`R \sqrt{c^2 \ln(n/\delta) \ln(1/\delta)} / \varepsilon` on the gradient of one row. The paper
    multiplies gradient and noise by n, which changes nothing. ``constant`` is its c^2.
    """
    log_terms = math.log(n_rows / budget.delta) * -math.log(budget.delta)
    return gradient_bound * math.sqrt(constant * log_terms) / budget.epsilon


def mangold_cd_noise(coordinate_bound: float, n_rows: int, steps: int, budget: Budget) -> float:
    r"""Mangold et al. (2022), coordinate descent: :math:`R_j \sqrt{12\, T \ln(1/\delta)} / (n\varepsilon)`.

    Noise on one coordinate of the mean gradient; ``steps`` counts all coordinate updates.

    Raises
    ------
    NotCertified
        If epsilon is above 1, outside the paper's theorem.
    """
    if budget.epsilon > 1:
        raise NotCertified(
            f"The printed scale is for epsilon up to 1; got {budget.epsilon:g}. Use accounting='tight'."
        )
    return math.sqrt(12) * coordinate_bound * _root(steps, budget) / (n_rows * budget.epsilon)


def _root(steps: int, budget: Budget) -> float:
    if steps < 1 or budget.delta == 0:
        raise InvalidInput(f"steps must be at least 1 and delta above 0; got {steps!r} and {budget.delta!r}.")
    return math.sqrt(-steps * math.log(budget.delta))
