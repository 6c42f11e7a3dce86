import math

import numpy as np
import pytest
from fifty_digits import gaussian_delta
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from mpmath import exp, log1p, mpf, sqrt
from scipy.stats import chi2, kstest, norm

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy import (
    GaussianNoise,
    SeededEntropy,
    SystemEntropy,
    add_noise,
    grid_exponent,
    padded,
)
from dperm.privacy.noise import LARGEST_MU, ROUNDING_ALLOWANCE
from dperm.privacy.profile import RELATIVE_MARGIN
from opendp_noise import opendp_measurement

TINY = 1e-9
SCALE = 3.0
SOURCES = [SystemEntropy(), SeededEntropy(0)]
by_name = pytest.mark.parametrize("entropy", SOURCES, ids=lambda e: e.name)


def draw(entropy, calls, dimension, value=0.0, scale=SCALE):
    noise = GaussianNoise(1.0, scale, dimension)
    values = np.full(dimension, value)
    return np.array([add_noise(values, noise, entropy) - value for _ in range(calls)])


@pytest.fixture(scope="module")
def samples():
    return {entropy.name: draw(entropy, calls=200, dimension=124) for entropy in SOURCES}


# The distribution of the noise, each test with a control that must fail.


def distribution_p(drawn, scale):
    return kstest(drawn.ravel(), norm(scale=scale).cdf).pvalue


@by_name
def test_distribution_and_wrong_scale_control(samples, entropy):
    drawn = samples[entropy.name]
    assert distribution_p(drawn, SCALE) > TINY
    assert distribution_p(drawn, 1.3 * SCALE) < TINY
    assert distribution_p(drawn, SCALE / 1.3) < TINY


def moments_p(drawn, scale):
    n = drawn.size
    spread = (drawn**2).sum() / scale**2
    return min(
        2 * norm.sf(abs(drawn.mean()) * math.sqrt(n) / scale),
        2 * min(chi2.cdf(spread, n), chi2.sf(spread, n)),
    )


@by_name
def test_mean_and_variance_and_their_controls(samples, entropy):
    drawn = samples[entropy.name]
    assert moments_p(drawn, SCALE) > TINY
    assert moments_p(1.3 * drawn, SCALE) < TINY
    assert moments_p(drawn + 0.1 * SCALE, SCALE) < TINY


def dependence_p(left, right):
    """p-value of no correlation, by Fisher's transformation."""
    correlation = np.corrcoef(left.ravel(), right.ravel())[0, 1]
    return 2 * norm.sf(abs(np.arctanh(min(correlation, 1 - 1e-12))) * math.sqrt(left.size - 3))


@by_name
def test_coordinates_and_calls_are_independent(samples, entropy):
    drawn = samples[entropy.name]
    assert dependence_p(drawn[:, 1:], drawn[:, :-1]) > TINY
    assert dependence_p(drawn[1:], drawn[:-1]) > TINY
    assert dependence_p(np.abs(drawn[1:]), np.abs(drawn[:-1])) > TINY
    repeated = np.repeat(drawn[::2], 2, axis=0)
    assert dependence_p(repeated[1:], repeated[:-1]) < TINY


@by_name
def test_noise_does_not_depend_on_the_value(entropy):
    drawn = draw(entropy, calls=100, dimension=124, value=1234.5)
    assert distribution_p(drawn, SCALE) > TINY


@by_name
def test_every_released_number_lies_on_the_grid(entropy):
    noise = GaussianNoise(0.37, 1.9, 50)
    values = np.random.default_rng(0).normal(size=50)
    released = add_noise(values, noise, entropy)
    steps = released / 2.0**noise.grid_exponent
    assert released.dtype == np.float64
    assert released.shape == (50,)
    assert np.array_equal(steps, np.rint(steps))
    assert not np.array_equal(released - values, add_noise(values, noise, entropy) - values)


def test_seeded_noise_reproduces_and_system_noise_does_not():
    noise, values = GaussianNoise(1.0, 1.0, 8), np.zeros(8)
    assert np.array_equal(
        add_noise(values, noise, SeededEntropy(1)), add_noise(values, noise, SeededEntropy(1))
    )
    assert not np.array_equal(
        add_noise(values, noise, SeededEntropy(1)), add_noise(values, noise, SeededEntropy(2))
    )
    assert not np.array_equal(
        add_noise(values, noise, SystemEntropy()), add_noise(values, noise, SystemEntropy())
    )


@pytest.mark.together
@pytest.mark.parametrize("sensitivity", [1e-120, 1e-12, 1.0, 1e9, 1e120])
def test_any_unit_works(sensitivity):
    noise = GaussianNoise(sensitivity, 5 * sensitivity, 3)
    for entropy in (SystemEntropy(), SeededEntropy(0)):
        released = add_noise(np.full(3, 1.0), noise, entropy)
        assert np.isfinite(released).all()
        assert np.all(np.abs(released - 1) <= 50 * sensitivity + 1e-15)


# The grid.


@settings(max_examples=200, deadline=None)
@given(log_sensitivity=st.floats(-100, 100), dimension=st.integers(1, 10**6))
def test_the_grid_is_the_coarsest_allowed(log_sensitivity, dimension):
    sensitivity = math.exp(log_sensitivity)
    k = grid_exponent(sensitivity, dimension)
    assert math.ldexp(1, k) <= 1e-7 * sensitivity / math.sqrt(dimension) < math.ldexp(1, k + 1)
    noise = GaussianNoise(sensitivity, sensitivity, dimension)
    assert noise.grid_exponent == k
    assert noise.padded(sensitivity / 3) == padded(sensitivity / 3, dimension, k)
    assert padded(sensitivity, dimension, k) <= sensitivity * (1 + 1.02e-7)


def on_grid(values, k):
    return np.rint(values / math.ldexp(1.0, k)) * math.ldexp(1.0, k)


def distance(left, right):
    return math.sqrt(math.fsum((left - right) ** 2))


@settings(max_examples=300, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    dimension=st.integers(1, 60),
    log_sensitivity=st.floats(-10, 10),
    branch=st.sampled_from([1.0, 0.3, 1e-4, 1e-7, 1e-9]),
    place=st.sampled_from(["anywhere", "around a rounding boundary"]),
)
def test_rounding_moves_neighbours_apart_by_no_more_than_the_padding(
    seed, dimension, log_sensitivity, branch, place
):
    rng = np.random.default_rng(seed)
    largest = math.exp(log_sensitivity)
    k = grid_exponent(largest, dimension)
    sensitivity = branch * largest
    apart = rng.normal(size=dimension)
    apart *= sensitivity / np.linalg.norm(apart)
    if place == "anywhere":
        left = largest * rng.normal(size=dimension)
    else:
        left = (rng.integers(-1000, 1000, dimension) + 0.5) * math.ldexp(1.0, k) - rng.uniform(
            size=dimension
        ) * apart
    right = left + apart
    declared = max(sensitivity, distance(left, right))  # the sum above rounds too
    assert distance(on_grid(left, k), on_grid(right, k)) <= padded(declared, dimension, k)


def test_without_the_padding_the_claim_would_be_false():
    dimension = 16
    k = grid_exponent(1.0, dimension)
    left = np.full(dimension, 0.4999 * 2.0**k)
    right = np.full(dimension, 0.5001 * 2.0**k)
    sensitivity = distance(left, right)
    reached = distance(on_grid(left, k), on_grid(right, k))
    assert reached > 100 * sensitivity
    assert 0.999 * padded(sensitivity, dimension, k) < reached <= padded(sensitivity, dimension, k)


def test_padding_works_on_arrays_of_branches():
    branches = np.array([0.5, 1.0])
    k = grid_exponent(1.0, 7)
    assert padded(branches, 7, k).tolist() == [padded(0.5, 7, k), padded(1.0, 7, k)]


# The discrete Gaussian on a grid costs no more than the continuous one (docs/proofs/noise.md).


def lattice_bound(epsilon, distance, scale, step, dimension, reach):
    """The theorem of the proof page: cost of a discrete Gaussian on a grid of width ``step``."""
    epsilon, distance, scale, step = (mpf(x) for x in (epsilon, distance, scale, step))
    narrowed = scale * sqrt((1 + sqrt(1 - (step / scale) ** 2 / 3)) / 2)
    radius = ((sqrt(mpf(dimension)) + reach) * scale + sqrt(mpf(dimension)) * step / 2) / narrowed
    tail = exp(dimension * (step / scale) ** 2 / 24 - mpf(reach) ** 2 / 2)
    omega = (step / narrowed) ** 4 * (radius**2 / 192 + radius**4 / 1152)
    return exp(omega) * gaussian_delta(epsilon - 2 * omega + log1p(-tail), distance / narrowed) + tail


def exact_lattice_delta(epsilon, shift, step):
    """Cost of a unit discrete Gaussian when the centre moves by ``shift`` steps, by plain summation."""
    reach = int(12 / step)
    axes = [step * np.arange(-reach, reach + 1)] * len(shift)
    points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)
    here = np.exp(-(points**2).sum(axis=-1) / 2)
    there = np.exp(-((points - step * np.array(shift)) ** 2).sum(axis=-1) / 2)
    return np.maximum(here - math.exp(epsilon) * there, 0).sum() / here.sum()


@pytest.mark.parametrize(
    ("step", "shift", "epsilon"),
    [
        (0.25, (4,), 0.5),
        (0.25, (3,), 1.5),
        (0.1, (10,), 1.0),
        (0.1, (5,), 1.5),
        (0.2, (3, 4), 1.0),
        (0.2, (-2, 5), 0.3),
    ],
)
def test_lattice_theorem_on_coarse_grids(step, shift, epsilon):
    exact = exact_lattice_delta(epsilon, shift, step)
    bound = lattice_bound(epsilon, step * math.hypot(*shift), 1.0, step, len(shift), reach=6)
    assert exact <= bound < 1.5 * exact


def test_on_a_coarse_grid_the_plain_profile_would_be_exceeded():
    ratios = [
        exact_lattice_delta(epsilon, (2,), 0.5) / gaussian_delta(epsilon, 1.0)
        for epsilon in (0.1, 0.5, 0.7, 1.0, 1.3, 2.0, 3.0)
    ]
    assert max(ratios) > 1.001


@settings(max_examples=150, deadline=None)
@given(
    mu=st.floats(math.log(1e-4), math.log(LARGEST_MU)).map(math.exp),
    t=st.floats(-10, 9),
    dimension=st.sampled_from([1, 2, 10, 124, 10_000]),
)
def test_on_our_grid_the_lattice_is_paid_for_by_the_margins(mu, t, dimension):
    """Even when the grid belongs to a branch whose sensitivity is as large as the noise allows."""
    epsilon = mu * (t + mu / 2)
    assume(epsilon >= 1e-3)
    step = math.ldexp(1, grid_exponent(LARGEST_MU, dimension))
    bound = lattice_bound(epsilon, mu, 1.0, step, dimension, reach=13)
    paid = gaussian_delta(epsilon, mpf(mu) * (1 + mpf(ROUNDING_ALLOWANCE) / 2))
    assert bound <= paid * (1 + mpf(RELATIVE_MARGIN) / 2) + mpf(10) ** -30


# OpenDP's own account, and refusals.


@pytest.mark.together
@pytest.mark.parametrize(
    ("sensitivity", "scale", "dimension"), [(1.0, 5.1, 1), (2e-4, 1e-3, 124), (0.3, 0.01, 7)]
)
def test_opendp_prices_the_release_as_we_do(sensitivity, scale, dimension):
    noise = GaussianNoise(sensitivity, scale, dimension)
    rho = opendp_measurement(noise).map(sensitivity)
    ours = (noise.padded(sensitivity) / scale) ** 2 / 2
    assert (sensitivity / scale) ** 2 / 2 * (1 - 1e-12) <= rho <= ours
    assert rho == pytest.approx(ours, rel=1e-6)


def test_a_disagreement_with_opendp_is_found(monkeypatch):
    monkeypatch.setattr(GaussianNoise, "padded", lambda self, sensitivity: 0.99 * sensitivity)
    with pytest.raises(NotCertified, match="OpenDP prices"):
        opendp_measurement(GaussianNoise(1.0, 1.2345, 5))


@pytest.mark.together
@pytest.mark.cover(1)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@by_name
def test_values_that_are_not_finite_are_refused(entropy, bad):
    with pytest.raises(NotCertified, match="not finite"):
        add_noise(np.array([0.0, bad]), GaussianNoise(1.0, 1.0, 2), entropy)


def test_a_wrong_shape_is_refused():
    for shape in ((3,), (2, 1), ()):
        with pytest.raises(InvalidInput, match="noise is for 2 numbers"):
            add_noise(np.zeros(shape), GaussianNoise(1.0, 1.0, 2), SeededEntropy(0))


def test_an_unknown_insecure_source_is_refused():
    class Dice:
        name, secure = "dice", False

    with pytest.raises(InvalidInput, match="dice"):
        add_noise(np.zeros(2), GaussianNoise(1.0, 1.0, 2), Dice())


@pytest.mark.together
@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((0.0, 1.0, 1), InvalidInput),
        ((-1.0, 1.0, 1), InvalidInput),
        ((math.nan, 1.0, 1), InvalidInput),
        ((math.inf, 1.0, 1), InvalidInput),
        ((1e-200, 1.0, 1), InvalidInput),
        ((1.0, 0.0, 1), InvalidInput),
        ((1.0, math.inf, 1), InvalidInput),
        ((1.0, math.nan, 1), InvalidInput),
        ((1.0, 1.0, 0), InvalidInput),
        ((1.0, 1.0, 1.5), InvalidInput),
        ((1.0, 1.0, True), InvalidInput),
        ((1.0, 0.0099, 1), NotCertified),
    ],
)
def test_malformed_noise_is_refused(arguments, error):
    with pytest.raises(error):
        GaussianNoise(*arguments)
