"""Rows that are kept as codes and a few numbers instead of one-hot floats. What a code stands for is public."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.typing import Floats, Integers

MOST_JOINT = 1024
"""Most values of a code that stands for several blocks of levels at once."""


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
            raise InvalidInput(
                "every column of categorical rows must belong to one block of levels or one number."
            )

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """Which blocks of levels share a code, by their public sizes; in a code the last of a group counts fastest."""
        sizes = [levels.n_codes for levels in self.levels]
        groups: list[list[int]] = []
        for i in sorted(range(len(sizes)), key=lambda i: -sizes[i]):  # each in the first that has room for it
            for group in groups:
                if math.prod(sizes[j] for j in group) * sizes[i] <= MOST_JOINT:
                    group.append(i)
                    break
            else:
                groups.append([i])
        return tuple(map(tuple, groups))

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


BLOCK = 64
"""Rows whose codes lie side by side, column by column, so that a pass reads and adds them together."""

_ROWS_AT_ONCE = 4096


class CodedTable:
    """Rows of ``layout.n_columns`` numbers, kept as codes and a few floats.

    Parameters
    ----------
    layout : CodeLayout
        What they stand for.
    codes : array of shape (blocks, codes, 64)
        The codes of the layout's groups for 64 rows at a time, of its ``code_type``.
    floats : float32 array of shape (blocks, numbers, 64)
    n_rows : int
        What lies beyond in the last block is not looked at.
    feature_names : sequence of str, optional
        Names of the columns.
    """

    ndim = 2
    dtype = np.dtype(np.float64)

    def __init__(
        self,
        layout: CodeLayout,
        codes: NDArray[Any],
        floats: NDArray[np.float32],
        n_rows: int,
        feature_names: Sequence[str] | None = None,
    ) -> None:
        blocks = -(-n_rows // BLOCK)
        for array, width, dtype in (
            (codes, len(layout.groups), layout.code_type),
            (floats, layout.n_floats, np.dtype(np.float32)),
        ):
            if array.shape != (blocks, width, BLOCK) or array.dtype != dtype:
                raise InvalidInput(
                    f"categorical rows need an array of {dtype} and shape ({blocks}, {width}, {BLOCK}); got "
                    f"{array.dtype} and {array.shape}."
                )
        self.layout, self.codes, self.floats, self._n_rows = layout, codes, floats, n_rows
        self.feature_names = None if feature_names is None else tuple(feature_names)

    @property
    def shape(self) -> tuple[int, int]:
        return self._n_rows, self.layout.n_columns

    @property
    def nbytes(self) -> int:
        return int(self.codes.nbytes + self.floats.nbytes)

    def __len__(self) -> int:
        return self._n_rows

    def __iter__(self) -> Iterator[Floats]:
        return iter(self.toarray())

    def __repr__(self) -> str:
        return f"CodedTable of {self.shape[0]} rows and {self.shape[1]} columns"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What holds the rows, by name; an array without columns is left out."""
        held = {"codes": self.codes, "floats": self.floats}
        return {name: array for name, array in held.items() if array.shape[1]}

    @classmethod
    def from_arrays(cls, layout: CodeLayout, arrays: Mapping[str, NDArray[Any]], n_rows: int) -> Self:
        """The table that gave these ``arrays``; they are not copied, and may be memory maps that nobody writes to."""
        nothing = np.empty((-(-n_rows // BLOCK), 0, BLOCK))
        return cls(
            layout,
            arrays.get("codes", nothing.astype(layout.code_type)),
            arrays.get("floats", nothing.astype(np.float32)),
            n_rows,
        )

    @classmethod
    def from_rows(
        cls,
        layout: CodeLayout,
        codes: NDArray[Any],
        floats: NDArray[np.float32],
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """From one line for each row: codes of shape (rows, codes) and floats of shape (rows, numbers)."""
        return cls(layout, _blocks(codes), _blocks(floats), len(codes), feature_names)

    @classmethod
    def concatenate(cls, parts: Sequence[CodedTable]) -> Self:
        """The rows of all parts, one after the other."""
        if not parts or any(part.layout != parts[0].layout for part in parts):
            raise InvalidInput("only categorical rows of one layout can be joined.")
        lines = [part.rows(0, len(part)) for part in parts]
        codes, floats = (np.concatenate(pieces) for pieces in zip(*lines, strict=True))
        return cls.from_rows(parts[0].layout, codes, floats, parts[0].feature_names)

    def rows(self, first: int, last: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Codes and floats of the rows [first, last), one line for each."""
        return _lines(self.codes, first, last), _lines(self.floats, first, last)

    def take(self, index: Integers) -> Self:
        """A copy of these rows alone, in this order."""
        block, place = np.divmod(index, BLOCK)
        picked = self.codes[block, :, place], self.floats[block, :, place]
        return self.from_rows(self.layout, *picked, self.feature_names)

    def __getitem__(self, key: Any) -> Any:
        """Rows, chosen as in NumPy, stay coded. One row, or a choice of columns, is given as an array."""
        chosen, *columns = key if isinstance(key, tuple) else (key,)
        columns = [column for column in columns if column is not Ellipsis]
        rows = self._chosen(chosen)
        if isinstance(rows, int):
            return self.take(np.array([rows])).toarray()[(0, *columns)]
        return rows.toarray()[(slice(None), *columns)] if columns else rows

    def _chosen(self, key: Any) -> Self | int:
        if key is Ellipsis:
            return self
        if isinstance(key, slice):
            first, last, step = key.indices(self._n_rows)
            if step == 1 and first % BLOCK == 0:
                blocks = slice(first // BLOCK, -(-max(first, last) // BLOCK))
                count = max(0, last - first)
                return type(self)(
                    self.layout, self.codes[blocks], self.floats[blocks], count, self.feature_names
                )
            return self.take(np.arange(first, last, step, dtype=np.int64))
        index = np.arange(self._n_rows, dtype=np.int64)[key]
        return int(index) if index.ndim == 0 else self.take(index)

    def toarray(self) -> Floats:
        """The rows as float64 numbers, one for each column."""
        out = np.empty(self.shape)
        for first in range(0, len(self), _ROWS_AT_ONCE):
            last = min(first + _ROWS_AT_ONCE, len(self))
            _decode(self.layout, *self.rows(first, last), out[first:last])
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("categorical rows become an array only by a copy.")
        return self.toarray().astype(dtype or np.float64, copy=False)


def _blocks(lines: NDArray[Any]) -> NDArray[Any]:
    """From (rows, width) to (blocks, width, BLOCK); the last block ends in zeros."""
    n, width = lines.shape
    out = np.zeros((-(-n // BLOCK), width, BLOCK), lines.dtype)
    full = n // BLOCK
    out[:full] = lines[: full * BLOCK].reshape(full, BLOCK, width).transpose(0, 2, 1)
    if full < len(out):
        out[full, :, : n - full * BLOCK] = lines[full * BLOCK :].T
    return out


def _lines(blocks: NDArray[Any], first: int, last: int) -> NDArray[Any]:
    begin = first // BLOCK
    held = blocks[begin : -(-last // BLOCK)]
    lines = held.transpose(0, 2, 1).reshape(len(held) * BLOCK, blocks.shape[1])
    return lines[first - begin * BLOCK : last - begin * BLOCK]


def _decode(layout: CodeLayout, codes: NDArray[Any], floats: NDArray[np.float32], out: Floats) -> None:
    row = np.arange(len(out))
    for group, joint in zip(layout.groups, codes.T.astype(np.int64), strict=True):
        for i in group:
            levels = layout.levels[i]
            code = joint // layout.strides[i] % levels.n_codes
            known = np.flatnonzero(code)
            block = out[:, levels.first : levels.first + levels.count]
            block[:] = levels.off
            block[known, code[known] - 1] = levels.on
            block[code == 0] = levels.zero
    values = floats.T.astype(np.float64)
    for number, value in zip(layout.numbers, values, strict=False):
        out[:, number.column] = value * number.size
    for spline, value in zip(layout.splines, values[len(layout.numbers) :], strict=True):
        left = np.clip(value.astype(np.int64), 1, spline.count - 1)
        share = value - left
        knots = spline.slopes
        missing = value == 0
        linear = (1 - share) * knots[left - 1] + share * knots[left]
        out[:, spline.linear] = np.where(missing, 0.0, linear)
        hats = out[:, spline.first : spline.first + spline.count]
        hats[:] = spline.off
        hats[row, left - 1] += (1 - share) * (spline.on - spline.off)
        hats[row, left] += share * (spline.on - spline.off)
        hats[missing] = 0.0
    if layout.longest < np.inf:
        norms = np.sqrt(np.einsum("ij,ij->i", out, out))
        out /= np.maximum(norms / layout.longest, 1.0)[:, None]
