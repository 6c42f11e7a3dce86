"""Gaussian noise on Poisson samples, priced by the privacy-loss distributions of dp-accounting."""

import math
from typing import Any

from dperm.errors import InvalidInput, NotCertified
from dperm.neighbours import Neighbours
from dperm.privacy.budget import Budget
from dperm.privacy.search import smallest_safe

# The accountant convolves with floating-point Fourier transforms, whose error is about 1e-15 in delta.
SMALLEST_DELTA = 1e-12
SMALLEST_MULTIPLIER = 0.1


def poisson_epsilon(
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    delta: float,
    neighbours: Neighbours | str,
) -> float:
    """Epsilon at ``delta`` of ``steps`` noisy sums, each over a fresh Poisson sample.

    Each row joins each sum on its own with ``sampling_probability`` and adds a vector of norm at most C;
    the noise scale is ``noise_multiplier * C`` under both relations. Replacing a row may therefore move a
    sum by 2 C.

    Guarantee
    ---------
    The accountant rounds losses up, so the answer is an upper bound up to the rounding error of its
    Fourier transforms; deltas near that error are refused.

    Assumes
    -------
    Samples are independent across rows and steps and stay secret; the sums are divided by a public
    number, not by the size of the sample; empty samples are released too.
    """
    _check_delta(delta)
    losses = poisson_losses(noise_multiplier, sampling_probability, steps, neighbours)
    return float(losses.get_epsilon_for_delta(delta))


def poisson_losses(
    noise_multiplier: float, sampling_probability: float, steps: int, neighbours: Neighbours | str
) -> Any:
    """The privacy-loss distribution behind ``poisson_epsilon``."""
    neighbours = Neighbours.parse(neighbours)
    if not SMALLEST_MULTIPLIER <= noise_multiplier < math.inf:
        raise InvalidInput(
            f"noise_multiplier must be a finite number of at least {SMALLEST_MULTIPLIER:g}; got "
            f"{noise_multiplier!r}. With less noise there is hardly any privacy."
        )
    if not 0 < sampling_probability <= 1:
        raise InvalidInput(f"sampling_probability must lie in (0, 1]; got {sampling_probability!r}.")
    if isinstance(steps, bool) or steps != int(steps) or steps < 1:
        raise InvalidInput(f"steps must be a whole number of at least 1; got {steps!r}.")

    from dp_accounting import NeighboringRelation
    from dp_accounting.pld import privacy_loss_distribution

    # Fine enough for the loss of one step, coarse enough for its whole range to fit in memory.
    interval = max(min(1e-4, 0.02 * sampling_probability / noise_multiplier), 1e-4 / noise_multiplier**2)
    loss = privacy_loss_distribution.from_gaussian_mechanism(
        noise_multiplier,
        sampling_prob=sampling_probability,
        neighboring_relation=(
            NeighboringRelation.REPLACE_ONE
            if neighbours is Neighbours.REPLACE_ONE
            else NeighboringRelation.ADD_OR_REMOVE_ONE
        ),
        value_discretization_interval=interval,
    )
    return loss.self_compose(int(steps))


def poisson_noise_multiplier(
    sampling_probability: float, steps: int, budget: Budget, neighbours: Neighbours | str
) -> float:
    """Smallest noise multiplier from 0.1 up, rounded up, at which ``poisson_epsilon`` meets the budget."""
    budget.check_gaussian()
    _check_delta(budget.delta)

    def excess(noise_multiplier: float) -> float:
        reached = poisson_epsilon(noise_multiplier, sampling_probability, steps, budget.delta, neighbours)
        return reached - budget.epsilon

    start = max(0.5, sampling_probability * math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon)
    return smallest_safe(excess, start, tolerance=1e-6, lowest=SMALLEST_MULTIPLIER)


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}.")
    if delta < SMALLEST_DELTA:
        raise NotCertified(
            f"Poisson sampling is priced for delta of at least {SMALLEST_DELTA:g}, since the accountant "
            f"works in floating point; got {delta:g}. Use a larger delta or full batches."
        )
