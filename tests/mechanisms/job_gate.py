"""A seeded gate whose jobs have noise of their own: what a job draws does not depend on the jobs beside it."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import Gate, SeededEntropy
from dperm.privacy.noise import Noise
from dperm.privacy.secrets import SecretOrder


class JobGate(Gate):
    """Lane k of a run draws from a stream that ``first + k`` names. All orders of so many rows are the same one."""

    def __init__(self, first: int = 0) -> None:
        super().__init__(SeededEntropy(99))
        self._first = first
        self._streams = [SeededEntropy(1000 + first)]

    def for_jobs(self, n: int) -> Self:
        fresh = super().for_jobs(n)
        fresh._streams = [SeededEntropy(1000 + self._first + k) for k in range(n)]
        return fresh

    def part(self, jobs: Sequence[int]) -> Self:
        some = super().part(jobs)
        some._streams = [self._streams[job] for job in jobs]
        return some

    def release(self, values: NDArray[Any], noises: Sequence[Noise], name: str) -> NDArray[np.float64]:
        parts = [
            Gate.release(self._job(k), values[:, k : k + 1], [noise], name) for k, noise in enumerate(noises)
        ]
        return np.hstack(parts)

    def hide(self, values: NDArray[Any], noises: Sequence[Noise]) -> NDArray[np.float64]:
        parts = [Gate.hide(self._job(k), values[:, k : k + 1], [noise]) for k, noise in enumerate(noises)]
        return np.hstack(parts)

    def choose(self, scores: Any, choice: Any, name: str) -> int:
        return Gate.choose(self._job(0), scores, choice, name)

    def order(self) -> SecretOrder:
        return SecretOrder(SeededEntropy(7))

    def permutation(self, n: int) -> NDArray[np.int64]:
        return SeededEntropy(7).permutation(n)

    def _job(self, k: int) -> Self:
        job = self.part([k])
        job.source = job._streams[0]
        return job
