"""Dates as numbers of days since 1970-01-01, and where a day stands in the year, the week and its hours."""

import datetime
import re
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import read_quietly
from dperm.datasets.tolerant import each_text

Days = NDArray[np.float64]

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
    told = text.strip()
    try:
        if form and not _ISO.match(told):
            moment = datetime.datetime.strptime(told, form)
        else:
            moment = datetime.datetime.fromisoformat(told)
    except (ValueError, OverflowError):
        return float("nan")
    return (moment.replace(tzinfo=None) - _FIRST) / _A_DAY


def date_of(day: float) -> str:
    """The date of a day, as ISO 8601 writes it."""
    return (datetime.date(1970, 1, 1) + datetime.timedelta(days=int(np.floor(day)))).isoformat()


def days_of(column: Any, form: str = "") -> tuple[Days, NDArray[np.bool_]] | None:
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


def place_in(cycle: str, days: Days) -> NDArray[np.float64]:
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
