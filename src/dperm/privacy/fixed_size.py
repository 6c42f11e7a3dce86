"""Gaussian noise on samples of a fixed size, drawn without replacement."""

import math

from dperm.errors import InvalidInput
from dperm.privacy.budget import Budget
from dperm.privacy.composition import Composition
from dperm.privacy.one_step import fixed_size_step, gaussian_step
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.search import smallest_safe
from dperm.privacy.subsampled import (
    SMALLEST_MULTIPLIER,
    check_delta,
    check_multiplier,
    check_steps,
    full_batches,
    proved,
)


def fixed_size_epsilon(
    noise_multiplier: float, batch_size: int, n_rows: int, steps: int, delta: float, mu_spent: float = 0.0
) -> float:
    """Epsilon at ``delta`` of ``steps`` noisy sums, each over a fresh sample of ``batch_size`` rows.

    Rows add vectors of norm at most C and the noise scale is ``noise_multiplier * C``. The relation is
    replace-one. One uniformly drawn row per step is the case ``batch_size=1``. A Gaussian release over all
    rows with parameter ``mu_spent`` is paid too.

    Guarantee
    ---------
    An upper bound, floating-point error included, for any number of steps (docs/proofs/accounting.md, section 5).
    One step is bounded by its exact profile, q times that of the full Gaussian at
    log(1 + (exp(epsilon) - 1) / q), in both directions; the proof is in docs/proofs/dp-sgd.md. Samples of everything
    are plain Gaussian releases and priced exactly.

    Assumes
    -------
    Samples are uniform, independent across steps, without repetition inside a step, and secret.

    Raises
    ------
    NotCertified
        If no finite epsilon can be proved.
    """
    losses = fixed_size_losses(noise_multiplier, batch_size, n_rows, steps, mu_spent)
    check_delta(delta, steps)
    return proved(losses.epsilon(delta), delta, steps)


def fixed_size_losses(
    noise_multiplier: float, batch_size: int, n_rows: int, steps: int, mu_spent: float = 0.0
) -> Composition | GaussianProfile:
    """What ``fixed_size_epsilon`` prices: delta as a function of epsilon, and epsilon of delta."""
    _check(noise_multiplier, batch_size, n_rows, steps)
    mu, rate = math.nextafter(2 / noise_multiplier, math.inf), math.nextafter(batch_size / n_rows, 1.0)
    if rate == 1:
        return full_batches(mu, steps, mu_spent)
    one = fixed_size_step(mu, rate, int(steps), mu_spent)
    release = ((gaussian_step(mu_spent, one.interval), 1),) if mu_spent > 0 else ()
    return Composition((((one, int(steps)), *release),))


def fixed_size_noise_multiplier(
    batch_size: int, n_rows: int, steps: int, budget: Budget, mu_spent: float = 0.0
) -> float:
    """Smallest noise multiplier from 0.1 up, rounded up, at which ``fixed_size_epsilon`` meets the budget."""
    budget.check_gaussian()
    check_delta(budget.delta, check_steps(steps))

    def excess(noise_multiplier: float) -> float:
        losses = fixed_size_losses(noise_multiplier, batch_size, n_rows, steps, mu_spent)
        return losses.epsilon(budget.delta) - budget.epsilon

    full_batch = 2 * math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon
    start = max(1.0, batch_size / n_rows * full_batch)
    return smallest_safe(excess, start, tolerance=1e-4, lowest=SMALLEST_MULTIPLIER)


def _check(noise_multiplier: float, batch_size: int, n_rows: int, steps: int) -> None:
    check_multiplier(noise_multiplier)
    if not 1 <= batch_size <= n_rows:
        raise InvalidInput(f"batch_size must lie between 1 and n_rows = {n_rows}; got {batch_size!r}.")
    check_steps(steps)
