"""Gaussian noise on Poisson samples, priced by the distribution of the privacy loss."""

import math

from scipy.special import ndtr

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget
from dperm.privacy.composition import Composition
from dperm.privacy.loss_distribution import REACH, fixed_size_step, gaussian_step, poisson_steps
from dperm.privacy.profile import GaussianProfile
from dperm.privacy.search import smallest_safe
from dperm.unit import Neighbours

SMALLEST_MULTIPLIER = 0.1


def poisson_epsilon(
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    delta: float,
    neighbours: Neighbours | str,
    mu_spent: float = 0.0,
) -> float:
    """Epsilon at ``delta`` of ``steps`` noisy sums, each over a fresh Poisson sample.

    Each row joins each sum on its own with ``sampling_probability`` and adds a vector of norm at most C;
    the noise scale is ``noise_multiplier * C`` under both relations. Replacing a row may therefore move a
    sum by 2 C. Gaussian releases over all rows with root-sum-square parameter ``mu_spent`` are paid too.

    Guarantee
    ---------
    An upper bound, floating-point error included, for any number of steps: losses are rounded up and what the
    Fourier transforms may have lost is added (docs/proofs/accounting.md, section 5). Samples of everything are
    plain Gaussian releases and priced exactly.

    Assumes
    -------
    Samples are independent across rows and steps and stay secret; the sums are divided by a public
    number, not by the size of the sample; empty samples are released too.

    Raises
    ------
    NotCertified
        If no finite epsilon can be proved.
    """
    losses = poisson_losses(noise_multiplier, sampling_probability, steps, neighbours, mu_spent)
    check_delta(delta, steps)
    return proved(losses.epsilon(delta), delta, steps)


def poisson_losses(
    noise_multiplier: float,
    sampling_probability: float,
    steps: int,
    neighbours: Neighbours | str,
    mu_spent: float = 0.0,
) -> Composition | GaussianProfile:
    """What ``poisson_epsilon`` prices: delta as a function of epsilon, and epsilon of delta."""
    neighbours = Neighbours.parse(neighbours)
    check_multiplier(noise_multiplier)
    if not 0 < sampling_probability <= 1:
        raise InvalidInput(f"sampling_probability must lie in (0, 1]; got {sampling_probability!r}.")
    steps = check_steps(steps)
    if sampling_probability == 1:
        return full_batches(neighbours.rows_changed / noise_multiplier, steps, mu_spent)
    mu = math.nextafter(1 / noise_multiplier, math.inf)
    replace = neighbours is Neighbours.REPLACE_ONE
    orders = poisson_steps(mu, sampling_probability, replace, steps, mu_spent)
    release = ((gaussian_step(mu_spent, orders[0].interval), 1),) if mu_spent > 0 else ()
    return Composition(tuple(((one, steps), *release) for one in orders))


def poisson_noise_multiplier(
    sampling_probability: float,
    steps: int,
    budget: Budget,
    neighbours: Neighbours | str,
    mu_spent: float = 0.0,
    tolerance: float = 1e-6,
) -> float:
    """Smallest noise multiplier from 0.1 up, rounded up, at which ``poisson_epsilon`` meets the budget."""
    budget.check_gaussian()
    check_delta(budget.delta, check_steps(steps))

    def excess(noise_multiplier: float) -> float:
        losses = poisson_losses(noise_multiplier, sampling_probability, steps, neighbours, mu_spent)
        return losses.epsilon(budget.delta) - budget.epsilon

    start = max(0.5, sampling_probability * math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon)
    return smallest_safe(excess, start, tolerance=tolerance, lowest=SMALLEST_MULTIPLIER)


def full_batches(mu: float, steps: int, mu_spent: float) -> GaussianProfile:
    """Samples of everything: Gaussian releases of parameter ``mu`` each, and one of parameter ``mu_spent``."""
    return GaussianProfile.gaussian(mu * math.sqrt(steps) * (1 + 2**-50)).compose_gaussian(mu_spent)


def check_multiplier(noise_multiplier: float) -> None:
    if not SMALLEST_MULTIPLIER <= noise_multiplier < math.inf:
        raise InvalidInput(
            f"noise_multiplier must be a finite number of at least {SMALLEST_MULTIPLIER:g}; got "
            f"{noise_multiplier!r}. With less noise there is hardly any privacy."
        )


def check_steps(steps: int) -> int:
    if isinstance(steps, bool) or steps != int(steps) or steps < 1:
        raise InvalidInput(f"steps must be a whole number of at least 1; got {steps!r}.")
    return int(steps)


def check_delta(delta: float, steps: int) -> None:
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}.")
    smallest = 2 * steps * float(ndtr(-REACH))  # the tails of all steps count as unbounded losses
    if delta < smallest:
        raise NotCertified(
            f"{steps} sampled steps are priced for delta of at least {smallest:.2g}; got {delta:g}. Use a larger "
            "delta, fewer steps or full batches."
        )


def proved(epsilon: float, delta: float, steps: int) -> float:
    if math.isinf(epsilon):
        raise NotCertified(
            f"No finite epsilon can be proved in floating point for {steps} sampled steps at delta = {delta:g}. Use "
            "more noise, a larger delta, fewer steps or full batches."
        )
    return epsilon


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
