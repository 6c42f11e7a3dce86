"""Gates for tests: one that adds no noise, and one that keeps what it released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.privacy import Gate, ReleaseRecord, SeededEntropy
from dperm.privacy.entropy import Entropy
from dperm.privacy.gate import Choice, Scores
from dperm.privacy.noise import Noise

Vector = NDArray[np.float64]


class SilentGate(Gate):
    """Lets everything through without noise, and the lowest score win. Never private, and its records say so.

    ``exact`` holds what came to each release, in order.
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__(_Silence(seed))
        self.exact: list[Vector] = []

    def _noisy(self, columns: Vector, noises: Sequence[Noise], name: str) -> Vector:
        self.exact.extend(columns.T.copy())
        return columns.copy()

    def _hidden(self, columns: Vector, noises: Sequence[Noise]) -> Vector:
        return columns.copy()

    def _chosen(self, scores: Scores, choice: Choice, name: str) -> int:
        return int(np.argmin(scores))


class _Silence(SeededEntropy):
    name = "none: no noise is added, not private"


class Release(NamedTuple):
    """What one record belongs to: the value before noise, and after."""

    record: ReleaseRecord
    exact: Vector
    noisy: Vector


class KeepingGate(Gate):
    """A gate that keeps every release of vectors by the identity of its record."""

    def __init__(self, source: Entropy) -> None:
        super().__init__(source)
        self.kept: dict[int, Release] = {}

    def release(self, values: NDArray[Any], noises: Sequence[Noise], name: str) -> Vector:
        released = super().release(values, noises, name)
        for k, records in enumerate(self._records):
            record = records[-1]
            self.kept[id(record)] = Release(record, np.array(values[:, k], np.float64), released[:, k])
        return released
