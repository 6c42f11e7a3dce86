"""What the codes of a row stand for once a row map has moved and scaled every column: public arrays for the kernels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from dperm.codes import CodeLayout
from dperm.engine.base import Floats, Integers

_UNIT = 2.0**-53


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
        for first, count in zip(
            (*fields.first, *fields.hats), (*fields.n_levels, *fields.knots), strict=True
        ):
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
        for first, count in zip(
            (*fields.first, *fields.hats), (*fields.n_levels, *fields.knots), strict=True
        ):
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
    return 4 * (n_columns + 32) * _UNIT * longest**2


def _whole(values: Iterable[int]) -> Integers:
    return np.array(list(values), np.int64)


def _starts(sizes: Iterable[int]) -> Integers:
    return np.concatenate([[0], np.cumsum(_whole(sizes))]).astype(np.int64)
