"""Exact noise and choices as OpenDP draws them: the oracle of tests and benchmarks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import NotCertified
from dperm.privacy.noise import GaussianNoise
from dperm.privacy.noisy_min import NoisyMin

Vector = NDArray[np.float64]


def _vectors(dimension: int | None = None) -> Any:
    """OpenDP's domain of vectors of numbers."""
    # The prelude of OpenDP would import pandas, polars and scikit-learn; these modules do not.
    from opendp.domains import atom_domain, vector_domain
    from opendp.mod import enable_features

    enable_features("contrib")
    return vector_domain(atom_domain(T=float, nan=False), size=dimension)


def opendp_gaussian(values: Vector, noise: GaussianNoise) -> Vector:
    """Round a vector to the grid and add the noise."""
    return np.array(opendp_measurement(noise)(np.ascontiguousarray(values)), np.float64)


@lru_cache(maxsize=1024)
def opendp_measurement(noise: GaussianNoise) -> Any:
    """What OpenDP calls a measurement.

    Raises
    ------
    NotCertified
        If OpenDP's own account of the release exceeds ours.
    """
    vectors = _vectors(noise.dimension)
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance

    measurement = make_gaussian(vectors, l2_distance(T=float), scale=noise.scale, k=noise.grid_exponent)
    claimed = (noise.padded(noise.sensitivity) / noise.scale) ** 2 / 2
    if not measurement.map(noise.sensitivity) <= claimed * (1 + 1e-6):
        raise NotCertified(
            f"OpenDP prices this release at rho = {measurement.map(noise.sensitivity):g}, we at {claimed:g}. "
            "Nothing is released; the installed version of OpenDP may round differently."
        )
    return measurement


@lru_cache(maxsize=1024)
def opendp_chooser(choice: NoisyMin) -> Any:
    """OpenDP's comparison of scores plus Gumbel noise, in arithmetic as exact as the comparison needs.

    Raises
    ------
    NotCertified
        If OpenDP's own account of the choice exceeds ours.
    """
    vectors = _vectors()
    from opendp.measurements import make_noisy_max
    from opendp.measures import zero_concentrated_divergence
    from opendp.metrics import linf_distance

    measurement = make_noisy_max(
        vectors,
        linf_distance(T=float, monotonic=choice.one_sided),
        zero_concentrated_divergence(),
        scale=choice.scale,
        negate=True,
    )
    claimed = measurement.map(choice.sensitivity)
    if not claimed <= choice.rho:
        raise NotCertified(
            f"OpenDP prices this choice at rho = {claimed:g}, we at {choice.rho:g}. Nothing is chosen; the "
            "installed version of OpenDP may round differently."
        )
    return measurement
