"""Who the rows that are counted belong to: each to itself or, where ids are given, to one of the persons.

A person counts as the mean of their rows. All of it is whole numbers: the parts that rows are of one person add up to
``WHOLE``, exactly, however many they are (docs/proofs/evaluation.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.estimators.persons import SHARE_BITS, GroupedRows

Integers = NDArray[np.int64]

BITS = 20
WHOLE = 2**BITS


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
    def of_persons(cls, grouped: GroupedRows) -> Owners:
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
