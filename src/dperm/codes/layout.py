"""What the codes and numbers of a coded row stand for: a public matter, known before any row is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput

MOST_JOINT = 1024
"""Most values of a code that stands for several blocks of levels at once."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Levels:
    """``count`` columns from ``first`` on: all ``zero`` for code 0, else ``off`` but for the code's own, ``on``."""

    first: int
    count: int
    zero: float
    off: float
    on: float

    @property
    def n_codes(self) -> int:
        return self.count + 1


@dataclass(frozen=True, kw_only=True)
class Number:
    """One column: a stored number from -1 to 1, times ``size``."""

    column: int
    size: float


@dataclass(frozen=True, kw_only=True)
class Spline:
    """A number that has hats: the column ``linear``, and ``count`` columns from ``first`` on.

    Stored is 0 where the number is missing, and all columns are then zero. Otherwise it is a place from 1 to ``count``.
    At a whole place k the linear column is that share of the way from ``low`` to ``high``, hat k is ``on`` and the
    other hats are ``off``; between two whole places every column is linear.
    """

    linear: int
    first: int
    count: int
    low: float
    high: float
    off: float
    on: float

    @property
    def slopes(self) -> Floats:
        """The linear column at the places 1, 2, ..., ``count``."""
        share = np.arange(self.count) / (self.count - 1)
        return np.asarray((1 - share) * self.low + share * self.high)


@dataclass(frozen=True, kw_only=True)
class CodeLayout:
    """Every column of the rows, by what it is made of.

    Parameters
    ----------
    n_columns : int
    levels, numbers, splines
        Each column belongs to exactly one of them.
    reach : float
        No row is longer, whatever its codes and numbers.
    longest : float
        Longer rows are scaled down to this norm; infinite where none are.
    """

    n_columns: int
    levels: tuple[Levels, ...]
    numbers: tuple[Number, ...]
    splines: tuple[Spline, ...]
    reach: float
    longest: float = math.inf

    def __post_init__(self) -> None:
        owners = np.zeros(self.n_columns, np.int64)
        for levels in self.levels:
            owners[levels.first : levels.first + levels.count] += 1
        for number in self.numbers:
            owners[number.column] += 1
        for spline in self.splines:
            owners[spline.linear] += 1
            owners[spline.first : spline.first + spline.count] += 1
        if self.n_columns < 1 or (owners != 1).any():
            raise InvalidInput("every column of coded rows must belong to one block of levels or one number.")

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Which blocks of levels share a code, by their public sizes; in a code the last of a group counts fastest."""
        return _packed([levels.n_codes for levels in self.levels], MOST_JOINT)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each code has."""
        return tuple(math.prod(self.levels[i].n_codes for i in group) for group in self.groups)

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """What one step of each block of levels adds to the code of its group."""
        strides = [1] * len(self.levels)
        for group in self.groups:
            step = 1
            for i in reversed(group):
                strides[i], step = step, step * self.levels[i].n_codes
        return tuple(strides)

    @property
    def code_type(self) -> np.dtype[Any]:
        return np.dtype(np.uint16 if max(self.sizes, default=1) <= 2**16 else np.uint32)

    @property
    def n_floats(self) -> int:
        """Stored floats of a row: the numbers, then the places of the splines."""
        return len(self.numbers) + len(self.splines)

    @property
    def row_bytes(self) -> int:
        return self.code_type.itemsize * len(self.groups) + 4 * self.n_floats


def _packed(sizes: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
    """Put sizes together, large ones first, each in the first group whose product stays within ``most``."""
    groups: list[list[int]] = []
    for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        for group in groups:
            if math.prod(sizes[j] for j in group) * sizes[i] <= most:
                group.append(i)
                break
        else:
            groups.append([i])
    return tuple(map(tuple, groups))
