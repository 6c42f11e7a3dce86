"""What the codes of a row stand for once a row map has moved and scaled every column: public arrays for the kernels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodeLayout
from dperm.engine.base import Floats, Integers

_UNIT = 2.0**-53


class CodeFields(NamedTuple):
    """Where codes and columns are: of a layout alone."""

    group_field: Integers
    """Blocks of levels of each code, as places in ``first`` and ``count``."""
    group_start: Integers
    """Where the values of each code begin in a table."""
    first: Integers
    count: Integers
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
            count=_whole(item.count for item in levels),
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
        for item in (*layout.levels, *layout.splines):
            columns = slice(item.first, item.first + item.count)
            off[columns], on[columns] = item.off, item.on
        for levels in layout.levels:
            zero[levels.first : levels.first + levels.count] = levels.zero
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
        for first, count in zip((*fields.first, *fields.hats), (*fields.count, *fields.knots), strict=True):
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


def rounding_of_squares(n_columns: int, longest: float) -> float:
    """More than the error of a computed squared norm of a row, all parts of which are within ``longest``."""
    return 4 * (n_columns + 32) * _UNIT * longest**2


def _whole(values: object) -> Integers:
    return np.array(list(values), np.int64)  # type: ignore[call-overload, no-any-return]


def _starts(sizes: object) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(_whole(sizes))]).astype(np.int64)
