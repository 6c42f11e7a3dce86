"""Noise scales as textbooks and papers print them, for comparison and to reproduce their runs.

None of the papers' scales is a guarantee by itself: check each with the exact price before use. docs/proofs/ says where
each falls short. The exact prices are ``gaussian_steps_epsilon`` for full batches and coordinates,
``fixed_size_epsilon`` for single rows.
"""

import math

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget
from dperm.privacy.profile import GaussianProfile


def classic_gaussian_scale(sensitivity: float, budget: Budget) -> float:
    """sensitivity * sqrt(2 ln(1.25/delta)) / epsilon (Dwork and Roth, 2014, Theorem 3.22).

    Noisier than ``calibrate`` wherever it is valid.

    Raises
    ------
    NotCertified
        If epsilon is above 1: the theorem does not cover it, and the formula stops being private at
        larger epsilon.
    """
    if not 0 < sensitivity < math.inf:
        raise InvalidInput(f"sensitivity must be a positive number; got {sensitivity!r}.")
    if budget.delta == 0:
        raise InvalidInput(
            "Gaussian noise needs delta > 0; got delta = 0. Choose a small delta, for example 1e-8."
        )
    if budget.epsilon > 1:
        raise NotCertified(
            f"The classic Gaussian formula is proved for epsilon up to 1; got {budget.epsilon:g}. Use "
            "accounting='tight', which holds for every epsilon and adds less noise."
        )
    return sensitivity * math.sqrt(2 * math.log(1.25 / budget.delta)) / budget.epsilon


def amplified(budget: Budget, sampling_rate: float) -> Budget:
    """What an (epsilon, delta) mechanism costs when it sees a secret random sample (Balle et al., 2018).

    (log(1 + q (exp(epsilon) - 1)), q delta), for sampling without replacement under replace-one and for
    Poisson sampling under add/remove.
    """
    if not 0 < sampling_rate <= 1:
        raise InvalidInput(f"sampling_rate must lie in (0, 1]; got {sampling_rate!r}.")
    return Budget(math.log1p(sampling_rate * math.expm1(budget.epsilon)), sampling_rate * budget.delta)


def advanced_composition(one_step: Budget, steps: int, slack: float) -> Budget:
    """What ``steps`` adaptive mechanisms cost together (Dwork, Rothblum and Vadhan, 2010)."""
    if steps < 1 or not 0 < slack < 1:
        raise InvalidInput(f"steps must be at least 1 and slack in (0, 1); got {steps!r} and {slack!r}.")
    epsilon = one_step.epsilon
    return Budget(
        epsilon * math.sqrt(-2 * steps * math.log(slack)) + steps * epsilon * math.expm1(epsilon),
        steps * one_step.delta + slack,
    )


def advanced_sgd_noise(gradient_bound: float, n_rows: int, steps: int, budget: Budget) -> float:
    r"""Noise on the gradient of one uniformly drawn row per step, as derived in lectures.

    :math:`\sigma = 16 R \sqrt{T \ln(2/\delta) \ln(2.5\, T / (\delta n))} / (n \varepsilon)`: the classic
    Gaussian mechanism at (epsilon', delta'), amplified by 1/n, composed T times. Replace-one.

    Guarantee
    ---------
    (epsilon, delta)-DP of all steps together. ``fixed_size_epsilon`` gives the true, smaller, cost.

    Raises
    ------
    NotCertified
        If :math:`\varepsilon' = n \varepsilon / (4 \sqrt{2 T \ln(2/\delta)}) > 1`, that is, if T is below
        :math:`n^2 \varepsilon^2 / (32 \ln(2/\delta))`, a condition usually left unsaid; or if epsilon is
        so large that the second-order term of the composition does not fit.
    """
    if not 0 < gradient_bound < math.inf or n_rows < 1 or steps < 1:
        raise InvalidInput(
            "gradient_bound must be a positive number and n_rows and steps at least 1; got "
            f"{gradient_bound!r}, {n_rows!r} and {steps!r}."
        )
    if budget.delta == 0:
        raise InvalidInput(
            "advanced composition needs delta > 0; got 0. Choose a small delta, for example 1e-8."
        )
    log_term = math.log(2 / budget.delta)
    one_step_epsilon = n_rows * budget.epsilon / (4 * math.sqrt(2 * steps * log_term))
    if one_step_epsilon > 1:
        least = math.ceil(n_rows**2 * budget.epsilon**2 / (32 * log_term))
        raise NotCertified(
            "The theorem needs a cost per step of at most 1 before amplification, which takes at least "
            f"{least} steps for {n_rows} rows, epsilon = {budget.epsilon:g} and delta = {budget.delta:g}; "
            f"got {steps} steps and a cost of {one_step_epsilon:.3g}. Use accounting='tight'."
        )
    one_step = Budget(one_step_epsilon, n_rows * budget.delta / (2 * steps))
    total = advanced_composition(amplified(one_step, 1 / n_rows), steps, budget.delta / 2)
    if total.epsilon > budget.epsilon * (1 + 1e-12) or total.delta > budget.delta * (1 + 1e-12):
        raise NotCertified(
            f"Advanced composition reaches ({total.epsilon:g}, {total.delta:g}), above the budget "
            f"({budget.epsilon:g}, {budget.delta:g}). Use accounting='tight' or a smaller epsilon."
        )
    return classic_gaussian_scale(2 * gradient_bound, one_step)


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
