"""Gaussian noise on samples of a fixed size, drawn without replacement."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.budget import Budget
from dperm.privacy.search import smallest_safe
from dperm.privacy.subsampled import SMALLEST_DELTA, SMALLEST_MULTIPLIER

FloatArray = NDArray[np.float64]

_TAIL = 9.0  # standard deviations; what lies beyond, 1e-19, counts as an unbounded loss
_LARGEST_GRID = 500_000


def fixed_size_epsilon(
    noise_multiplier: float, batch_size: int, n_rows: int, steps: int, delta: float, beside: float = 0.0
) -> float:
    """Epsilon at ``delta`` of ``steps`` noisy sums, each over a fresh sample of ``batch_size`` rows.

    Rows add vectors of norm at most C and the noise scale is ``noise_multiplier * C``. The relation is
    replace-one. One uniformly drawn row per step is the case ``batch_size=1``. A Gaussian release over all
    rows with parameter ``beside`` is paid too.

    Guarantee
    ---------
    An upper bound up to the rounding error of the Fourier transforms that compose the steps; deltas near that
    error are refused. One step is bounded by its exact profile, q times that of the full Gaussian at
    log(1 + (exp(epsilon) - 1) / q), in both directions; the proof is in docs/proofs/dp-sgd.md.

    Assumes
    -------
    Samples are uniform, independent across steps, without repetition inside a step, and secret.
    """
    _check_delta(delta)
    losses = fixed_size_losses(noise_multiplier, batch_size, n_rows, steps, beside)
    return float(losses.get_epsilon_for_delta(delta))


def fixed_size_losses(
    noise_multiplier: float, batch_size: int, n_rows: int, steps: int, beside: float = 0.0
) -> Any:
    """The privacy-loss distribution behind ``fixed_size_epsilon``."""
    _check(noise_multiplier, batch_size, n_rows, steps)
    mu, q = 2 / noise_multiplier, batch_size / n_rows
    one_step, interval = _loss_distribution(mu, q)
    total = one_step.self_compose(int(steps))
    if beside > 0:
        from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

        total = total.compose(from_gaussian_mechanism(1 / beside, value_discretization_interval=interval))
    return total


def fixed_size_noise_multiplier(
    batch_size: int, n_rows: int, steps: int, budget: Budget, beside: float = 0.0
) -> float:
    """Smallest noise multiplier from 0.1 up, rounded up, at which ``fixed_size_epsilon`` meets the budget."""
    budget.check_gaussian()
    _check_delta(budget.delta)

    def excess(noise_multiplier: float) -> float:
        reached = fixed_size_epsilon(noise_multiplier, batch_size, n_rows, steps, budget.delta, beside)
        return reached - budget.epsilon

    full_batch = 2 * math.sqrt(-2 * steps * math.log(budget.delta)) / budget.epsilon
    start = max(1.0, batch_size / n_rows * full_batch)
    return smallest_safe(excess, start, tolerance=1e-4, lowest=SMALLEST_MULTIPLIER)


def fixed_size_epsilon_rdp(
    noise_multiplier: float, batch_size: int, n_rows: int, steps: int, delta: float
) -> float:
    """The same by the Renyi accountant of dp-accounting (Wang, Balle and Kasiviswanathan, 2019).

    About twice as large; a second opinion that shares no code with ``fixed_size_epsilon``.
    """
    _check(noise_multiplier, batch_size, n_rows, steps)
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    # The event counts noise in units of the sensitivity, which is 2 C.
    one_step = SampledWithoutReplacementDpEvent(n_rows, batch_size, GaussianDpEvent(noise_multiplier / 2))
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    return float(accountant.compose(one_step, steps).get_epsilon(delta))


def _loss_distribution(mu: float, q: float) -> tuple[Any, float]:
    """Discrete privacy loss of one step, at least as bad as the true one in both directions, and its grid.

    Positive losses come from (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1). Between two grid points the mass
    moves to the ends so that the mass under either distribution stays what it was ("connect the dots"), which
    makes every test easier. A loss of -t has exp(-t) times the mass of t, because the bound is the same
    in both directions; what is left has no loss.
    """
    from dp_accounting.pld.privacy_loss_distribution import PrivacyLossDistribution

    # log(1 + q (exp(u) - 1)) for the largest log-ratio u of the full batch
    largest = mu * (mu + _TAIL) - mu * mu / 2
    top = largest + math.log(q) + math.log1p((1 - q) / q * math.exp(-largest))
    step = max(min(1e-4, 0.02 * q * mu), top / _LARGEST_GRID)
    size = math.ceil(top / step)
    loss = np.arange(size + 1, dtype=np.float64) * step
    x = _log_ratio(loss, q) / mu + mu / 2
    lower_tail, shifted_tail = ndtr(-x), ndtr(mu - x)
    upper_tail = (1 - q) * lower_tail + q * shifted_tail
    mass, other_mass = -np.diff(upper_tail), -np.diff(lower_tail)
    to_upper_end = np.clip((mass - other_mass * np.exp(loss[:-1])) / -math.expm1(-step), 0, mass)
    positive = to_upper_end.copy()
    positive[:-1] += (mass - to_upper_end)[1:]
    negative = positive * np.exp(-loss[1:])
    unbounded = float(upper_tail[-1])
    none = max(1 - unbounded - float(positive.sum() + negative.sum()), 0.0)
    index = range(1, size + 1)
    masses = {0: none, **dict(zip(index, positive.tolist(), strict=True))}
    masses |= {-i: p for i, p in zip(index, negative.tolist(), strict=True)}
    return PrivacyLossDistribution.create_from_rounded_probability(masses, unbounded, step), step


def _log_ratio(loss: FloatArray, q: float) -> FloatArray:
    """log(1 + (exp(loss) - 1) / q) without overflow."""
    return np.asarray(loss - math.log(q) + np.log1p(-(1 - q) * np.exp(-loss)))


def _check(noise_multiplier: float, batch_size: int, n_rows: int, steps: int) -> None:
    if not SMALLEST_MULTIPLIER <= noise_multiplier < math.inf:
        raise InvalidInput(
            f"noise_multiplier must be a finite number of at least {SMALLEST_MULTIPLIER:g}; got "
            f"{noise_multiplier!r}."
        )
    if not 1 <= batch_size <= n_rows:
        raise InvalidInput(f"batch_size must lie between 1 and n_rows = {n_rows}; got {batch_size!r}.")
    if isinstance(steps, bool) or steps != int(steps) or steps < 1:
        raise InvalidInput(f"steps must be a whole number of at least 1; got {steps!r}.")


def _check_delta(delta: float) -> None:
    if not 0 < delta < 1:
        raise InvalidInput(f"delta must lie strictly between 0 and 1; got {delta!r}.")
    if delta < SMALLEST_DELTA:
        raise NotCertified(
            f"Sampling is priced for delta of at least {SMALLEST_DELTA:g}, since the accountant works in "
            f"floating point; got {delta:g}. Use a larger delta or full batches."
        )
