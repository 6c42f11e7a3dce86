"""Full-batch Gaussian releases and noisy Poisson samples in one budget."""

import math

from dperm.errors import InvalidInput, NotCertified
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.subsampled import poisson_epsilon, poisson_noise_multiplier


def compose_gaussian_and_poisson(
    mu: float,
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    delta: float,
    neighbours: Neighbours | str,
) -> float:
    """Epsilon at ``delta`` of Gaussian releases with root-sum-square ``mu`` and ``steps`` Poisson samples.

    The releases may come in any order and each may depend on all earlier ones. The samples are as in
    ``poisson_epsilon``: rows add vectors of norm at most C, where C may be chosen step by step from
    earlier releases, and the noise scale is ``noise_multiplier * C``.

    Guarantee
    ---------
    As ``poisson_epsilon``.
    """
    if not 0 <= mu < math.inf:
        raise InvalidInput(f"mu must be a finite number of at least 0; got {mu!r}.")
    return poisson_epsilon(noise_multiplier, sampling_probability, steps, delta, neighbours, mu)


def poisson_noise_beside_gaussian(
    mu: float, sampling_probability: float, steps: int, budget: Budget, neighbours: Neighbours | str
) -> float:
    """Smallest noise multiplier from 0.1 up at which ``compose_gaussian_and_poisson`` meets the budget.

    Raises
    ------
    NotCertified
        If the Gaussian releases alone exceed the budget.
    """
    budget.check_gaussian()
    alone = GaussianProfile.gaussian(mu).epsilon(budget.delta)
    if alone >= budget.epsilon:
        raise NotCertified(
            f"The Gaussian releases alone cost epsilon = {alone:.4g} at delta = {budget.delta:g}; nothing of "
            f"{budget.epsilon:g} is left for the samples. Give them a smaller mu."
        )
    return poisson_noise_multiplier(sampling_probability, steps, budget, neighbours, mu, tolerance=1e-4)
