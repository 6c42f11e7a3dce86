"""Opened categorical rows: what codes stand for under a row map, and the one pass that bounds rows."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import FLOAT64, UNIT_ROUNDOFF
from dperm.codes import BLOCK, CodedTable, CodeLayout
from dperm.engine.base.rows import Stored
from dperm.engine.categorical import row_kernels as kernels
from dperm.engine.categorical.kernels import fill_table
from dperm.errors import InvalidInput
from dperm.row_map import RowMap
from dperm.typing import Floats, Integers


class CodeFields(NamedTuple):
    """Where codes and columns are: of a layout alone."""

    group_field: Integers
    """Blocks of levels of each code, as places in ``first`` and ``n_levels``."""
    group_start: Integers
    """Where the values of each code begin in a table."""
    first: Integers
    n_levels: Integers
    number: Integers
    linear: Integers
    hats: Integers
    knots: Integers
    knot_start: Integers
    spline_start: Integers

    @classmethod
    def of(cls, layout: CodeLayout) -> CodeFields:
        levels = [layout.levels[i] for group in layout.groups for i in group]
        knots = [spline.count for spline in layout.splines]
        joint = _starts(layout.sizes)
        return cls(
            group_field=_starts([len(group) for group in layout.groups]),
            group_start=joint,
            first=_whole(item.first for item in levels),
            n_levels=_whole(item.count for item in levels),
            number=_whole(item.column for item in layout.numbers),
            linear=_whole(item.linear for item in layout.splines),
            hats=_whole(item.first for item in layout.splines),
            knots=_whole(knots),
            knot_start=_starts(knots),
            spline_start=joint[-1] + _starts([count + 2 for count in knots]),
        )

    @property
    def table_size(self) -> int:
        return int(self.spline_start[-1])

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """The first column of each block of levels and of hats, and how many there are."""
        firsts, counts = (*self.first, *self.hats), (*self.n_levels, *self.knots)
        return list(zip(firsts, counts, strict=True))

    @property
    def row_entries(self) -> int:
        """Places in a table, and numbers, that make up one row."""
        return len(self.group_start) - 1 + 2 * len(self.linear) + len(self.number)


class CodeEntries(NamedTuple):
    """The number in each column: ``zero`` without a level, ``off`` for another's, ``on`` for its own.

    A number's column is ``on`` times the stored number, plus ``off``. ``slopes`` are the linear columns of all splines
    at their knots.
    """

    zero: Floats
    off: Floats
    on: Floats
    slopes: Floats

    @classmethod
    def of(cls, layout: CodeLayout, centre: Floats, spread: Floats) -> CodeEntries:
        """The entries of (x - centre) / spread; either may be empty: nothing is subtracted, or divided by."""
        zero, off, on = np.zeros((3, layout.n_columns))
        for levels in layout.levels:
            columns = slice(levels.first, levels.first + levels.count)
            zero[columns], off[columns], on[columns] = levels.zero, levels.off, levels.on
        for spline in layout.splines:
            columns = slice(spline.first, spline.first + spline.count)
            off[columns], on[columns] = spline.off, spline.on
        numbers = [number.column for number in layout.numbers]
        linear = np.array([spline.linear for spline in layout.splines for _ in range(spline.count)], np.intp)
        slopes = np.concatenate([np.empty(0), *(spline.slopes for spline in layout.splines)])
        if centre.size:
            on -= centre
            off -= centre
            zero -= centre
            slopes -= centre[linear]
        on[numbers] = [number.size for number in layout.numbers]
        if spread.size:
            zero, off, on, slopes = zero / spread, off / spread, on / spread, slopes / spread[linear]
        return cls(zero, off, on, slopes)

    def longest(self, fields: CodeFields) -> float:
        """More than the norm of any row, even if the parts of a block were added without regard to their signs."""
        squares = 0.0
        for first, count in fields.blocks:
            own = slice(first, first + count)
            size = np.linalg.norm(self.off[own]) + np.linalg.norm(self.zero[own]) + np.abs(self.on[own]).max()
            squares += size**2
        for s, count in enumerate(fields.knots):
            start = fields.knot_start[s]
            squares += (
                np.abs(self.slopes[start : start + count]).max() + abs(self.zero[fields.linear[s]])
            ) ** 2
        squares += float(((np.abs(self.on) + np.abs(self.off))[fields.number] ** 2).sum())
        return float(np.sqrt(squares)) * (1 + 2.0**-40)

    def hidden(self, fields: CodeFields) -> float:
        r"""By how much the parts that a row is added up from, taken without signs, may exceed the row in norm.

        Levels and numbers are added up as they are. Between two knots an entry is (1 - t) a + t b, and its parts exceed
        it by 2 min((1 - t) |a|, t |b|) where the signs differ, and by nothing where they do not. For two neighbouring
        hats the sum of the squares is convex between the two places where such a minimum changes sides.
        """
        squares = 0.0
        for s, count in enumerate(fields.knots):
            own = slice(fields.hats[s], fields.hats[s] + count)
            differ = self.on[own] * self.off[own] < 0
            on, off = np.abs(self.on[own]) * differ, np.abs(self.off[own]) * differ
            turns = np.stack([on[:-1] / _not_zero(on + off)[:-1], off[1:] / _not_zero(on + off)[1:]])
            fading = np.minimum((1 - turns) * on[:-1], turns * off[:-1])
            rising = np.minimum(turns * on[1:], (1 - turns) * off[1:])
            squares += 4 * float((fading**2 + rising**2).max())
            along = self.slopes[fields.knot_start[s] : fields.knot_start[s + 1]]
            size = np.abs(along)
            both = size[:-1] * size[1:] * (along[:-1] * along[1:] < 0) / _not_zero(size[:-1] + size[1:])
            squares += 4 * float(both.max()) ** 2
        return float(np.sqrt(squares)) * (1 + 2.0**-40)

    def depth(self, fields: CodeFields, x_norm: float) -> float:
        """More than the additions, one after the other, between sums per code and a column.

        Those over all levels of a block matter as far as what they are multiplied by does.
        """
        joint, longest = 1.0, 0.0
        for begin, end in pairwise(fields.group_field):
            sizes = (fields.n_levels[begin:end] + 1).tolist()
            for k in range(len(sizes)):
                joint = max(joint, math.prod(sizes[:k]) + sum(sizes[k + 1 :]))
        for first, count in fields.blocks:
            off = float(np.linalg.norm(self.off[first : first + count]))
            longest = max(longest, count * min(1.0, off / x_norm))
        return joint + longest

    def rounded(self, fields: CodeFields) -> float:
        """Bound on the sizes that the columns of numbers are rounded at."""
        return float(np.linalg.norm((np.abs(self.on) + np.abs(self.off))[fields.number]))


def _not_zero(sizes: Floats) -> Floats:
    return np.where(sizes > 0, sizes, 1.0)


def rounding_of_squares(n_columns: int, longest: float) -> float:
    """More than the error of a computed squared norm of a row, all parts of which are within ``longest``."""
    return 4 * (n_columns + 32) * UNIT_ROUNDOFF * longest**2


def _whole(values: Iterable[int]) -> Integers:
    return np.array(list(values), np.int64)


def _starts(sizes: Iterable[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(_whole(sizes))]).astype(np.int64)


_LIMIT = 2.0**400  # bounds on rows stay within it, so that squares have room


@dataclass(frozen=True)
class Precision:
    """What passes over categorical rows add up one after the other, by public numbers alone.

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
class StoredCategorical(Stored):
    r"""Opened categorical rows.

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
        out = np.empty((last - first, self.n_columns))
        codes, floats = read_only(self.table)
        how = (self.inner, self.outer, self.moved, self.intercept)
        kernels.densify(self.fields, self.entries, codes, floats, *how, first, last, out)
        return out

    def _taken(self, index: Integers) -> dict[str, Any]:
        return {"table": self.table.take(index), "inner": self.inner[index], "outer": self.outer[index]}


def bounded(
    table: CodedTable, row_map: RowMap, moves: tuple[Floats, Floats], empty: Integers, common: dict[str, Any]
) -> StoredCategorical:
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
            raise InvalidInput("x_norm and intercept of categorical rows must lie between 2^-400 and 2^400.")
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
    return StoredCategorical(
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
