"""Which rows belong to which person: samples, orders and batches of persons, as rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.engine.drawn import Batches, Order, Sample
from dperm.errors import InvalidInput

if TYPE_CHECKING:
    from dperm.engine.base import Engine

Integers = NDArray[np.int64]


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
