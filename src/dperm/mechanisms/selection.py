"""A private choice, written down like every passage of the gate."""

from dperm.privacy import ReleaseRecord
from dperm.privacy.entropy import Entropy
from dperm.privacy.noise import ROUNDING_ALLOWANCE, FloatArray
from dperm.privacy.noisy_min import NoisyMin, noisy_min

FLOAT_GRID = -1074  # scores are compared as the floats they are, and every float is a multiple of 2**-1074


def choose(scores: FloatArray, choice: NoisyMin, entropy: Entropy, name: str) -> tuple[int, ReleaseRecord]:
    """Index of a candidate with about the lowest score, and what was declared about it.

    ``noise_scale`` of the record is that of Gumbel noise, ``dimension`` the number of candidates.
    """
    record = ReleaseRecord(
        name=name,
        sensitivity=choice.sensitivity,
        padded_sensitivity=choice.sensitivity * (1 + ROUNDING_ALLOWANCE),
        noise_scale=choice.scale,
        grid_exponent=FLOAT_GRID,
        dimension=len(scores),
        entropy=entropy.name,
        secure=entropy.secure,
    )
    return noisy_min(scores, choice, entropy), record
