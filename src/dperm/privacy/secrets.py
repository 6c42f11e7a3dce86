"""Random orders and batches of rows: made at the gate, drawn once, where the rows are, and never shown."""

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy
from dperm.privacy.shards import LocalSample, SplitOrder, chosen, cut_sample, new_secret

Integers = NDArray[np.int64]


class _DrawnOnce(ABC):
    """Who asks twice gets the same rows; who asks for another number of them, or for shards of them, is refused."""

    def __init__(self, source: Entropy) -> None:
        self._source = source
        self._drawn: Integers | None = None
        self._n_rows = -1
        self._in_shards = False

    def _once(self, n_rows: int) -> Integers:
        if self._in_shards:
            raise InvalidInput("an order or batch that was drawn in shards cannot be drawn as a whole.")
        if self._drawn is None:
            self._drawn, self._n_rows = self._draw(n_rows), n_rows
        if n_rows != self._n_rows:
            raise InvalidInput(
                f"an order or batch that was drawn for {self._n_rows} rows cannot be used for {n_rows}."
            )
        return self._drawn

    def _for_shards(self) -> None:
        if self._drawn is not None:
            raise InvalidInput("an order or batch that was drawn as a whole cannot be drawn in shards.")
        self._in_shards = True

    @abstractmethod
    def _draw(self, n_rows: int) -> Integers: ...


class SecretOrder(_DrawnOnce):
    """A uniformly random order of the rows."""

    _split: SplitOrder | None = None

    def permutation(self, n_rows: int) -> Integers:
        return self._once(n_rows)

    def split(self, counts: Sequence[int]) -> SplitOrder:
        """A uniformly random order of rows that lie in shards of these sizes; no shard sees another's."""
        self._for_shards()
        if self._split is None:
            self._split = SplitOrder.draw(self._source, counts)
        if tuple(counts) != self._split.counts:
            raise InvalidInput("an order that was drawn for shards cannot be used for shards of other sizes.")
        return self._split

    def _draw(self, n_rows: int) -> Integers:
        return self._source.permutation(n_rows)


class SecretBatch(_DrawnOnce):
    """The rows of one random batch."""

    def positions(self, n_rows: int) -> Integers:
        return self._once(n_rows)

    def split(self, counts: Sequence[int]) -> list[LocalSample]:
        """The parts of the batch in shards of these sizes: all that a shard needs to know."""
        return cut_sample(self.positions(sum(counts)), counts)


class PoissonBatch(SecretBatch):
    """Every row joins on its own, with a probability of at most ``rate``; the batch may be empty."""

    def __init__(self, source: Entropy, rate: float) -> None:
        super().__init__(source)
        self.rate = rate
        self._secret: bytes | None = None

    def split(self, counts: Sequence[int]) -> list[LocalSample]:
        return [self.part(shard) for shard in range(len(counts))]

    def part(self, shard: int) -> LocalSample:
        """The part of a shard, of whatever size: every row joins by the words of the shard's own task."""
        self._for_shards()
        if self._secret is None:
            self._secret = new_secret(self._source) if self.rate < 1 else b""
        return LocalSample(shard, self.rate, secret=self._secret)

    def _draw(self, n_rows: int) -> Integers:
        return np.arange(n_rows) if self.rate == 1 else chosen(self._source.words(n_rows), self.rate)


class FixedSizeBatch(SecretBatch):
    """A uniformly random set of ``size`` rows, none of them twice."""

    def __init__(self, source: Entropy, size: int) -> None:
        super().__init__(source)
        self.size = size

    def _draw(self, n_rows: int) -> Integers:
        return self._source.subset(n_rows, self.size)
