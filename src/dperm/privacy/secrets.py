"""Random orders and batches of rows: made at the gate, drawn once, where the rows are, and never shown."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.privacy.entropy import Entropy, Words, order_of

Integers = NDArray[np.int64]
Labels = NDArray[np.uint16] | NDArray[np.uint32]

SECRET_BYTES = 32
MOST_ROWS = 2**32
_LABEL = b"dperm task words 1"
_WORDS_AT_ONCE = 2**17  # of a sample or of a shuffle: what memory they need does not grow with the rows


def new_secret(source: Entropy) -> bytes:
    return source.words(SECRET_BYTES // 8).tobytes()


def task_words(secret: bytes, shard: int, step: int, n: int) -> Words:
    """``n`` words of 64 bits that belong to a shard and a step: SHAKE-128 of a label, the secret and both numbers.

    Fewer words are the first of more. Who knows the secret can compute them, and nobody else can tell them from
    uniform ones, as far as SHAKE-128 is what it is believed to be.
    """
    if len(secret) != SECRET_BYTES:
        raise InvalidInput(f"a secret has {SECRET_BYTES} bytes; got {len(secret)}.")
    name = _LABEL + secret + shard.to_bytes(8, "little") + step.to_bytes(8, "little")
    return np.frombuffer(hashlib.shake_128(name).digest(8 * n), "<u8").astype(np.uint64, copy=False)


def chosen(words: Words, rate: float) -> Integers:
    """Where a word is below ``rate``, rounded down to 64 bits."""
    return np.flatnonzero(words < np.uint64(math.floor(math.ldexp(rate, 64))))


@dataclass(frozen=True, eq=False)
class LocalOrder:
    """The secret order of the rows of one shard: as drawn elsewhere, or from a secret when it is asked for."""

    shard: int
    n_rows: int
    drawn: Integers | None = field(default=None, repr=False)
    secret: bytes = field(default=b"", repr=False)

    def permutation(self, n_rows: int) -> Integers:
        """Sort 64-bit keys; all of the next step if two are equal."""
        _same_number(self.n_rows, n_rows)
        order, step = self.drawn, 0
        while order is None:
            order, step = order_of(task_words(self.secret, self.shard, step, n_rows)), step + 1
        return order


class SplitOrder:
    """A secret order of rows that lie in shards.

    ``labels`` names the shard of every place of the order; the r-th place of a shard holds row
    ``local(shard).permutation(n)[r]`` of that shard. Both are secret.
    """

    def __init__(self, labels: Labels, parts: Sequence[LocalOrder]) -> None:
        self.labels, self._parts = labels, tuple(parts)

    @classmethod
    def draw(cls, source: Entropy, counts: Sequence[int]) -> SplitOrder:
        """A uniformly random one: labels shuffled here, and a secret for the orders inside the shards."""
        labels, secret = _labels(counts), new_secret(source)
        _shuffle(labels, source)
        return cls(labels, [LocalOrder(shard, n, secret=secret) for shard, n in enumerate(counts)])

    @classmethod
    def cut(cls, order: Integers, counts: Sequence[int]) -> SplitOrder:
        """An order of all rows, shard after shard, that was drawn already."""
        labels = _labels(counts)[order]
        firsts = _firsts(counts)
        parts = [
            LocalOrder(shard, n, drawn=order[labels == shard] - firsts[shard])
            for shard, n in enumerate(counts)
        ]
        return cls(labels, parts)

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(part.n_rows for part in self._parts)

    def local(self, shard: int) -> LocalOrder:
        return self._parts[shard]

    def permutation(self) -> Integers:
        """The order of all rows, counted shard after shard."""
        order = np.empty(len(self.labels), np.int64)
        for part, first in zip(self._parts, _firsts(self.counts), strict=True):
            order[self.labels == part.shard] = first + part.permutation(part.n_rows)
        return order


@dataclass(frozen=True, eq=False)
class LocalSample:
    """The rows of one shard that are in a secret batch: as drawn elsewhere, or each with probability ``rate``."""

    shard: int
    rate: float = 1.0
    n_rows: int | None = None
    drawn: Integers | None = field(default=None, repr=False)
    secret: bytes = field(default=b"", repr=False)

    def positions(self, n_rows: int) -> Integers:
        """In increasing order."""
        if self.n_rows is not None:
            _same_number(self.n_rows, n_rows)
        if self.drawn is not None:
            return self.drawn
        if self.rate == 1:
            return np.arange(n_rows)
        found = [np.empty(0, np.int64)]
        for step, first in enumerate(range(0, n_rows, _WORDS_AT_ONCE)):
            words = task_words(self.secret, self.shard, step, min(_WORDS_AT_ONCE, n_rows - first))
            found.append(first + chosen(words, self.rate))
        return np.concatenate(found)


def whole_sample(parts: Sequence[LocalSample], counts: Sequence[int]) -> Integers:
    """The batch in all rows, counted shard after shard, of its parts."""
    places = zip(parts, counts, _firsts(counts), strict=True)
    return np.concatenate([np.empty(0, np.int64), *(first + part.positions(n) for part, n, first in places)])


def cut_sample(positions: Integers, counts: Sequence[int]) -> list[LocalSample]:
    """A batch of all rows, counted shard after shard, that was drawn already."""
    ordered, firsts = np.sort(positions), _firsts(counts)
    edges = np.searchsorted(ordered, [*firsts, sum(counts)])
    return [
        LocalSample(shard, n_rows=n, drawn=ordered[edges[shard] : edges[shard + 1]] - firsts[shard])
        for shard, n in enumerate(counts)
    ]


def _same_number(expected: int, n_rows: int) -> None:
    if n_rows != expected:
        raise InvalidInput(f"this part of an order or batch is for a shard of {expected} rows, not {n_rows}.")


def _firsts(counts: Sequence[int]) -> Integers:
    return np.cumsum([0, *counts])[:-1]


def _labels(counts: Sequence[int]) -> Labels:
    if any(n < 0 for n in counts) or not sum(counts) <= MOST_ROWS:
        raise InvalidInput(
            f"shards hold 0 rows or more and at most 2**32 together; got {len(counts)} shards of {sum(counts)} rows."
        )
    names = np.arange(len(counts), dtype=np.uint32)
    if len(counts) <= 2**16:
        return np.repeat(names.astype(np.uint16), counts)
    return np.repeat(names, counts)


def _shuffle(items: Labels, source: Entropy) -> None:
    from dperm.privacy._integer_kernels import shuffle

    place = len(items) - 1
    while place > 0:
        words = source.words(min(_WORDS_AT_ONCE, place // 2 + 8))
        # writable: one kind of array to compile for
        place = shuffle(items, place, words.copy().view(np.uint32))


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
