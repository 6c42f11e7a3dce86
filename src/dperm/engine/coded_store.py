"""Opened coded rows, and the one pass that bounds them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, UNIT_ROUNDOFF
from dperm.codes import CodedTable
from dperm.codes.table import BLOCK
from dperm.engine import _kernels_coded_rows as kernels
from dperm.engine._kernels_coded import fill_table
from dperm.engine.base import Floats, Integers
from dperm.engine.code_entries import CodeEntries, CodeFields, rounding_of_squares
from dperm.engine.stored import Stored
from dperm.errors import InvalidInput
from dperm.row_map import RowMap

_LIMIT = 2.0**400  # bounds on rows stay within it, so that squares have room


@dataclass(frozen=True)
class Precision:
    """What passes over coded rows add up one after the other, by public numbers alone.

    ``roundings``  of a margin, in units of 2^-53 times the bound on a row;
    ``hidden``     by how much the parts of a row, taken without signs, may exceed it, in units of its bound;
    ``depth``      additions between sums per code and a column.
    """

    roundings: float
    hidden: float
    depth: float

    @classmethod
    def of(cls, fields: CodeFields, entries: CodeEntries, distance: float, x_norm: float) -> Precision:
        """``distance`` is the norm of what rows are moved by apart from their entries."""
        hidden = (entries.hidden(fields) + 2 * distance) / x_norm
        blocks = len(fields.n_levels) + len(fields.knots) + len(fields.number)
        chain = (
            max((*fields.n_levels, *fields.knots), default=0) + blocks + (3 if len(fields.knots) else 0) + 4
        )
        rounded = 2 * (entries.rounded(fields) + distance) / x_norm
        roundings = float(chain * (1 + hidden) + rounded)
        return cls(roundings, hidden, float(entries.depth(fields, x_norm) + blocks + 4))

    def suffices(self, n_columns: int) -> bool:
        """Whether margins and sums are as precise as float64 arithmetic promises.

        A sum over n rows has a chain of at most n additions, and of at most ``part`` + ``depth`` + 64.
        """
        return self.roundings <= 2 * n_columns and self.hidden <= 2.5 and self.depth <= 1000

    def part(self, n_rows: int, copies: int) -> int:
        """Rows that may be added to so many interleaved sums before these are added to others."""
        allowed = FLOAT64.sum_error(n_rows) / UNIT_ROUNDOFF / (1 + self.hidden)
        chain = min(n_rows / 64 + 1024, allowed - min(self.depth, n_rows) - 64)
        return copies * max(64, int(chain))


@dataclass(frozen=True, repr=False, kw_only=True)
class StoredCoded(Stored):
    r"""Opened coded rows.

    The row is ``inner`` times the entries of its codes and numbers (``entries``) less ``outer`` times ``moved``, in
    exact arithmetic, and the intercept. An empty row has factors of zero, and no intercept.
    """

    table: CodedTable
    fields: CodeFields
    entries: CodeEntries
    moved: Floats
    intercept: float
    inner: Floats
    outer: Floats
    precision: Precision

    @property
    def n_columns(self) -> int:
        return self.table.shape[1] + (self.intercept > 0)

    def densely(self, first: int, last: int) -> Floats:
        return self.block(first, last, np.dtype(np.float64))

    def block(self, first: int, last: int, dtype: np.dtype[Any]) -> NDArray[Any]:
        """Some of the rows as an array."""
        out = np.empty((last - first, self.n_columns), dtype)
        codes, floats = read_only(self.table)
        how = (self.inner, self.outer, self.moved, self.intercept)
        kernels.densify(self.fields, self.entries, codes, floats, *how, first, last, out)
        return out

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {"table": self.table.take(index), "inner": self.inner[index], "outer": self.outer[index]}


def bounded(
    table: CodedTable, row_map: RowMap, moves: tuple[Floats, Floats], empty: Integers, common: dict[str, Any]
) -> StoredCoded:
    r"""One pass: refuse codes and numbers that the layout does not know, and find the factors that bound each row.

    Why the bound holds. A row is (g v - f m), v the entries of its codes and m what the map subtracts, both divided
    by the scale. Where no row as it came can be longer than ``x_norm``, the centre is part of the entries and m is
    empty: then q = ||v||^2 is a sum of one number for each code, and of squares. Otherwise g = a f with
    a = min(1, x_norm / ||x||), and q = ||a v - m||^2 = a^2 ||v||^2 - 2 a <v, m> + ||m||^2. In both cases the
    error of the computed q is below the slack, so f is 1 only if q <= x_norm^2, and is otherwise below
    x_norm / sqrt(q) by 2^-49, which is more than its own roundings; that of g is part of the slack.
    """
    layout, x_norm, intercept = table.layout, row_map.x_norm, row_map.intercept
    for bound in (x_norm, intercept or 1.0):
        if not 1 / _LIMIT <= bound <= _LIMIT:
            raise InvalidInput("x_norm and intercept of coded rows must lie between 2^-400 and 2^400.")
    fields, (codes, floats) = CodeFields.of(layout), read_only(table)
    if kernels.out_of_range(fields, codes, floats, len(codes) * BLOCK):
        raise InvalidInput("the codes are not those of their layout; encode the table anew.")
    centre, spread = moves
    as_one = not row_map.moves or (layout.longest == math.inf and layout.reach <= x_norm)
    entries = CodeEntries.of(layout, centre if as_one else np.empty(0), spread)
    moved = np.empty(0) if as_one else centre / spread
    distance = float(np.linalg.norm(moved))
    slack = rounding_of_squares(layout.n_columns, entries.longest(fields) + distance)
    squares, own = _squares(fields, entries, table), np.ones(len(table))
    if not as_one:
        own = _shortened(fields, table, min(layout.longest, x_norm))
        weights, along = np.zeros(fields.table_size), np.empty(len(table))
        fill_table(fields, entries, moved, weights)
        kernels.products(fields, entries, codes, floats, weights, moved, along)
        squares = np.maximum(own * own * squares - 2 * own * along + moved @ moved, 0.0)
    outer, inverse_norm = np.empty((2, len(table)))
    limit = x_norm if row_map.moves else min(x_norm, layout.longest)
    floor = layout.n_columns * 2.0**-420
    kernels.bound_factors(squares, slack, limit, intercept, floor, outer, inverse_norm)
    outer[empty], inverse_norm[empty] = 0.0, 1 / floor
    return StoredCoded(
        table=table,
        fields=fields,
        entries=entries,
        moved=moved,
        intercept=intercept,
        inner=outer if as_one else own * outer,
        outer=outer,
        inverse_norm=inverse_norm,
        precision=Precision.of(fields, entries, distance, x_norm),
        **common,
    )


def _shortened(fields: CodeFields, table: CodedTable, limit: float) -> Floats:
    """What the first bound multiplies each row by."""
    entries = CodeEntries.of(table.layout, np.empty(0), np.empty(0))
    return np.asarray(limit / np.sqrt(np.maximum(_squares(fields, entries, table), limit * limit)))


def _squares(fields: CodeFields, entries: CodeEntries, table: CodedTable) -> Floats:
    """Squared norm of every row before its factors."""
    weights, crossed = np.zeros((2, fields.table_size))
    kernels.fill_squares(fields, entries, weights, crossed)
    out = np.empty(len(table))
    kernels.squares(fields, entries, *read_only(table), weights, crossed, out)
    return out


def read_only(table: CodedTable) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Codes and floats as plain arrays: one compiled signature for memory, and for maps that nobody may write to."""
    arrays = np.asarray(table.codes)[:], np.asarray(table.floats)[:]
    for array in arrays:
        array.flags.writeable = False
    return arrays
