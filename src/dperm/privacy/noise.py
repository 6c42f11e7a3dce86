"""Gaussian noise on a grid: how the grid widens a sensitivity, and what adds the noise."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.discrete_gaussian import by_opendp, discrete_gaussian
from dperm.privacy.entropy import Entropy, seeded
from dperm.privacy.grid import added_on_grid, steps_up

FloatArray = NDArray[np.float64]

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
    for noise in noises:
        if noise.dimension != len(columns):
            raise InvalidInput(f"The noise is for {noise.dimension} numbers; got {len(columns)}.")
    if not np.isfinite(columns).all():
        raise NotCertified(
            "A value to be released is not finite, so its sensitivity is unknown; nothing is released."
        )
    if not entropy.secure:
        return _seeded(columns, noises, seeded(entropy))
    scales = [noise.steps for noise in noises]
    if by_opendp(max(scales, default=1)):
        from dperm.privacy.opendp_noise import opendp_gaussian

        noisy = [opendp_gaussian(values, noise) for values, noise in zip(columns.T, noises, strict=True)]
        return np.stack(noisy, axis=1)
    drawn = discrete_gaussian(len(columns), scales, entropy)
    return added_on_grid(columns, drawn, np.array([noise.grid_exponent for noise in noises]))


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
