"""Orders, samples and batches of rows as engines take them: what is in one is drawn where the rows are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput, Unsupported
from dperm.typing import Integers

if TYPE_CHECKING:
    from dperm.engine.base.engine import Engine


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


@dataclass(frozen=True, eq=False)
class Batches:
    """Each model's own rows, cut into batches of public sizes, ``(batches, models)``, at the engine's own edges."""

    edges: Integers
    sizes: Integers

    def only(self, batch: int) -> Self:
        """One of them by itself."""
        return replace(self, edges=self.edges[batch : batch + 2], sizes=self.sizes[batch : batch + 1])

    def counted_as(self, sizes: Integers) -> Self:
        """The same batches, whose sums are divided by other sizes: those of the persons in them."""
        raise Unsupported("batches of rows of this kind are counted by rows alone.")

    def __len__(self) -> int:
        return len(self.sizes)


class Ranges(Batches):
    """Batch j of model k is its rows at positions ``edges[j, k] <= i < edges[j + 1, k]``."""

    def counted_as(self, sizes: Integers) -> Self:
        return replace(self, sizes=sizes)


def check_sizes(counts: NDArray[Any], own_counts: Integers) -> None:
    """Refuse sizes of batches that do not take every row of each model exactly once."""
    if counts.ndim != 2 or counts.dtype.kind not in "iu" or counts.size == 0 or counts.min() < 1:
        raise InvalidInput("batch sizes must be whole numbers of at least 1, of shape (batches, models).")
    totals = counts.sum(axis=0)
    if (totals != own_counts).any():
        k = int(np.flatnonzero(totals != own_counts)[0])
        raise InvalidInput(
            f"batch sizes must sum to the number of rows of each model; model {k} has {own_counts[k]} rows "
            f"and its batches hold {totals[k]}."
        )


def cuts_of(counts: NDArray[Any], mask: NDArray[Any] | None) -> Integers:
    """The places among all rows where batches of so many of each model's own rows begin and end, ``(m + 1, K)``."""
    cuts = np.zeros((counts.shape[0] + 1, counts.shape[1]), np.int64)
    np.cumsum(counts, axis=0, out=cuts[1:])
    if mask is not None:
        for k in range(counts.shape[1]):
            own = np.flatnonzero(mask[:, k])
            cuts[1:-1, k] = own[cuts[1:-1, k]]
        cuts[0], cuts[-1] = 0, len(mask)
    return cuts


class Members:
    """The rows of every person, by their places in the table.

    Parameters
    ----------
    person : array of shape (rows,)
        The number of the person of each row. Persons are numbered by their first rows.
    n_persons : int
        The public number of persons, or capacity. One without rows stands for an absent person, who gets an empty row.
    bound : float
        The largest weight of a row: what a person adds is bounded as one row of that weight would be.
    """

    def __init__(self, person: Integers, n_persons: int, bound: float) -> None:
        present = int(person.max()) + 1 if person.size else 0
        if present > n_persons:
            raise InvalidInput(
                f"groups names more persons than the declared number, {n_persons}. Declare a larger one, chosen "
                "without looking at the data."
            )
        self.n_persons, self.bound = n_persons, bound
        absent = np.arange(present, n_persons, dtype=np.int64)
        person = np.concatenate([np.asarray(person, np.int64), absent])
        self.n_rows = len(person)
        self._rows = np.argsort(person, kind="stable")
        counts = np.bincount(person, minlength=n_persons)
        self._starts = np.concatenate([[0], np.cumsum(counts)])

    def rows_of(self, persons: Integers) -> Integers:
        """The places of the rows of these persons, one person after the other."""
        first, counts = self._starts[persons], self.counts(persons)
        ends = np.cumsum(counts)
        within = np.arange(ends[-1] if ends.size else 0) - np.repeat(ends - counts, counts)
        return np.asarray(self._rows[np.repeat(first, counts) + within])

    def counts(self, persons: Integers) -> Integers:
        return np.asarray(self._starts[persons + 1] - self._starts[persons])

    def drawn(self, sample: Sample) -> Sample:
        """The rows of the persons that a sample picks."""
        return _RowsOfSome(self, sample)

    def first_rows(self) -> Sample:
        """One row of every person: the first."""
        return KnownRows(self._rows[self._starts[:-1]])

    def ordered(self, order: Order | None) -> OrderOfPersons:
        """The rows of all persons, in an order of the persons."""
        return OrderOfPersons(self, order)


class OrderOfPersons:
    """Persons in an order that is drawn once, each with all rows."""

    def __init__(self, members: Members, order: Order | None) -> None:
        n = members.n_persons
        persons = np.arange(n) if order is None else np.asarray(order.permutation(n))
        self._rows, self._counts = members.rows_of(persons), members.counts(persons)

    def permutation(self, n_rows: int) -> Integers:
        return self._rows

    def batches(self, engine: Engine, sizes: Integers) -> Batches:
        """Batches of so many persons, ``(m, 1)``, of rows that lie in this order."""
        ends = np.concatenate([[0], np.cumsum(self._counts)])[np.cumsum(sizes, axis=0)]
        return engine.batches(np.diff(ends, axis=0, prepend=0)).counted_as(sizes)


class _RowsOfSome:
    def __init__(self, members: Members, sample: Sample) -> None:
        self._members, self._sample = members, sample

    def positions(self, n_rows: int) -> Integers:
        return self._members.rows_of(self._sample.positions(self._members.n_persons))

    def split(self, counts: Sequence[int]) -> list[Sample]:
        return KnownRows(self.positions(sum(counts))).split(counts)


class KnownRows:
    """A sample that nobody draws any more; it can be pickled."""

    def __init__(self, rows: Integers) -> None:
        self._places = np.sort(rows)

    def positions(self, n_rows: int) -> Integers:
        return self._places

    def split(self, counts: Sequence[int]) -> list[Sample]:
        firsts = np.cumsum([0, *counts])
        edges = np.searchsorted(self._places, firsts)
        return [
            KnownRows(self._places[a:b] - first)
            for a, b, first in zip(edges, edges[1:], firsts, strict=False)
        ]
