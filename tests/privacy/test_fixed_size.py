import itertools
import math

import numpy as np
import pytest

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Budget, GaussianProfile, gaussian_mu, poisson_epsilon
from dperm.privacy.subsampled import fixed_size_epsilon, fixed_size_noise_multiplier

GRID = np.linspace(-14, 14, 28_001)


def one_step(rows, batch_size, noise):
    """Density of one noisy sum over a uniformly random sample without replacement, in one dimension."""
    sums = [sum(sample) for sample in itertools.combinations(rows, batch_size)]
    return np.mean([np.exp(-(((GRID - s) / noise) ** 2) / 2) for s in sums], axis=0) / (
        noise * math.sqrt(2 * math.pi)
    )


def hockey_stick(p, q, epsilon):
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum() * (GRID[1] - GRID[0]))


def profile(noise_multiplier, rate, epsilon):
    """The bound of one step: q delta_mu(log(1 + (e^eps - 1) / q)) with mu = 2 / noise_multiplier."""
    full = GaussianProfile.gaussian(2 / noise_multiplier)
    return rate * full.delta(math.log1p(math.expm1(epsilon) / rate))


@pytest.mark.together
@pytest.mark.parametrize(("n_rows", "batch_size"), [(5, 1), (5, 2), (6, 4), (3, 3)])
def test_one_step_never_exceeds_the_bound_and_can_attain_it(n_rows, batch_size):
    rng = np.random.default_rng(n_rows)
    noise = 1.3
    worst = 0.0
    others = [list(rng.uniform(-1, 1, n_rows - 1)) for _ in range(20)] + [[-1.0] * (n_rows - 1)]
    for rest in others:
        for own, replaced in ((1.0, -1.0), tuple(rng.uniform(-1, 1, 2)), (1.0, 0.0)):
            p, q = (one_step([*rest, row], batch_size, noise) for row in (own, replaced))
            for epsilon in (0.0, 0.2, 0.7):
                bound = profile(noise, batch_size / n_rows, epsilon)
                for exact in (hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon)):
                    assert exact <= bound * (1 + 1e-5) + 1e-12
                    worst = max(worst, exact / bound)
    assert worst > 0.9999


def test_the_poisson_price_is_too_low_for_samples_of_a_fixed_size():
    """The control: in the attained case the true cost exceeds the price of Poisson sampling."""
    p, q = (one_step([-1.0] * 4 + [row], 2, 1.3) for row in (1.0, -1.0))
    delta = 1e-3
    poisson = poisson_epsilon(1.3, 2 / 5, 1, delta, "replace-one")
    assert hockey_stick(p, q, poisson) > 1.05 * delta
    assert hockey_stick(p, q, fixed_size_epsilon(1.3, 2, 5, 1, delta)) <= delta * (1 + 1e-5)


@pytest.mark.parametrize("rate", [0.05, 0.5])
def test_one_step_by_composition_is_its_exact_profile(rate):
    n = 1000
    for delta in (1e-2, 1e-4, 1e-6):
        epsilon = fixed_size_epsilon(1.5, int(rate * n), n, 1, delta)
        assert profile(1.5, rate, epsilon) == pytest.approx(delta, rel=2e-3)


def renyi_epsilon(noise_multiplier, batch_size, n_rows, steps, delta):
    """By the accountant of dp-accounting (Wang, Balle and Kasiviswanathan, 2019), which shares no code with ours."""
    from dp_accounting import GaussianDpEvent, NeighboringRelation, SampledWithoutReplacementDpEvent
    from dp_accounting.rdp import RdpAccountant

    # The event counts noise in units of the sensitivity, which is 2 C.
    one_step = SampledWithoutReplacementDpEvent(n_rows, batch_size, GaussianDpEvent(noise_multiplier / 2))
    accountant = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_ONE)
    return accountant.compose(one_step, steps).get_epsilon(delta)


@pytest.mark.together
@pytest.mark.parametrize(
    ("batch_size", "n_rows", "steps", "noise"),
    [(100, 1000, 50, 8.0), (400, 40_000, 1000, 4.0), (1, 200, 40_000, 8.4)],
)
def test_between_the_attained_pair_and_the_renyi_accountant(batch_size, n_rows, steps, noise):
    """Others at -C, a row at C or -C is the add/remove pair with sensitivity 2C: it may not cost more."""
    attained = poisson_epsilon(noise / 2, batch_size / n_rows, steps, 1e-5, "add-remove")
    ours = fixed_size_epsilon(noise, batch_size, n_rows, steps, 1e-5)
    renyi = renyi_epsilon(noise, batch_size, n_rows, steps, 1e-5)
    assert attained < ours < renyi
    assert ours < 1.2 * attained
    assert renyi > 1.8 * ours


def test_the_whole_table_is_the_exact_gaussian():
    multiplier = 2 * math.sqrt(20) / gaussian_mu(Budget(1, 1e-8))
    assert fixed_size_epsilon(multiplier, 100, 100, 20, 1e-8) == pytest.approx(1, rel=1e-4)
    assert renyi_epsilon(multiplier, 100, 100, 20, 1e-8) > 1


def test_calibration_ends_on_the_private_side():
    budget = Budget(1, 1e-6)
    multiplier = fixed_size_noise_multiplier(50, 1000, 100, budget)
    assert fixed_size_epsilon(multiplier, 50, 1000, 100, 1e-6) <= 1
    assert fixed_size_epsilon(0.999 * multiplier, 50, 1000, 100, 1e-6) > 1


def test_laws():
    base = fixed_size_epsilon(4.0, 50, 1000, 20, 1e-6)
    assert fixed_size_epsilon(5.0, 50, 1000, 20, 1e-6) < base
    assert fixed_size_epsilon(4.0, 60, 1000, 20, 1e-6) > base
    assert fixed_size_epsilon(4.0, 50, 1100, 20, 1e-6) < base
    assert fixed_size_epsilon(4.0, 50, 1000, 25, 1e-6) > base
    assert fixed_size_epsilon(4.0, 50, 1000, 20, 1e-7) > base


@pytest.mark.together
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.05, 1, 10, 1, 1e-6), InvalidInput, "noise_multiplier"),
        ((1.0, 0, 10, 1, 1e-6), InvalidInput, "batch_size"),
        ((1.0, 11, 10, 1, 1e-6), InvalidInput, "batch_size"),
        ((1.0, 1, 10, 0, 1e-6), InvalidInput, "steps"),
        ((1.0, 1, 10, 1, 0.0), InvalidInput, "delta"),
        ((1.0, 1, 10, 10**6, 1e-18), NotCertified, "at least 1.5e-17"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        fixed_size_epsilon(*arguments)
