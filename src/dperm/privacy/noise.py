"""Gaussian noise on a grid: how the grid widens a sensitivity, and what adds the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Protocol, overload

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.entropy import Entropy, Words, seeded
from dperm.processors import available_processors

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


LARGEST_SCALE = 2**56
LARGEST_DRAW = 2**62  # no draw is as large: a scale times the 64 scales that the sampler reaches
LONGEST_BUFFER = 2**16
_BYTES_EACH, _BYTES_MORE = 30, 128  # a draw takes 18 to 31 bytes on average, so most short releases ask once
_FEWEST_FOR_A_THREAD = 2**13


def discrete_gaussian(size: int, scales: Sequence[int], entropy: Entropy) -> Integers:
    """``size`` independent draws for each of the scales, one column for each.

    Raises
    ------
    InvalidInput
        If a scale is not a whole number between 1 and 2**56.
    """
    columns = np.array([_checked(scale) for scale in scales], np.uint64).reshape(-1, 3)
    out = np.empty(size * len(scales), np.int64)
    most = min(available_processors(), out.size // _FEWEST_FOR_A_THREAD)
    if most <= 1:
        _fill(out, 0, out.size, size, columns, entropy)
    else:
        edges = [out.size * part // most for part in range(most + 1)]
        with ThreadPoolExecutor(most) as threads:
            list(
                threads.map(
                    lambda part: _fill(out, part[0], part[1], size, columns, entropy), pairwise(edges)
                )
            )
    return out.reshape(len(scales), size).T


def check_steps(steps: int) -> None:
    """Refuse noise that the sampler cannot draw, before anything is drawn."""
    if steps > LARGEST_SCALE:
        raise InvalidInput(
            "Noise of more than 2**56 steps of its grid cannot be drawn: it is too large beside the sensitivity. "
            "Raise epsilon."
        )


def _checked(scale: int) -> tuple[int, int, int]:
    """A scale, the bytes that hold a number below it, and the mask of its bits."""
    if isinstance(scale, bool) or not isinstance(scale, int) or not 1 <= scale <= LARGEST_SCALE:
        raise InvalidInput(f"A scale must be a whole number between 1 and 2**56; got {scale!r}.")
    return scale, *bytes_below(scale)


def bytes_below(bound: int) -> tuple[int, int]:
    """How many bytes hold every number below ``bound``, and the mask of their bits."""
    bits = max(1, (bound - 1).bit_length())
    return -(-bits // 8), 2**bits - 1


def _fill(out: Integers, first: int, last: int, each: int, columns: Words, entropy: Entropy) -> None:
    """Draws ``first`` to ``last``. A draw that meets the end of a buffer begins again at its own first byte."""
    from dperm.privacy._integer_kernels import fill_gaussians

    done, unread = first, np.empty(0, np.uint8)
    while done < last:
        wanted = min(LONGEST_BUFFER, _BYTES_EACH * (last - done) + _BYTES_MORE)
        digits = np.concatenate([unread, entropy.words(-(-wanted // 8)).view(np.uint8)])
        done, used = fill_gaussians(out, done, last, each, columns, digits)
        unread = digits[used:]


GRID_FRACTION = 1e-7
ROUNDING_ALLOWANCE = 1e-9
SENSITIVITY_RANGE = (1e-150, 1e150)
LARGEST_MU = 100.0


def grid_exponent(sensitivity: float, dimension: int) -> int:
    """Largest k with 2**k <= 1e-7 * sensitivity / sqrt(dimension), for the largest sensitivity."""
    _check(sensitivity, dimension)
    return math.frexp(GRID_FRACTION * sensitivity / math.sqrt(dimension))[1] - 1


@overload
def padded(sensitivity: float, dimension: int, grid_exponent: int) -> float: ...
@overload
def padded(sensitivity: FloatArray, dimension: int, grid_exponent: int) -> FloatArray: ...
def padded(sensitivity: float | FloatArray, dimension: int, grid_exponent: int) -> float | FloatArray:
    """The sensitivity after rounding to the grid: what a profile must use, branch by branch.

    sensitivity * (1 + 1e-9) + sqrt(dimension) * 2**grid_exponent. The grid is that of the largest
    sensitivity; the relative part allows for rounding in the computation of the sensitivity itself.

    Guarantee
    ---------
    Vectors at a distance of at most ``sensitivity`` are at most this far apart once every coordinate is
    rounded to the nearest multiple of 2**grid_exponent. See docs/proofs/noise.md.
    """
    return sensitivity * (1 + ROUNDING_ALLOWANCE) + math.sqrt(dimension) * math.ldexp(1.0, grid_exponent)


class Noise(Protocol):
    """What the gate asks of noise: what it declares, and how it is added, one column for each noise of a kind."""

    record_suffix: ClassVar[str]
    """What a record says of it behind the name of the release."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def scale(self) -> float: ...
    @property
    def dimension(self) -> int: ...
    @property
    def grid_exponent(self) -> int: ...
    def padded(self, sensitivity: float) -> float: ...
    @staticmethod
    def add_all(columns: FloatArray, noises: Sequence[Any], entropy: Entropy) -> FloatArray: ...


@dataclass(frozen=True)
class GaussianNoise:
    """Noise for a vector of ``dimension`` numbers that moves by at most ``sensitivity``.

    Parameters
    ----------
    sensitivity : float
        Largest Euclidean distance between the values of neighbours, over all hidden branches.
    scale : float
        Standard deviation of the noise on each coordinate.
    dimension : int
        Number of coordinates.
    """

    record_suffix: ClassVar[str] = ""
    sensitivity: float
    scale: float
    dimension: int

    def __post_init__(self) -> None:
        _check(self.sensitivity, self.dimension)
        if not 0 < self.scale < math.inf:
            raise InvalidInput(f"The noise scale must be a positive number; got {self.scale!r}.")
        if self.sensitivity > LARGEST_MU * self.scale:
            raise NotCertified(
                f"The noise scale {self.scale:g} is below 1/{LARGEST_MU:g} of the sensitivity "
                f"{self.sensitivity:g}; the grid of the sampler is not certified there. Use more noise."
            )

    @property
    def grid_exponent(self) -> int:
        return grid_exponent(self.sensitivity, self.dimension)

    @property
    def steps(self) -> int:
        """The scale in steps of the grid, rounded up: more noise by a part of at most 1e-5, never less."""
        return steps_up(self.scale, self.grid_exponent)

    def padded(self, sensitivity: float) -> float:
        """``padded`` on the grid of this noise, for the sensitivity of one hidden branch."""
        return padded(sensitivity, self.dimension, self.grid_exponent)

    @staticmethod
    def add_all(columns: FloatArray, noises: Sequence[GaussianNoise], entropy: Entropy) -> FloatArray:
        return add_noises(columns, noises, entropy)


def add_noise(values: FloatArray, noise: GaussianNoise, entropy: Entropy) -> FloatArray:
    """``add_noises`` for one vector."""
    if values.ndim != 1:
        raise InvalidInput(
            f"The noise is for {noise.dimension} numbers; got an array of shape {values.shape}."
        )
    return add_noises(values[:, None], [noise], entropy)[:, 0]


def add_noises(columns: FloatArray, noises: Sequence[GaussianNoise], entropy: Entropy) -> FloatArray:
    """Round each column to the grid of its noise and add Gaussian noise that lives on the same grid.

    Guarantee
    ---------
    With a secure source the noise is an exact discrete Gaussian drawn from that source: no pattern of floating-point
    numbers gives the value away. Its scale is the declared one, rounded up to a whole number of steps of the grid.
    A seeded source draws from numpy and promises nothing.

    Raises
    ------
    NotCertified
        If a value is not finite.
    """
    _check_columns(columns, noises)
    if not entropy.secure:
        return _seeded(columns, noises, seeded(entropy))
    scales = [noise.steps for noise in noises]
    check_steps(max(scales, default=1))
    drawn = discrete_gaussian(len(columns), scales, entropy)
    return added_on_grid(columns, drawn, np.array([noise.grid_exponent for noise in noises]))


def _check_columns(columns: FloatArray, noises: Sequence[GaussianNoise | GammaNormNoise]) -> None:
    for noise in noises:
        if noise.dimension != len(columns):
            raise InvalidInput(f"The noise is for {noise.dimension} numbers; got {len(columns)}.")
    if not np.isfinite(columns).all():
        raise NotCertified(
            "A value to be released is not finite, so its sensitivity is unknown; nothing is released."
        )


def _seeded(
    columns: FloatArray, noises: Sequence[GaussianNoise], generator: np.random.Generator
) -> FloatArray:
    noisy = np.empty_like(columns)
    for k, noise in enumerate(noises):
        grid = math.ldexp(1.0, noise.grid_exponent)
        drawn = generator.normal(scale=noise.scale, size=noise.dimension)
        noisy[:, k] = (np.rint(columns[:, k] / grid) + np.rint(drawn / grid)) * grid
    return noisy


def _check(sensitivity: float, dimension: int) -> None:
    low, high = SENSITIVITY_RANGE
    if not low <= sensitivity <= high:
        raise InvalidInput(f"The sensitivity must lie between {low:g} and {high:g}; got {sensitivity!r}.")
    if isinstance(dimension, bool) or dimension != int(dimension) or dimension < 1:
        raise InvalidInput(f"The dimension must be a whole number of at least 1; got {dimension!r}.")


SMALLEST_FLOAT = -1074
LEFT_OUT = 70.0  # a longer noise vector has a chance below exp(-70)


@dataclass(frozen=True)
class GammaNormNoise:
    r"""A vector of uniform direction whose norm is Gamma(``dimension``, ``scale``) distributed.

    Its density is proportional to :math:`e^{-\lVert b\rVert/s}` with s = ``scale``, so it costs
    epsilon = ``sensitivity / scale`` in real arithmetic.
    """

    record_suffix: ClassVar[str] = " (norm Gamma distributed)"
    sensitivity: float
    scale: float
    dimension: int

    @property
    def reach(self) -> float:
        """Bound on the norm: Chernoff's, with a chance of exp(-70) to fail."""
        return 2 * (self.dimension + LEFT_OUT) * self.scale

    @property
    def grid_exponent(self) -> int:
        """The finest grid that holds all doubles: this noise has no grid of its own."""
        return SMALLEST_FLOAT

    def padded(self, sensitivity: float) -> float:
        """Nothing is rounded before the noise is added."""
        return sensitivity

    @staticmethod
    def add_all(columns: FloatArray, noises: Sequence[GammaNormNoise], entropy: Entropy) -> FloatArray:
        _check_columns(columns, noises)
        return columns + np.stack([noise.draw(entropy) for noise in noises], axis=1)

    def draw(self, entropy: Entropy) -> FloatArray:
        direction = ndtri(uniforms(self.dimension, entropy))
        norm = -self.scale * np.log(uniforms(self.dimension, entropy)).sum()
        return np.asarray(direction * (norm / np.linalg.norm(direction)))


def uniforms(n: int, entropy: Entropy) -> FloatArray:
    """Numbers strictly between 0 and 1."""
    return np.asarray(((entropy.words(n) >> np.uint64(12)) + 0.5) * 2.0**-52)
