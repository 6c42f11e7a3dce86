"""The gate: the one place where numbers computed from rows become public."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy
from dperm.privacy.gamma_norm import GammaNormNoise
from dperm.privacy.noise import FloatArray, GaussianNoise, add_noise

# OpenDP draws without holding the interpreter, so two threads help once there are a few columns.
_THREADS = 2
_FEWEST_COLUMNS = 4

Noise = GaussianNoise | GammaNormNoise


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """What one passage through the gate declared; every field is public."""

    name: str
    sensitivity: float
    padded_sensitivity: float
    noise_scale: float
    grid_exponent: int
    dimension: int
    entropy: str
    secure: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def release(
    values: NDArray[Any], noise: GaussianNoise, entropy: Entropy, name: str
) -> tuple[FloatArray, ReleaseRecord]:
    """Add noise to a vector and write down what was declared about it.

    Guarantee
    ---------
    If the values of neighbours are at most ``noise.sensitivity`` apart, the released vector costs at most
    a Gaussian with mu = ``record.padded_sensitivity / noise.scale``. A smaller distance s in some hidden
    branch costs ``noise.padded(s) / noise.scale`` there.

    Raises
    ------
    InvalidInput
        If the values are not a vector of ``noise.dimension`` real numbers.
    NotCertified
        If a value is not finite.
    """
    return pass_gate(_real(values), noise, entropy, name)


def release_batch(
    values: NDArray[Any], noises: Sequence[Noise], entropy: Entropy, name: str
) -> tuple[FloatArray, list[ReleaseRecord]]:
    """Release each column of ``values``, shape (d, K), with its own noise; K separate releases."""
    values = _real(values)
    if values.ndim != 2 or values.shape[1] != len(noises):
        raise InvalidInput(
            f"A batch needs values of shape (d, K) and K noises; got {values.shape} and {len(noises)}."
        )

    def one(column: int) -> tuple[FloatArray, ReleaseRecord]:
        return pass_gate(values[:, column], noises[column], entropy, name)

    columns = range(len(noises))
    if entropy.secure and len(noises) >= _FEWEST_COLUMNS:
        with ThreadPoolExecutor(_THREADS) as threads:
            released = list(threads.map(one, columns))
    else:
        released = [one(column) for column in columns]
    noisy = np.stack([column for column, _ in released], axis=1) if released else np.empty_like(values)
    return noisy, [record for _, record in released]


def pass_gate(
    values: FloatArray, noise: Noise, entropy: Entropy, name: str
) -> tuple[FloatArray, ReleaseRecord]:
    """Every release comes through here, looked up at call time: the one place a replay has to watch."""
    gamma = isinstance(noise, GammaNormNoise)
    record = ReleaseRecord(
        name=f"{name} (norm Gamma distributed)" if gamma else name,
        sensitivity=noise.sensitivity,
        padded_sensitivity=noise.padded(noise.sensitivity),
        noise_scale=noise.scale,
        grid_exponent=noise.grid_exponent,
        dimension=noise.dimension,
        entropy=entropy.name,
        secure=entropy.secure,
    )
    if isinstance(noise, GammaNormNoise):
        return noise.add(values, entropy), record
    return add_noise(values, noise, entropy), record


def _real(values: NDArray[Any]) -> FloatArray:
    values = np.asarray(values)
    if values.dtype.kind not in "fiu":
        raise InvalidInput(f"Only arrays of real numbers can be released; got dtype {values.dtype}.")
    return values.astype(np.float64, copy=False)
