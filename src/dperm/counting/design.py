"""What is counted of the rows: parts of one vector, and how far one row moves it (docs/proofs/evaluation.md).

Everything is a whole number of steps of 2**-20 before noise. A histogram counts rows, or which parts of their persons
they are; a sum adds numbers that were rounded, row by row or person by person. Weights are powers of two. So the vector
is computed without any rounding, in whatever order.

A row belongs to itself or, where ids are given, to one of the persons. A person counts as the mean of their rows: the
parts that rows are of one person add up to ``WHOLE``, exactly, however many they are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.unit import SHARE_BITS, Neighbours

Vector = NDArray[np.float64]
Integers = NDArray[np.int64]

BITS = 20
WHOLE = 2**BITS
STEP = 1.0 / WHOLE
FLOAT_BITS = 53
MOST_ROWS = 2**32
"""More could make a sum of 2**20 steps each inexact as a float."""


class Grouped(Protocol):
    """Which rows belong to which person, as ``dperm.estimators.persons.GroupedRows`` knows it."""

    @property
    def person(self) -> Integers: ...
    @property
    def before(self) -> Integers: ...
    @property
    def n_persons(self) -> int: ...
    def shares(self) -> Integers: ...


@dataclass(frozen=True, eq=False)
class Owners:
    """The owner of each row, numbered from 0, and which part of its owner a row is, in steps of 1 / ``WHOLE``."""

    of: Integers
    parts: Integers
    count: int

    @classmethod
    def of_rows(cls, n_rows: int) -> Owners:
        return cls(np.arange(n_rows), np.full(n_rows, WHOLE, np.int64), n_rows)

    @classmethod
    def of_persons(cls, grouped: Grouped) -> Owners:
        """What rounding down leaves of a person is handed out to their first rows, one step to each."""
        even = grouped.shares() >> (SHARE_BITS - BITS)
        left = WHOLE - even * np.bincount(grouped.person)[grouped.person]
        return cls(grouped.person, even + (grouped.before < left), grouped.n_persons)

    @property
    def n_rows(self) -> int:
        return len(self.of)

    def histogram(self, cells: Integers, size: int) -> Integers:
        """The steps in each cell. They add up to ``WHOLE`` for every owner."""
        sums = np.zeros(size, np.int64)
        np.add.at(sums, cells, self.parts)
        return sums

    def sums(self, numbers: Integers) -> Integers:
        """Of each owner, the sum of the numbers of their rows times their parts: the mean, times ``WHOLE``."""
        found = np.zeros((self.count, *numbers.shape[1:]), np.int64)
        np.add.at(found, self.of, (numbers.T * self.parts).T)
        return found

    def means(self, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each owner, as floats: for exact figures alone."""
        return np.asarray(
            np.bincount(self.of, weights=numbers * self.parts, minlength=self.count) / WHOLE, np.float64
        )


class Part(ABC):
    """One stretch of the vector. ``weights`` are what its numbers are multiplied by, in units of its ``unit``."""

    name: str
    unit: float = STEP

    @property
    def size(self) -> int:
        return len(self.weights)

    @property
    @abstractmethod
    def weights(self) -> Vector: ...

    @abstractmethod
    def squared_gap(self, neighbours: Neighbours) -> float:
        """Largest squared distance, weights included, between what neighbours count."""


@dataclass(frozen=True)
class Histogram(Part):
    """Every row is in one of ``n_cells``; the rows of a person count together as one."""

    name: str
    n_cells: int
    weight: float = 1.0
    unit: float = STEP

    @property
    def weights(self) -> Vector:
        return np.full(self.n_cells, self.weight)

    def squared_gap(self, neighbours: Neighbours) -> float:
        """Two cells by 1 when a row is replaced, one when it comes or goes; spread over more cells it is less."""
        return neighbours.rows_changed * self.weight**2

    def count(self, cells: Integers, owners: Owners) -> Integers:
        return owners.histogram(cells, self.n_cells)


@dataclass(frozen=True)
class Shares(Part):
    """Sums of numbers from 0 to 1, as many for every row as there are weights, each with its own."""

    name: str
    each: tuple[float, ...]

    @property
    def weights(self) -> Vector:
        return np.array(self.each)

    def squared_gap(self, neighbours: Neighbours) -> float:
        """Each sum moves by at most 1, whichever relation: from 0 to 1, or by a row that counts 1."""
        return math.fsum(weight**2 for weight in self.each)

    def count(self, values: Vector, owners: Owners) -> Integers:
        """Sums of each column, in steps. The mean of a person is rounded down, so that it stays from 0 to 1."""
        steps = np.rint(np.clip(np.nan_to_num(values), 0.0, 1.0) / STEP).astype(np.int64)
        return np.asarray((owners.sums(steps) >> BITS).sum(axis=0))


@dataclass(frozen=True)
class Design:
    """All parts, in the order of the vector."""

    parts: tuple[Part, ...]

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    @property
    def weights(self) -> Vector:
        return np.concatenate([part.weights for part in self.parts])

    @property
    def stated(self) -> list[dict[str, Any]]:
        """The parts as a file states them; one weight where all numbers of a part have the same."""
        return [
            {
                "name": part.name,
                "size": part.size,
                "weights": _short(part.weights.tolist()),
                "step": part.unit,
            }
            for part in self.parts
        ]

    @property
    def units(self) -> Vector:
        return np.concatenate([np.full(part.size, part.unit) for part in self.parts])

    def place(self, name: str) -> slice:
        first = 0
        for part in self.parts:
            if part.name == name:
                return slice(first, first + part.size)
            first += part.size
        raise KeyError(name)

    def has(self, name: str) -> bool:
        return any(part.name == name for part in self.parts)

    def sensitivity(self, neighbours: Neighbours) -> float:
        """Largest Euclidean distance between the vectors of neighbours: the parts stand beside each other."""
        return math.sqrt(math.fsum(part.squared_gap(neighbours) for part in self.parts))

    def vector(self, counts: Mapping[str, Integers]) -> Vector:
        """The weighted vector; exact, because every factor is a power of two and every count fits a float."""
        joined = np.concatenate([counts[part.name] for part in self.parts])
        if len(joined) != self.size or joined.dtype != np.int64:
            raise InvalidInput("counts do not fit the design.")
        return joined.astype(np.float64) * (self.weights * self.units)


def _short(weights: list[float]) -> list[float]:
    return weights[:1] if len(set(weights)) == 1 else weights


def share_bits(n_persons: int) -> int:
    """How fine the shares of rows in their persons may be for counts of so many persons to be exact as floats."""
    return min(SHARE_BITS, FLOAT_BITS - int(n_persons).bit_length())


def shared_counts(
    cells: Integers, n_cells: int, shares: Integers | None = None, bits: int = SHARE_BITS
) -> Integers:
    """The rows in each cell; with ``shares``, the sum of their shares in whole ``2**-bits``ths, rounded down."""
    counts = np.zeros(n_cells, np.int64)
    np.add.at(counts, cells, 1 if shares is None else shares >> (SHARE_BITS - bits))
    return counts
