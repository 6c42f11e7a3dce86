"""Gaussian noise on a grid: how the grid widens a sensitivity, and the exact sampler."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.entropy import Entropy, seeded

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

    def padded(self, sensitivity: float) -> float:
        """``padded`` on the grid of this noise, for the sensitivity of one hidden branch."""
        return padded(sensitivity, self.dimension, self.grid_exponent)


def add_noise(values: FloatArray, noise: GaussianNoise, entropy: Entropy) -> FloatArray:
    """Round ``values`` to the grid and add Gaussian noise that lives on the same grid.

    Guarantee
    ---------
    With a secure source the noise is an exact discrete Gaussian (OpenDP, operating-system randomness):
    no pattern of floating-point numbers gives the value away. A seeded source draws from numpy and
    promises nothing.

    Raises
    ------
    NotCertified
        If a value is not finite, or OpenDP's own account of the release exceeds ours.
    """
    if values.shape != (noise.dimension,):
        raise InvalidInput(
            f"The noise is for {noise.dimension} numbers; got an array of shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise NotCertified(
            "A value to be released is not finite, so its sensitivity is unknown; nothing is released."
        )
    if entropy.secure:
        return np.array(_discrete_gaussian(noise)(np.ascontiguousarray(values)), dtype=np.float64)
    grid = math.ldexp(1.0, noise.grid_exponent)
    drawn = seeded(entropy).normal(scale=noise.scale, size=noise.dimension)
    return (np.rint(values / grid) + np.rint(drawn / grid)) * grid


@lru_cache(maxsize=64)
def _input_space(dimension: int) -> tuple[Any, Any]:
    # The prelude of OpenDP would import pandas, polars and scikit-learn; these modules do not.
    from opendp.domains import atom_domain, vector_domain
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T=float, nan=False), size=dimension), l2_distance(T=float)


@lru_cache(maxsize=1024)
def _discrete_gaussian(noise: GaussianNoise) -> Callable[[FloatArray], list[float]]:
    from opendp.measurements import make_gaussian

    measurement = make_gaussian(*_input_space(noise.dimension), scale=noise.scale, k=noise.grid_exponent)
    claimed = (noise.padded(noise.sensitivity) / noise.scale) ** 2 / 2
    if not measurement.map(noise.sensitivity) <= claimed * (1 + 1e-6):
        raise NotCertified(
            f"OpenDP prices this release at rho = {measurement.map(noise.sensitivity):g}, we at {claimed:g}. "
            "Nothing is released; the installed version of OpenDP may round differently."
        )
    return measurement  # type: ignore[no-any-return]


def _check(sensitivity: float, dimension: int) -> None:
    low, high = SENSITIVITY_RANGE
    if not low <= sensitivity <= high:
        raise InvalidInput(f"The sensitivity must lie between {low:g} and {high:g}; got {sensitivity!r}.")
    if isinstance(dimension, bool) or dimension != int(dimension) or dimension < 1:
        raise InvalidInput(f"The dimension must be a whole number of at least 1; got {dimension!r}.")
