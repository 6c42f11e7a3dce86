"""Rounding to the grid, adding whole noise and going back to floats: by exact fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dperm.errors import InvalidInput
from dperm.privacy import GaussianNoise, SystemEntropy, add_noise
from dperm.privacy.noise import LARGEST_DRAW, LARGEST_SCALE, add_noises, added_on_grid

draws = st.integers(-LARGEST_DRAW + 1, LARGEST_DRAW - 1)
exponents = st.integers(-560, 480)


def by_fractions(value, drawn, exponent):
    """``round`` of a fraction takes the even one of two, and so does the float of a fraction."""
    grid = Fraction(2) ** exponent
    value = min(max(Fraction(value), -(Fraction(2) ** 1000)), Fraction(2) ** 1000)
    return float((round(value / grid) + drawn) * grid)


def added(value, drawn, exponent):
    return added_on_grid(np.array([[value]]), np.array([[drawn]]), np.array([exponent]))[0, 0]


@settings(max_examples=300, deadline=None)
@given(value=st.floats(allow_nan=False, allow_infinity=False), drawn=draws, exponent=exponents)
def test_what_leaves_is_the_float_nearest_to_the_exact_sum(value, drawn, exponent):
    assert added(value, drawn, exponent) == by_fractions(value, drawn, exponent)


@settings(max_examples=300, deadline=None)
@given(steps=st.integers(-(2**63), 2**63), half=st.booleans(), drawn=draws, exponent=exponents)
def test_also_near_the_edge_of_64_bits_and_half_way(steps, half, drawn, exponent):
    value = float((Fraction(steps) + Fraction(1, 2) * half) * Fraction(2) ** exponent)
    assert added(value, drawn, exponent) == by_fractions(value, drawn, exponent)


@settings(max_examples=100, deadline=None)
@given(
    first=st.integers(-(2**61), 2**61), moved=st.integers(-(2**61), 2**61), drawn=st.integers(-(2**60), 2**60)
)
def test_what_leaves_depends_on_the_sum_alone(first, moved, drawn):
    """Values in range whose noise makes up for their difference leave as the same float; a float sum would not do."""
    value, other = float(first), float(moved)
    difference = int(value) - int(other)
    if abs(drawn + difference) < LARGEST_DRAW:
        assert added(value, drawn, 0) == added(other, drawn + difference, 0)


def test_a_sum_of_floats_would_depend_on_the_value():
    assert 0.0 + float(2**54 + 3) != 1.0 + float(2**54 + 2)
    assert added(0.0, 2**54 + 3, 0) == added(1.0, 2**54 + 2, 0)


def test_large_values_stay_finite():
    for value in (1.7e308, -1.7e308):
        assert added(value, LARGEST_DRAW - 1, 480) == np.sign(value) * 2.0**1000
    noise = GaussianNoise(1.0, 5.0, 2)
    assert np.isfinite(add_noise(np.array([1.7e308, -1e300]), noise, SystemEntropy())).all()


# Whole steps.


@settings(max_examples=200, deadline=None)
@given(
    sensitivity=st.floats(1e-150, 1e150),
    ratio=st.floats(0.01, 1e6),
    dimension=st.integers(1, 10**6),
)
def test_the_scale_is_rounded_up_by_little(sensitivity, ratio, dimension):
    noise = GaussianNoise(sensitivity, max(sensitivity * ratio, sensitivity / 100 * 1.000001), dimension)
    drawn = noise.steps * Fraction(2) ** noise.grid_exponent
    assert Fraction(noise.scale) <= drawn <= Fraction(noise.scale) * (1 + Fraction(1, 10**5))
    assert noise.steps >= 10**5


def test_noise_of_more_steps_than_the_sampler_takes_is_refused():
    huge, plain = GaussianNoise(1e-9, 1.0e3, 4), GaussianNoise(1.0, 1.0, 4)
    assert huge.steps > LARGEST_SCALE > plain.steps
    add_noise(np.zeros(4), plain, SystemEntropy())
    for noises in ([huge], [plain, huge]):
        with pytest.raises(InvalidInput, match=r"more than 2\*\*56 steps"):
            add_noises(np.zeros((4, len(noises))), noises, SystemEntropy())
