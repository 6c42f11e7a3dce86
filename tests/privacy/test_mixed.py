import math

import pytest

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import Budget, GaussianProfile, poisson_epsilon
from dperm.privacy.subsampled import compose_gaussian_and_poisson, poisson_noise_beside_gaussian
from dperm.unit import Neighbours

RELATIONS = [(relation, relation.rows_changed) for relation in Neighbours]


@pytest.mark.parametrize(("relation", "distance"), RELATIONS)
def test_samples_of_everything_compose_like_gaussians(relation, distance):
    together = compose_gaussian_and_poisson(0.1, 20.0, 1.0, 50, 1e-8, relation)
    mu = math.hypot(0.1, math.sqrt(50) * distance / 20)
    exact = GaussianProfile.gaussian(mu).epsilon(1e-8)
    assert exact * (1 - 1e-9) <= together <= exact * (1 + 1e-4)


@pytest.mark.parametrize(("relation", "distance"), RELATIONS)
def test_costs_more_than_either_part_and_less_than_their_sum(relation, distance):
    mu, delta = 0.2, 1e-6
    samples = poisson_epsilon(2.0 * distance, 0.02, 60, delta, relation)
    release = GaussianProfile.gaussian(mu).epsilon(delta)
    together = compose_gaussian_and_poisson(mu, 2.0 * distance, 0.02, 60, delta, relation)
    assert max(samples, release) < together < samples + release
    assert compose_gaussian_and_poisson(0.0, 2.0 * distance, 0.02, 60, delta, relation) == samples
    assert compose_gaussian_and_poisson(0.21, 2.0 * distance, 0.02, 60, delta, relation) > together


def test_a_gaussian_release_of_the_wrong_relation_would_be_noticed():
    """The control: half the parameter, as if the release moved by C and not by 2C, costs visibly less."""
    right = compose_gaussian_and_poisson(0.4, 4.0, 0.02, 60, 1e-6, "replace-one")
    wrong = compose_gaussian_and_poisson(0.2, 4.0, 0.02, 60, 1e-6, "replace-one")
    assert wrong < 0.7 * right


def test_calibration_ends_on_the_private_side():
    budget = Budget(0.5, 1e-6)
    multiplier = poisson_noise_beside_gaussian(0.05, 0.2, 30, budget, "add-remove")
    assert compose_gaussian_and_poisson(0.05, multiplier, 0.2, 30, 1e-6, "add-remove") <= 0.5
    assert compose_gaussian_and_poisson(0.05, 0.999 * multiplier, 0.2, 30, 1e-6, "add-remove") > 0.5


def test_nothing_left_for_the_samples():
    with pytest.raises(NotCertified, match="alone"):
        poisson_noise_beside_gaussian(1.0, 0.05, 10, Budget(1, 1e-6), "add-remove")


@pytest.mark.together
@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((-0.1, 1.0, 0.1, 10, 1e-6, "add-remove"), InvalidInput, "mu"),
        ((math.inf, 1.0, 0.1, 10, 1e-6, "add-remove"), InvalidInput, "mu"),
        ((0.1, 0.0, 0.1, 10, 1e-6, "add-remove"), InvalidInput, "noise_multiplier"),
        ((0.1, 1.0, 1.5, 10, 1e-6, "add-remove"), InvalidInput, "sampling_probability"),
        ((0.1, 1.0, 0.1, 0, 1e-6, "add-remove"), InvalidInput, "steps"),
        ((0.1, 1.0, 0.1, 10**6, 1e-18, "add-remove"), NotCertified, "at least 1.5e-17"),
        ((0.1, 1.0, 0.1, 10, 1e-6, "swap"), InvalidInput, "neighbours"),
    ],
)
def test_refusals(arguments, error, message):
    with pytest.raises(error, match=message):
        compose_gaussian_and_poisson(*arguments)
