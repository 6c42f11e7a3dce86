"""The gate: the one place where numbers computed from rows meet randomness and become public."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy, SeededEntropy, SystemEntropy, entropy_from
from dperm.privacy.noise import SMALLEST_FLOAT, FloatArray, Noise
from dperm.privacy.secrets import FixedSizeBatch, PoissonBatch, SecretOrder

Scores = Any
"""What the candidates of a choice score: an array, or what a choice says it can also choose by."""


class Choice(Protocol):
    """What the gate asks of a private choice among candidates: what it declares, and how it is made."""

    @property
    def sensitivity(self) -> float: ...
    @property
    def scale(self) -> float: ...
    def padded(self, sensitivity: float) -> float: ...
    def choose(self, scores: Scores, entropy: Entropy) -> int: ...


@dataclass(frozen=True, kw_only=True)
class ReleaseRecord:
    """What one release declared; every field is public."""

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


class Gate:
    """Owns all randomness of a run and the records of what was released.

    A gate serves one job or several. Values of a batch have one column per job, each with its own noise, and each
    record goes to its job. Nothing computed from rows may leave a mechanism in another way, and no mechanism may ask
    another source for randomness.

    Guarantee
    ---------
    If the values of neighbours are at most ``noise.sensitivity`` apart, a released vector costs at most a Gaussian
    with mu = ``record.padded_sensitivity / noise.scale``. A smaller distance s in some hidden branch costs
    ``noise.padded(s) / noise.scale`` there.
    """

    def __init__(self, source: Entropy) -> None:
        self.source = source
        self._records: list[list[ReleaseRecord]] = [[]]

    @classmethod
    def system(cls) -> Self:
        """Randomness of the operating system: the only gate that gives privacy."""
        return cls(SystemEntropy())

    @classmethod
    def seeded(cls, seed: int | np.random.SeedSequence) -> Self:
        """A gate for experiments on public data: who knows the seed can subtract the noise."""
        return cls(SeededEntropy(seed))

    @classmethod
    def from_random_state(cls, random_state: Any) -> Self:
        return cls(entropy_from(random_state))

    @property
    def secure(self) -> bool:
        return self.source.secure

    def for_jobs(self, n: int) -> Self:
        """The same gate for n fresh jobs."""
        fresh = copy(self)
        fresh._records = [[] for _ in range(n)]
        return fresh

    def part(self, jobs: Sequence[int]) -> Self:
        """The same gate for some of its jobs; what they release is written down there."""
        some = copy(self)
        some._records = [self._records[job] for job in jobs]
        return some

    def records(self, job: int = 0) -> tuple[ReleaseRecord, ...]:
        return tuple(self._records[job])

    def release(self, values: NDArray[Any], noises: Sequence[Noise], name: str) -> FloatArray:
        """Release each column of ``values``, shape (d, K), with its own noise: K separate releases.

        Raises
        ------
        InvalidInput
            If the values are not real numbers, one column for each noise and job.
        NotCertified
            If a value is not finite.
        """
        columns = self._columns(values, noises)
        released = self._noisy(columns, noises, name)
        for records, noise in zip(self._records, noises, strict=True):
            records.append(
                self._record(noise, name + noise.record_suffix, noise.grid_exponent, noise.dimension)
            )
        return released

    def release_one(self, values: NDArray[Any], noise: Noise, name: str) -> FloatArray:
        """A vector, for a gate with one job."""
        return np.asarray(self.release(np.asarray(values)[:, None], [noise], name)[:, 0])

    def release_weights(self, values: FloatArray, noises: Sequence[Noise], name: str) -> FloatArray:
        """Values shaped as weights, (p, K) or (p, K, C), each model with its own noise."""
        moved = np.moveaxis(values, 1, -1)
        noisy = self.release(moved.reshape(-1, len(noises)), noises, name)
        return np.ascontiguousarray(np.moveaxis(noisy.reshape(moved.shape), -1, 1))

    def draw(self, noises: Sequence[Noise], name: str) -> FloatArray:
        """Noise alone, one column for each job, that a mechanism puts in its objective and never publishes.

        It is written down like a release, because the price of what follows rests on it.
        """
        dimension = noises[0].dimension if noises else 0
        return self.release(np.zeros((dimension, len(noises))), noises, name)

    def hide(self, values: NDArray[Any], noises: Sequence[Noise]) -> FloatArray:
        """Noisy columns that stay inside the mechanism; nothing is written down because nothing is released."""
        return self._hidden(self._columns(values, noises), noises)

    def choose(self, scores: Scores, choice: Choice, name: str) -> int:
        """Index of a candidate with about the lowest score, for a gate with one job.

        ``noise_scale`` of the record is that of Gumbel noise, ``dimension`` the number of candidates.
        """
        chosen = self._chosen(scores, choice, name)
        (records,) = self._records
        # no grid: the rounding of the scores is part of the allowance
        records.append(self._record(choice, name, SMALLEST_FLOAT, len(scores)))
        return chosen

    def order(self) -> SecretOrder:
        """A secret order of the rows."""
        return SecretOrder(self.source)

    def poisson(self, rate: float) -> PoissonBatch:
        """A secret batch that every row joins on its own with probability ``rate``."""
        return PoissonBatch(self.source, rate)

    def fixed_size(self, size: int) -> FixedSizeBatch:
        """A secret batch of ``size`` rows."""
        return FixedSizeBatch(self.source, size)

    def permutation(self, n: int) -> NDArray[np.int64]:
        """A random order of n things that are no rows, such as coordinates."""
        return self.source.permutation(n)

    def integer(self, words: int = 4) -> int:
        """A uniform integer of 64 bits for each word."""
        return int.from_bytes(self.source.words(words).tobytes(), "little")

    def _noisy(self, columns: FloatArray, noises: Sequence[Noise], name: str) -> FloatArray:
        """What leaves, a column for each noise; a gate that watches, or adds nothing, begins here."""
        noisy = np.empty_like(columns)
        for kind in dict.fromkeys(type(noise) for noise in noises):
            mine = [k for k, noise in enumerate(noises) if type(noise) is kind]
            noisy[:, mine] = kind.add_all(columns[:, mine], [noises[k] for k in mine], self.source)
        return noisy

    def _hidden(self, columns: FloatArray, noises: Sequence[Noise]) -> FloatArray:
        return self._noisy(columns, noises, "hidden noise")

    def _chosen(self, scores: Scores, choice: Choice, name: str) -> int:
        return choice.choose(scores, self.source)

    def _columns(self, values: NDArray[Any], noises: Sequence[Noise]) -> FloatArray:
        values = np.asarray(values)
        if values.dtype.kind not in "fiu":
            raise InvalidInput(f"Only arrays of real numbers can be released; got dtype {values.dtype}.")
        if values.ndim != 2 or values.shape[1] != len(noises):
            raise InvalidInput(
                f"A batch needs values of shape (d, K) and K noises; got {values.shape} and {len(noises)}."
            )
        if len(noises) != len(self._records):
            raise InvalidInput(f"The gate has {len(self._records)} jobs; got {len(noises)} noises.")
        return values.astype(np.float64, copy=False)

    def _record(self, drawn: Noise | Choice, name: str, grid_exponent: int, dimension: int) -> ReleaseRecord:
        return ReleaseRecord(
            name=name,
            sensitivity=drawn.sensitivity,
            padded_sensitivity=drawn.padded(drawn.sensitivity),
            noise_scale=drawn.scale,
            grid_exponent=grid_exponent,
            dimension=dimension,
            entropy=self.source.name,
            secure=self.source.secure,
        )
