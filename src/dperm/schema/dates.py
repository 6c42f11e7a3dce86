"""A declared date: a number of days since 1970-01-01 within a range, and its month, weekday or hour."""

import datetime
import re
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.columns import TEXT, each_text, kind_of, other_kind, read_quietly, text_marks
from dperm.schema.features import Categorical, Numeric
from dperm.schema.values import (
    check_cuts,
    check_fields,
    check_flag,
    check_list,
    check_marks,
    check_name,
    check_spline,
    check_text,
    missing_words,
    sentence,
    set_field,
)

_FIRST: Final = datetime.datetime(1970, 1, 1)
_A_DAY: Final = datetime.timedelta(days=1)
_PER_DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_FARTHEST: Final = 1e8
_ISO: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_MONDAY: Final = 3  # 1970-01-01 was a Thursday

CYCLES: Final = {
    "month": (
        *("January", "February", "March", "April", "May", "June"),
        *("July", "August", "September", "October", "November", "December"),
    ),
    "weekday": ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
    "hour": tuple(f"{hour:02}h" for hour in range(24)),
}
"""What comes round, with the names of its places."""


def day_of(text: str, form: str = "") -> float:
    """The day that a text names, with its part of a day; NaN where it names none. Zones are left aside.

    A text like 2015-01-31 is read as ISO 8601 even where another format is given.
    """
    text = text.strip()
    try:
        if form and not _ISO.match(text):
            moment = datetime.datetime.strptime(text, form)
        else:
            moment = datetime.datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        return float("nan")
    return (moment.replace(tzinfo=None) - _FIRST) / _A_DAY


def date_of(day: float) -> str:
    """The date of a day, as ISO 8601 writes it."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=int(np.floor(day)))).isoformat()


def days_of(column: Any, form: str = "") -> tuple[NDArray[np.float64], NDArray[np.bool_]] | None:
    """The days of an Arrow column, NaN where there is none, and which cells hold text that is no date.

    None for a column that holds neither dates nor text. Times in a time zone count as its clocks show them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan), np.zeros(len(column), bool)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return each_text(column, lambda text: _known_day(text, form))
    if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
        return None

    def convert() -> Any:
        local = pc.local_timestamp(column) if getattr(kind, "tz", None) else column
        if pa.types.is_date32(kind):
            counts, per_day = local.cast(pa.int32()), 1
        else:
            counts, per_day = local.cast(pa.int64()), _PER_DAY[getattr(kind, "unit", "ms")]
        return counts.cast(pa.float64(), safe=False).to_numpy() / per_day

    days = read_quietly(convert)
    return None if days is None else (days, np.zeros(len(column), bool))


def _known_day(text: str, form: str) -> float | None:
    """None where a text is neither a date nor empty, which is a missing one."""
    day = day_of(text, form)
    return day if day == day or not text.strip() else None


def place_in(cycle: str, days: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each day in a cycle, from 0; NaN where there is no day."""
    known = np.clip(np.where(np.isnan(days), 0.0, days), -_FARTHEST, _FARTHEST)
    whole = np.floor(known).astype(np.int64)
    if cycle == "month":
        places = whole.astype("M8[D]").astype("M8[M]").astype(np.int64) % 12
    elif cycle == "weekday":
        places = (whole + _MONDAY) % 7
    else:
        seconds = (known - whole) * 86_400 + 1e-3  # a float of days is that exact
        places = np.minimum(seconds // 3600, 23).astype(np.int64)
    return np.where(np.isnan(days), np.nan, places)


_FORMAT = re.compile(r"(?:%[dmYyHMS]|[^%\w])+", re.ASCII)
_LONGEST_FORMAT = 40


class Days(Numeric):
    """The block of a date: the number of its day, shown as a date."""

    def label(self, value: float) -> str:
        return date_of(value)

    @property
    def knots(self) -> list[str]:
        names = [self.label(self.at(k / (self.n_splines - 1))) for k in range(self.n_splines)]
        return names if len(set(names)) == len(names) else [str(k + 1) for k in range(self.n_splines)]


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
        check_fields(self, name=check_name)
        ends = tuple(check_day("date", day) for day in check_list("date", self.date))
        if len(ends) != 2 or not day_of(ends[0]) < day_of(ends[1]):
            raise InvalidInput(
                f"date must be two dates [first, last], the first before the last; got {reprlib.repr(self.date)}."
            )
        set_field(self, "date", ends)
        check_fields(self, format=check_format, cycles=_check_cycles, indicator=check_flag)
        check_fields(self, missing=check_marks, spline=check_spline)
        if not all(isinstance(mark, str) for mark in self.missing):
            raise InvalidInput("missing must hold text where dates are declared.")
        cuts = tuple(check_day("bins", cut) for cut in check_list("bins", self.bins))
        check_cuts("bins", [day_of(cut) for cut in cuts], self._range)
        set_field(self, "bins", cuts)
        if self.bins and self.spline:
            raise InvalidInput("bins stand in place of splines; give bins or spline, not both.")

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
            missing_words(self.missing, "shown by a column of its own" if self.indicator else ""),
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


def check_format(key: str, value: object) -> str:
    """How text is read: empty, or letters that say each of day, month and year once."""
    text = check_text(key, value)
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


def _check_cycles(key: str, value: object) -> tuple[str, ...]:
    cycles = check_list(key, value)
    known = all(isinstance(cycle, str) and cycle in CYCLES for cycle in cycles)
    if not known or len(set(cycles)) != len(cycles):
        raise InvalidInput(
            f"cycles must list some of {', '.join(CYCLES)}, each once; got {reprlib.repr(value)}."
        )
    return tuple(cycles)
