"""Noise of uniform direction and Gamma norm, for pure epsilon. Drawn in floating point, so never certified."""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from dperm.errors import InvalidInput, NotCertified
from dperm.privacy.entropy import Entropy
from dperm.privacy.noise import FloatArray

SMALLEST_FLOAT = -1074
LEFT_OUT = 70.0  # a longer noise vector has a chance below exp(-70)


@dataclass(frozen=True)
class GammaNormNoise:
    r"""A vector of uniform direction whose norm is Gamma(``dimension``, ``scale``) distributed.

    Its density is proportional to :math:`e^{-\lVert b\rVert/s}` with s = ``scale``, so it costs
    epsilon = ``sensitivity / scale`` in real arithmetic.
    """

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

    def add(self, values: FloatArray, entropy: Entropy) -> FloatArray:
        if values.shape != (self.dimension,):
            raise InvalidInput(f"The noise is for {self.dimension} numbers; got shape {values.shape}.")
        if not np.isfinite(values).all():
            raise NotCertified("A value to be released is not finite; nothing is released.")
        return values + self.draw(entropy)

    def draw(self, entropy: Entropy) -> FloatArray:
        direction = ndtri(uniforms(self.dimension, entropy))
        norm = -self.scale * np.log(uniforms(self.dimension, entropy)).sum()
        return np.asarray(direction * (norm / np.linalg.norm(direction)))


def uniforms(n: int, entropy: Entropy) -> FloatArray:
    """Numbers strictly between 0 and 1."""
    return np.asarray(((entropy.words(n) >> np.uint64(12)) + 0.5) * 2.0**-52)
