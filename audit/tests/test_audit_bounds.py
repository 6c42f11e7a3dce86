"""The bounds of the audit fail as seldom as they say, and cannot be made of raw counts."""

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms.objective.profile import CoupledProfile, objective_profile
from dperm.privacy import Budget, GaussianProfile, gaussian_mu
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.bounds import (
    ProfileFamily,
    direct_epsilon,
    gaussian_epsilon,
    gaussian_mu_at_least,
    lower_bounds,
    rate_at_least,
    rate_at_most,
    refutes,
    scaled,
)

THRESHOLDS = np.linspace(-4, 4, 33)


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("failure", [1e-6, 1e-3, 0.1])
@pytest.mark.parametrize(("hits", "runs"), [(0, 20), (1, 20), (7, 20), (20, 20), (480, 1000)])
def test_rates_are_the_exact_binomial_ones(hits: int, runs: int, failure: float) -> None:
    low, high = float(rate_at_least(hits, runs, failure)), float(rate_at_most(hits, runs, failure))
    assert 0 <= low <= hits / runs <= high <= 1
    if hits > 0:
        assert binom.sf(hits - 1, runs, low) == pytest.approx(failure, rel=1e-6)
    if hits < runs:
        assert binom.cdf(hits, runs, high) == pytest.approx(failure, rel=1e-6)


def exact_failure(bound, rate: float, runs: int) -> float:
    """Probability, summed over all outcomes, that a lower bound on a rate exceeds it."""
    hits = np.arange(runs + 1)
    return float(binom.pmf(hits, runs, rate)[bound(hits) > rate].sum())


@pytest.mark.together
@pytest.mark.parametrize("rate", [0.003, 0.1, 0.5, 0.97])
def test_coverage_is_as_stated_and_raw_counts_fail_it(rate: float) -> None:
    runs, failure = 400, 0.01
    assert exact_failure(lambda hits: rate_at_least(hits, runs, failure), rate, runs) <= failure
    mirrored = exact_failure(lambda hits: 1 - rate_at_most(runs - hits, runs, failure), rate, runs)
    assert mirrored <= failure
    assert exact_failure(lambda hits: hits / runs, rate, runs) > 10 * failure


def test_odd_counts_are_refused() -> None:
    for hits, runs, failure in ((-1, 10, 0.1), (11, 10, 0.1), (1, 0, 0.1), (1, 10, 0.0)):
        with pytest.raises(InvalidInput):
            rate_at_least(hits, runs, failure)


def test_direct_bound_is_attained_by_laplace_noise() -> None:
    """Means one apart, scale 1: beyond both means the densities differ by exactly e."""
    assert direct_epsilon(0.5, 0.5 / math.e, 0.0) == pytest.approx(1.0, rel=1e-5)
    assert direct_epsilon(0.5, 0.5 / math.e, 0.0) < 1.0
    assert direct_epsilon(0.3, 0.4, 0.0) == 0.0
    assert direct_epsilon(0.01, 0.001, 0.02) == 0.0


@pytest.mark.parametrize("delta", [1e-8, 1e-2])
def test_direct_bound_of_exact_gaussian_rates_reaches_epsilon_and_no_more(delta: float) -> None:
    mu = gaussian_mu(Budget(1.0, delta))
    fine = np.linspace(-8, 8, 20001)
    found = max(direct_epsilon(ndtr(mu - t), ndtr(-t), delta) for t in fine)
    assert 0.999 < found <= 1.0
    assert gaussian_epsilon(mu, delta) == pytest.approx(1.0, rel=1e-4)
    assert gaussian_epsilon(mu, delta) < 1.0


def test_gaussian_bound_is_the_same_at_every_threshold() -> None:
    found = [gaussian_mu_at_least(ndtr(0.7 - t), ndtr(-t)) for t in THRESHOLDS]
    np.testing.assert_allclose(found, 0.7, rtol=1e-9)
    assert gaussian_mu_at_least(0.2, 0.3) == 0.0


PROBLEM = Problem(
    loss=Logistic(), l2=0.5, x_norm=1.0, n_rows=10, n_features=2, neighbours=Neighbours.ADD_REMOVE
)
MIXTURE = GaussianProfile.mixture([0.3, 0.7], [0.4, 0.9])
PROFILES = {
    "gaussian": GaussianProfile.gaussian(0.6),
    "mixture": MIXTURE,
    "vertices": GaussianProfile(np.ones(1), np.array([0.05]), np.array([[0.3, 0.3, 0.6]])),
    "logistic": objective_profile(PROBLEM, 1 / 0.6),
}


def rates(name: str, factor: float) -> tuple[np.ndarray, np.ndarray]:
    """Of a mechanism that has the noise of the profile over ``factor``, at many thresholds."""
    if name == "mixture":
        means = [0.4 * factor / 2, 0.9 * factor / 2]
        above = [
            0.3 * ndtr(s * means[0] - THRESHOLDS) + 0.7 * ndtr(s * means[1] - THRESHOLDS) for s in (1, -1)
        ]
        return above[0], above[1]
    return ndtr(0.3 * factor - THRESHOLDS), ndtr(-0.3 * factor - THRESHOLDS)


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_never_refuted_by_what_it_allows(name: str) -> None:
    hits, alarms = rates(name, 1.0)
    assert not any(refutes(PROFILES[name], p, q) for p, q in zip(hits, alarms, strict=True))
    assert ProfileFamily(PROFILES[name]).factors(hits, alarms).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_is_refuted_by_half_the_noise(name: str) -> None:
    family = ProfileFamily(PROFILES[name])
    hits, alarms = rates(name, 2.0)
    best = family.best(hits, alarms)
    factor = family.factor(float(hits[best]), float(alarms[best]))
    assert 1.7 < factor <= 2.0 + 1e-9
    assert factor >= max(family.factors(hits, alarms))
    assert refutes(PROFILES[name], hits[best], alarms[best])
    assert family.epsilon(factor, 1e-2) > PROFILES[name].epsilon(1e-2)


def test_one_gaussian_needs_no_search() -> None:
    profile = PROFILES["gaussian"]
    assert ProfileFamily(profile).factor(0.6, 0.4) == pytest.approx(gaussian_mu_at_least(0.6, 0.4) / 0.6)
    assert refutes(profile, 0.7, 0.4) == (gaussian_mu_at_least(0.7, 0.4) > 0.6)


def test_scaling_keeps_what_is_not_noise() -> None:
    logistic = PROFILES["logistic"]
    assert isinstance(logistic, CoupledProfile)
    twice = scaled(logistic, 2.0)
    assert isinstance(twice, CoupledProfile)
    np.testing.assert_array_equal(twice.mu, 2 * logistic.mu)
    assert twice.offset == logistic.offset
    assert twice.segments == tuple(segment.scaled(2.0) for segment in logistic.segments)
    assert [segment.ends for segment in twice.segments] == [(2 * s.ends[0],) for s in logistic.segments]
    assert twice.bulge == logistic.bulge
    assert twice.delta(1.0) > logistic.delta(1.0)


def sample(rng: np.random.Generator, mu: float, runs: int) -> tuple[np.ndarray, np.ndarray]:
    return rng.normal(mu, 1, runs), rng.normal(0, 1, runs)


def test_lower_bounds_exceed_the_truth_as_seldom_as_stated_and_naive_ones_do_not() -> None:
    delta, failure, trials, runs = 1e-2, 0.05, 400, 300
    mu = gaussian_mu(Budget(1.0, delta))
    family = ProfileFamily(GaussianProfile.gaussian(mu))
    rng = np.random.default_rng(5)
    over = naive_over = 0
    for _ in range(trials):
        training, test = sample(rng, mu, runs), sample(rng, mu, runs)
        bounds = lower_bounds(training, test, delta, failure, family)
        over += bounds.direct > 1.0 or (bounds.factor or 0) > 1.0
        thresholds = np.quantile(test[0], [0.1, 0.3, 0.5, 0.7, 0.9])
        raw = [gaussian_mu_at_least((test[0] > t).mean(), (test[1] > t).mean()) for t in thresholds]
        naive_over += max(raw) > mu
    limit = int(binom.isf(1e-9, trials, failure))
    assert over <= limit < trials / 2
    assert naive_over > limit


@pytest.mark.parametrize("direction", [1.0, -1.0])
def test_lower_bounds_find_what_is_there_in_either_direction(direction: float) -> None:
    """A rare event on one side only: the other direction has to be looked at."""
    rng = np.random.default_rng(6)
    pairs = []
    for _ in range(2):
        rare, plain = rng.normal(size=20000), rng.normal(size=20000)
        rare[:2000] = 50.0
        pairs.append((rare, plain) if direction > 0 else (-plain, -rare))
    bounds = lower_bounds(*pairs, 1e-2, 1e-6, None)
    assert bounds.direct > 3.0
    assert bounds.by_profile is None


def test_same_scores_prove_nothing() -> None:
    rng = np.random.default_rng(7)
    training, test = sample(rng, 0.5, 5000), sample(rng, 0.0, 5000)
    bounds = lower_bounds(training, test, 1e-2, 1e-6, ProfileFamily(GaussianProfile.gaussian(0.5)))
    assert bounds.epsilon == 0.0


def test_a_small_training_sample_still_finds_a_useful_threshold() -> None:
    """What counts is what the test runs can prove, not what the few training runs could."""
    rng = np.random.default_rng(8)
    family = ProfileFamily(GaussianProfile.gaussian(0.5))
    bounds = lower_bounds(sample(rng, 0.5, 300), sample(rng, 0.5, 20000), 1e-2, 1e-6, family)
    assert 0.6 < (bounds.factor or 0.0) < 1.0
