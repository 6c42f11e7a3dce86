"""A declared date: a number of days within a range, and where it stands in the year or the week."""

import datetime
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.calendar import CYCLES, date_of, day_of, days_of, place_in
from dperm.datasets.columns import TEXT, kind_of, text_marks
from dperm.datasets.declared import (
    check_cuts,
    check_flag,
    check_hats,
    check_list,
    check_marks,
    check_name,
    check_text,
    set_field,
)
from dperm.datasets.features import Categorical
from dperm.datasets.numeric import Numeric
from dperm.datasets.tolerant import other_kind
from dperm.datasets.words import missing_words, sentence
from dperm.errors import InvalidInput

_FORMAT = re.compile(r"(?:%[dmYyHMS]|[^%\w])+", re.ASCII)
_LONGEST_FORMAT = 40


class Days(Numeric):
    """The block of a date: the number of its day, told as a date."""

    def label(self, value: float) -> str:
        return date_of(value)

    @property
    def knots(self) -> list[str]:
        names = [self.label(self.at(k / (self.n_hats - 1))) for k in range(self.n_hats)]
        return names if len(set(names)) == len(names) else [str(k + 1) for k in range(self.n_hats)]


@dataclass(frozen=True, kw_only=True)
class Cycle(Categorical):
    """The block of a place in a cycle, coded as a category."""

    cycle: str

    @property
    def levels(self) -> list[str]:
        return list(CYCLES[self.cycle])


@dataclass(frozen=True, kw_only=True)
class Date:
    """A date, or a date with a time: clipped to the range ``date``, then treated as a number of days.

    ``format`` says how text is to be read, in the letters of ``strptime`` (``"%d.%m.%Y"``); without it text is read
    as ISO 8601. ``cycles`` adds levels, coded as categories: the ``month``, the ``weekday`` or the ``hour``. All other
    keys are those of :class:`Numeric`; ``bins`` are dates. Marks of a missing value are text; one that is a date also
    stands for that date.
    """

    name: str
    date: tuple[str, str]
    format: str = ""
    cycles: tuple[str, ...] = ()
    indicator: bool = False
    missing: tuple[str | float, ...] = ()
    spline: int | None = None
    bins: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        set_field(self, "name", check_name(self.name))
        ends = tuple(check_day("date", day) for day in check_list("date", self.date))
        if len(ends) != 2 or not day_of(ends[0]) < day_of(ends[1]):
            raise InvalidInput(
                f"date must be two dates [first, last], the first before the last; got {reprlib.repr(self.date)}."
            )
        set_field(self, "date", ends)
        set_field(self, "format", check_format(self.format))
        set_field(self, "cycles", _check_cycles(self.cycles))
        set_field(self, "indicator", check_flag("indicator", self.indicator))
        set_field(self, "missing", check_marks(self.missing))
        if not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text where dates are declared.")
        set_field(self, "spline", check_hats("spline", self.spline))
        cuts = tuple(check_day("bins", cut) for cut in check_list("bins", self.bins))
        check_cuts("bins", [day_of(cut) for cut in cuts], self._range)
        set_field(self, "bins", cuts)
        if self.bins and self.spline:
            raise InvalidInput("bins stand in place of hats; give bins or spline, not both.")

    @property
    def unit(self) -> str:
        return "days"

    @property
    def _range(self) -> tuple[float, float]:
        return day_of(self.date[0]), day_of(self.date[1])

    @property
    def parts(self) -> tuple[Numeric | Categorical, ...]:
        """What becomes columns: the number of the day, then each cycle."""
        days = Days(
            name=self.name,
            range=self._range,
            indicator=self.indicator,
            spline=self.spline,
            bins=tuple(day_of(cut) for cut in self.bins),
            unit="days",
        )
        cycles = (
            Cycle(name=f"{self.name} {cycle}", categories=tuple(range(len(CYCLES[cycle]))), cycle=cycle)
            for cycle in self.cycles
        )
        return days, *cycles

    def days(self, column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """The day of each value, NaN where it is missing, and which values are text that is no date."""
        marked = text_marks(column, self.missing) if kind_of(column) == TEXT else None
        found = days_of(column if marked is None else marked, self.format)
        if found is None:
            raise InvalidInput(
                f"Column {self.name!r}: the schema declares dates, the table holds {kind_of(column)}. Declare range "
                "for numbers, or convert the column to dates."
            )
        days, unread = found
        marks = [day_of(mark) for mark in self.missing if isinstance(mark, str)]
        return np.where(np.isin(days, marks), np.nan, days), unread

    def days_or_nothing(self, column: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """As ``days``; of a column of another kind every cell is one that is no date."""
        return other_kind(column) if days_of(column.slice(0, 0)) is None else self.days(column)

    def columns(self, column: Any) -> Mapping[str, Any]:
        """The Arrow columns that the parts are made of, each value from its own cell."""
        import pyarrow as pa

        days, unread = self.days(column)
        if unread.any():
            how = (
                f"written as {self.format}"
                if self.format
                else "written as YYYY-MM-DD, with a time or without"
            )
            raise InvalidInput(
                f"Column {self.name!r}: it holds text that is neither a date {how} nor a declared mark of a missing "
                'value. Give format = "%d.%m.%Y" or the like, or list such marks under missing.'
            )
        found = {self.name: days}
        for cycle in self.cycles:
            found[f"{self.name} {cycle}"] = place_in(cycle, days)
        return {
            name: pa.chunked_array([pa.array(values, from_pandas=True)]) for name, values in found.items()
        }

    def in_words(self) -> str:
        """What is declared, in a line."""
        return sentence(
            f"date from {self.date[0]} to {self.date[1]}",
            "dates beyond are moved to the nearer end",
            f"with its {' and '.join(self.cycles)}" if self.cycles else "",
            missing_words(self.missing, "told by a column of its own" if self.indicator else ""),
        )


def check_day(key: str, value: object) -> str:
    """A date without a time, as text or as TOML has it; it comes back as ISO 8601."""
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        return value.isoformat()
    text = check_text(key, value) if isinstance(value, str) else ""
    day = day_of(text) if len(text) <= _LONGEST_FORMAT else float("nan")
    if not day.is_integer():
        raise InvalidInput(f'{key} must hold dates such as "2015-01-31"; got {reprlib.repr(value)}.')
    return date_of(day)


def check_format(value: object) -> str:
    """How text is read: empty, or letters that say each of day, month and year once."""
    text = check_text("format", value)
    if text == "":
        return text
    letters = re.findall("%(.)", text)
    dated = sorted(letter.lower() if letter == "y" else letter for letter in letters if letter in "dmYy")
    if (
        len(text) > _LONGEST_FORMAT
        or not _FORMAT.fullmatch(text)
        or len(set(letters)) != len(letters)
        or dated not in (["Y", "d", "m"], ["d", "m", "y"])
    ):
        raise InvalidInput(
            "format must say day %d, month %m and year %Y (or %y), and may say %H, %M and %S, as in "
            f'"%d.%m.%Y"; got {reprlib.repr(value)}.'
        )
    return text


def _check_cycles(value: object) -> tuple[str, ...]:
    cycles = check_list("cycles", value)
    if not all(isinstance(cycle, str) and cycle in CYCLES for cycle in cycles) or len(set(cycles)) != len(
        cycles
    ):
        raise InvalidInput(
            f"cycles must list some of {', '.join(CYCLES)}, each once; got {reprlib.repr(value)}."
        )
    return tuple(cycles)
