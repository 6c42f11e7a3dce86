import math

import pytest

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Budget, gaussian_mu, poisson_epsilon, poisson_noise_multiplier
from dperm.unit import Neighbours

RATE = 0.1


@pytest.mark.together
@pytest.mark.parametrize(
    ("epsilon", "steps", "full_batch", "sampled"),
    [(0.1, 50, 324.8, 327.8), (0.5, 50, 69.7, 73.1), (1, 200, 72.13, 73.99)],
)
def test_noise_on_the_mean_gradient_when_rows_come_and_go(epsilon, steps, full_batch, sampled):
    budget = Budget(epsilon, 1e-8)
    multiplier = poisson_noise_multiplier(RATE, steps, budget, Neighbours.ADD_REMOVE)
    assert math.sqrt(steps) / gaussian_mu(budget) == pytest.approx(full_batch, rel=1e-3)
    assert multiplier / RATE == pytest.approx(sampled, rel=1e-3)
    assert poisson_epsilon(multiplier, RATE, steps, 1e-8, "add-remove") <= epsilon
    assert poisson_epsilon(0.999 * multiplier, RATE, steps, 1e-8, "add-remove") > epsilon


def test_replacing_a_row_costs_the_same_as_a_full_batch():
    budget = Budget(0.1, 1e-8)
    multiplier = poisson_noise_multiplier(RATE, 50, budget, Neighbours.REPLACE_ONE)
    assert multiplier / RATE / (2 * math.sqrt(50) / gaussian_mu(budget)) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(("neighbours", "distance"), [("add-remove", 1), ("replace-one", 2)])
def test_sampling_everything_is_the_exact_gaussian(neighbours, distance):
    multiplier = distance * math.sqrt(20) / gaussian_mu(Budget(1, 1e-8))
    assert poisson_epsilon(multiplier, 1.0, 20, 1e-8, neighbours) == pytest.approx(1, rel=1e-3)


def test_laws():
    base = poisson_epsilon(2.0, 0.05, 20, 1e-6, "add-remove")
    assert poisson_epsilon(2.5, 0.05, 20, 1e-6, "add-remove") < base
    assert poisson_epsilon(2.0, 0.06, 20, 1e-6, "add-remove") > base
    assert poisson_epsilon(2.0, 0.05, 25, 1e-6, "add-remove") > base
    assert poisson_epsilon(2.0, 0.05, 20, 1e-7, "add-remove") > base
    assert poisson_epsilon(2.0, 0.05, 20, 1e-6, "replace-one") > base


def test_hardly_any_noise_is_needed_when_hardly_anyone_is_sampled():
    assert poisson_noise_multiplier(1e-4, 10, Budget(40, 1e-3), "add-remove") == 0.1


@pytest.mark.together
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((0.0, 0.1, 10, 1e-8, "add-remove"), InvalidInput, "noise_multiplier"),
        ((0.05, 0.1, 10, 1e-8, "add-remove"), InvalidInput, "noise_multiplier"),
        ((1.0, 0.0, 10, 1e-8, "add-remove"), InvalidInput, "sampling_probability"),
        ((1.0, 1.1, 10, 1e-8, "add-remove"), InvalidInput, "sampling_probability"),
        ((1.0, 0.1, 0, 1e-8, "add-remove"), InvalidInput, "steps"),
        ((1.0, 0.1, 2.5, 1e-8, "add-remove"), InvalidInput, "steps"),
        ((1.0, 0.1, 10, 0.0, "add-remove"), InvalidInput, "delta"),
        ((1.0, 0.1, 10**6, 1e-18, "add-remove"), NotCertified, "at least 1.5e-17"),
        ((0.1, 0.999, 10**9, 1e-6, "add-remove"), NotCertified, "more noise"),
        ((1.0, 0.1, 10, 1e-8, "swap"), InvalidInput, "neighbours"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        poisson_epsilon(*arguments)


def test_the_calibration_refuses_too():
    with pytest.raises(NotCertified, match="fewer steps"):
        poisson_noise_multiplier(0.1, 10**9, Budget(1, 1e-15), "add-remove")
    with pytest.raises(InvalidInput, match="epsilon"):
        poisson_noise_multiplier(0.1, 10, Budget(100, 1e-8), "add-remove")
