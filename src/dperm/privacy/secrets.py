"""Random orders and batches of rows: made at the gate, drawn once, where the rows are, and never shown."""

import math
from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy

Integers = NDArray[np.int64]


class _DrawnOnce(ABC):
    """Who asks twice gets the same rows; who asks for another number of them is refused."""

    def __init__(self, source: Entropy) -> None:
        self._source = source
        self._drawn: Integers | None = None
        self._n_rows = -1

    def _once(self, n_rows: int) -> Integers:
        if self._drawn is None:
            self._drawn, self._n_rows = self._draw(n_rows), n_rows
        if n_rows != self._n_rows:
            raise InvalidInput(
                f"an order or batch that was drawn for {self._n_rows} rows cannot be used for {n_rows}."
            )
        return self._drawn

    @abstractmethod
    def _draw(self, n_rows: int) -> Integers: ...


class SecretOrder(_DrawnOnce):
    """A uniformly random order of the rows."""

    def permutation(self, n_rows: int) -> Integers:
        return self._once(n_rows)

    def _draw(self, n_rows: int) -> Integers:
        return self._source.permutation(n_rows)


class SecretBatch(_DrawnOnce):
    """The rows of one random batch."""

    def positions(self, n_rows: int) -> Integers:
        return self._once(n_rows)


class PoissonBatch(SecretBatch):
    """Every row joins on its own, with a probability of at most ``rate``; the batch may be empty."""

    def __init__(self, source: Entropy, rate: float) -> None:
        super().__init__(source)
        self.rate = rate

    def _draw(self, n_rows: int) -> Integers:
        if self.rate == 1:
            return np.arange(n_rows)
        return np.flatnonzero(self._source.words(n_rows) < np.uint64(math.floor(math.ldexp(self.rate, 64))))


class FixedSizeBatch(SecretBatch):
    """A uniformly random set of ``size`` rows, none of them twice."""

    def __init__(self, source: Entropy, size: int) -> None:
        super().__init__(source)
        self.size = size

    def _draw(self, n_rows: int) -> Integers:
        return self._source.subset(n_rows, self.size)
