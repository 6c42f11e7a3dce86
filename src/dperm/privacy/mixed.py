"""Full-batch Gaussian releases and noisy Poisson samples in one budget."""

import math

from dperm.errors import InvalidInput, NotCertified
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.search import smallest_safe
from dperm.privacy.subsampled import SMALLEST_MULTIPLIER, _check_delta, poisson_epsilon


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
    As ``poisson_epsilon``: the distributions of the privacy loss are convolved, with losses rounded up.
    """
    neighbours = Neighbours.parse(neighbours)
    if not 0 <= mu < math.inf:
        raise InvalidInput(f"mu must be a finite number of at least 0; got {mu!r}.")
    if mu == 0:
        return poisson_epsilon(noise_multiplier, sampling_probability, steps, delta, neighbours)
    if not (noise_multiplier >= SMALLEST_MULTIPLIER and 0 < sampling_probability <= 1 and steps >= 1):
        raise InvalidInput(
            f"noise_multiplier must be at least {SMALLEST_MULTIPLIER:g}, sampling_probability in (0, 1] and "
            f"steps at least 1; got {noise_multiplier!r}, {sampling_probability!r} and {steps!r}."
        )
    _check_delta(delta)

    from dp_accounting import NeighboringRelation
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    replace = neighbours is Neighbours.REPLACE_ONE
    relation = NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE
    interval = max(min(1e-4, 0.02 * sampling_probability / noise_multiplier), 1e-4 / noise_multiplier**2)
    # Under replace-one the accountant takes a sum to move by twice its unit of sensitivity.
    full = from_gaussian_mechanism(
        neighbours.rows_changed / mu, neighboring_relation=relation, value_discretization_interval=interval
    )
    sampled = from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_probability,
        neighboring_relation=relation,
        value_discretization_interval=interval,
    )
    return float(full.compose(sampled.self_compose(int(steps))).get_epsilon_for_delta(delta))


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

    def excess(noise_multiplier: float) -> float:
        reached = compose_gaussian_and_poisson(
            mu, noise_multiplier, sampling_probability, steps, budget.delta, neighbours
        )
        return reached - budget.epsilon

    full_batch = math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon
    start = max(1.0, 2 * sampling_probability * full_batch)
    return smallest_safe(excess, start, tolerance=1e-4, lowest=SMALLEST_MULTIPLIER)
