"""Orders, samples and batches of rows as engines take them: what is in one is drawn where the rows are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dperm.errors import Unsupported

Integers = NDArray[np.int64]


class Order(Protocol):
    """A random order of rows that is drawn once, where the rows are."""

    def permutation(self, n_rows: int) -> Integers: ...


class Sample(Protocol):
    """A random batch that is drawn once, where the rows are; it may be empty."""

    def positions(self, n_rows: int) -> Integers: ...


class OrderOfShards(Protocol):
    """A random order of rows that lie in shards. Both of its parts are as secret as the order."""

    @property
    def labels(self) -> NDArray[np.unsignedinteger[Any]]:
        """The shard of every place of the order."""

    def local(self, shard: int) -> Order:
        """The order of a shard's own rows. It can be pickled, and gives the same rows wherever it is asked."""


@runtime_checkable
class DivisibleOrder(Order, Protocol):
    """An order that can be drawn for rows that lie in shards of given sizes."""

    def split(self, counts: Sequence[int]) -> OrderOfShards: ...


@runtime_checkable
class DivisibleSample(Sample, Protocol):
    """A batch that can be drawn for rows that lie in shards: positions are counted shard after shard."""

    def split(self, counts: Sequence[int]) -> Sequence[Sample]: ...


class Batches(ABC):
    """Each model's own rows, cut into batches of public sizes. What is in one is the engine's business."""

    @property
    @abstractmethod
    def sizes(self) -> Integers:
        """Of shape (batches, models)."""

    @abstractmethod
    def only(self, batch: int) -> Self:
        """One of them by itself."""

    def counted_as(self, sizes: Integers) -> Self:
        """The same batches, whose sums are divided by other sizes: those of the persons in them."""
        raise Unsupported("batches of rows of this kind are counted by rows alone.")

    def __len__(self) -> int:
        return len(self.sizes)
