"""Sums on a grid: floats rounded to whole steps, whole noise added, and the exact sum as the nearest float."""

import numpy as np
from numpy.typing import NDArray

from dperm.privacy.discrete_gaussian import LARGEST_DRAW

FloatArray = NDArray[np.float64]
Integers = NDArray[np.int64]

LARGEST_VALUE = 2.0**1000


def added_on_grid(columns: FloatArray, noise: Integers, exponents: Integers) -> FloatArray:
    """The multiple of 2**exponent nearest to each value, plus ``noise`` steps of it; an exponent for each column.

    What is returned depends on the exact sum alone: it is the float nearest to it. Values beyond 2**1000 count as
    2**1000, which moves no two of them apart.
    """
    with np.errstate(over="ignore"):
        steps = np.rint(columns * np.ldexp(1.0, -exponents))
    if (np.abs(steps) < LARGEST_DRAW).all():
        return (steps.astype(np.int64) + noise).astype(np.float64) * np.ldexp(1.0, exponents)
    columns = np.clip(columns, -LARGEST_VALUE, LARGEST_VALUE)
    sums = [
        [
            _exact_sum(float(value), int(drawn), int(k))
            for value, drawn, k in zip(*row, exponents, strict=True)
        ]
        for row in zip(columns, noise, strict=True)
    ]
    return np.array(sums, np.float64)


def _exact_sum(value: float, noise: int, exponent: int) -> float:
    """The same in whole numbers of any size, for values that are large beside their noise."""
    up, down = 1 << max(0, -exponent), 1 << max(0, exponent)
    return (exact_steps(value, exponent) + noise) * down / up


def exact_steps(value: float, exponent: int) -> int:
    """The nearest whole number of steps of 2**exponent, the even one of two."""
    numerator, denominator = value.as_integer_ratio()
    numerator, denominator = numerator << max(0, -exponent), denominator << max(0, exponent)
    whole, rest = divmod(numerator, denominator)
    return whole + (2 * rest > denominator or (2 * rest == denominator and whole % 2 == 1))


def steps_up(value: float, exponent: int) -> int:
    """A positive number in steps of 2**exponent, rounded up."""
    numerator, denominator = value.as_integer_ratio()
    return -(-(numerator << max(0, -exponent)) // (denominator << max(0, exponent)))
