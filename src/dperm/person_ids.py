"""Ids of persons: the one rule by which two ids are one person, wherever their rows are. No message quotes an id.

Whole numbers are their decimal text and text is itself, so 7, 7.0 and "7" are one person, and "007" is another. How an
id is read depends on this id, and on the public type of its column, alone: ids are read one by one, before a mixed list
is made an array of one type.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput

Integers = NDArray[np.int64]

DIGEST = np.dtype("V16")
"""What stands for an id beside rows in shards. It hides nothing: who guesses the id finds the same."""

NO_IDS = frozenset(
    ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null", "None", "NaT", "<NA>")
)
"""Texts that stand for a missing id, with or without blanks around them."""

UNREADABLE = (
    "there are rows without the id of a person, or with one that is neither text nor a whole number (a float only "
    "below 2**53, beyond which floats merge numbers). Give every row the id of its person, as text or as an integer; a "
    "row of an unknown person may have an id of its own."
)
_FORM = (
    "ids of persons must be text or whole numbers, one for each row, in a list, an array or a column; got {}. Make "
    "them text or integers where they still are as they were written: floats of less than 64 bits have merged some."
)
_UNREAD = bytes(DIGEST.itemsize)
_MOST_DIGITS = 1000
_LARGEST = 10**_MOST_DIGITS
_EXACT = 2.0**53


@dataclass(frozen=True, eq=False)
class NumberedIds:
    """The person of each row, numbered by their first rows, and what names each; None where an id is unreadable.

    All unreadable ids together have one number, so that persons can be counted before anything is refused.
    """

    person: Integers
    names: list[str | bytes | None]

    @property
    def readable(self) -> bool:
        return None not in self.names

    def __len__(self) -> int:
        return len(self.person)


def numbered(ids: Any) -> NumberedIds:
    """Tell persons apart. What is public is refused at once: another form than one id for each row, another type."""
    given = ids if isinstance(ids, NumberedIds) else _values(ids)
    if isinstance(given, NumberedIds):
        return given
    if isinstance(given, np.ndarray) and given.dtype == DIGEST:
        person, first = _by_first_rows(given.view(f"S{DIGEST.itemsize}"))
        found = [bytes(one) for one in given[first]]
        return NumberedIds(person, [None if one == _UNREAD else one for one in found])
    if isinstance(given, np.ndarray) and given.dtype.kind in "iuf" and _all_whole(given):
        person, first = _by_first_rows(given)
        return NumberedIds(person, [str(int(one)) for one in given[first].tolist()])
    listed = given if isinstance(given, list) else given.tolist()
    alike = set(map(type, listed)) in ({str}, {int})
    keys = listed if alike else [_text(one) for one in listed]
    known: dict[str | bytes | None, int] = {}
    place = {key: known.setdefault(_text(key), len(known)) for key in dict.fromkeys(keys)}
    person = np.fromiter(map(place.__getitem__, keys), np.int64, len(keys))
    return NumberedIds(person, list(known))


def digests(ids: Any, *, tolerant: bool = False) -> NDArray[np.void]:
    """What stands for each id in few bytes. ``tolerant``: unreadable ones are marked, for who reads them to refuse."""
    found = numbered(ids)
    if not (found.readable or tolerant):
        raise InvalidInput(UNREADABLE)
    of_persons = b"".join(_digest(name) for name in found.names)
    return np.frombuffer(of_persons, DIGEST)[found.person]


def texts(ids: Any) -> list[str | None]:
    """Each id as text that stands for the same person; None for those that cannot be read."""
    found = numbered(ids)
    names = [name if isinstance(name, str) else None for name in found.names]
    return [names[place] for place in found.person.tolist()]


def _digest(name: str | bytes | None) -> bytes:
    if not isinstance(name, str):
        return _UNREAD if name is None else name
    return blake2b(name.encode(), digest_size=DIGEST.itemsize).digest()


def _text(one: Any) -> str | None:
    """The text that names the same person, or None."""
    if isinstance(one, str):
        held = one.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in one)  # by every file
        missing = one.strip() in NO_IDS or one.endswith("\0")  # which arrays of text cut off
        return str(one) if held and not missing else None
    if isinstance(one, bool | np.bool_):
        return None
    whole: int | None = None
    if isinstance(one, int | np.integer):
        whole = int(one)
    elif isinstance(one, float):  # np.float64 is one, of other sizes are not
        whole = int(one) if one.is_integer() and abs(one) < _EXACT else None
    elif isinstance(one, Decimal) and one.is_finite() and one.adjusted() < _MOST_DIGITS:
        whole = int(one) if one == one.to_integral_value() else None
    return None if whole is None or abs(whole) >= _LARGEST else str(whole)


def _all_whole(given: NDArray[Any]) -> bool:
    if given.dtype.kind != "f":
        return True
    with np.errstate(invalid="ignore"):
        return bool(((np.abs(given) < _EXACT) & (given == np.trunc(given))).all())


def _by_first_rows(values: NDArray[Any]) -> tuple[Integers, Integers]:
    """The number of each value, in the order of their first rows, and these rows."""
    _, first, place = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(first), np.int64)
    rank[order] = np.arange(len(first))
    return rank[place.reshape(-1)], np.asarray(first[order], np.int64)


def _values(ids: Any) -> NDArray[Any] | list[Any] | NumberedIds:
    """The ids in an array or list that no conversion has touched."""
    package = type(ids).__module__.partition(".")[0]
    if package == "dask" and hasattr(ids, "compute"):
        return _values(ids.compute())
    if package in ("pyarrow", "polars"):
        return _of_arrow(ids)
    if package == "pandas" and getattr(ids, "ndim", None) == 1:
        return _of_pandas(ids)
    if isinstance(ids, np.ma.MaskedArray) and ids.ndim == 1:
        _check_kind(ids.dtype)
        return [None if hidden else one for one, hidden in _pairs(ids.data, np.ma.getmaskarray(ids))]
    if isinstance(ids, Sequence) and not isinstance(ids, str | bytes) and not hasattr(ids, "dtype"):
        return list(ids)
    if not hasattr(ids, "__array__"):
        raise InvalidInput(_FORM.format(f"a {type(ids).__name__}"))
    values = np.asarray(ids)
    if values.ndim != 1:
        raise InvalidInput(f"groups must hold one id for each row; its shape is {values.shape}.")
    if values.dtype != DIGEST:
        _check_kind(values.dtype)
    return values


def _pairs(values: NDArray[Any], hidden: NDArray[np.bool_]) -> Any:
    return zip(values.tolist(), hidden.tolist(), strict=True)


def _check_kind(kind: Any) -> None:
    """Refuse a type that holds no ids, or that has merged some. Types are public."""
    narrow = kind.kind == "f" and kind.itemsize != 8
    if narrow or kind.kind not in "iufOUT":
        raise InvalidInput(_FORM.format(kind))


def _of_pandas(ids: Any) -> NDArray[Any] | list[Any] | NumberedIds:
    kind = ids.dtype
    if isinstance(kind, np.dtype):
        _check_kind(kind)
        return np.asarray(ids)
    if hasattr(kind, "pyarrow_dtype"):
        return _of_arrow(ids)
    if hasattr(kind, "categories"):
        held = getattr(ids, "cat", ids)
        return _of_categories(numbered(held.categories), np.asarray(held.codes))
    _check_kind(kind)
    if kind.kind in "iu" and not ids.isna().any():
        return np.asarray(ids.to_numpy())
    return ids.to_numpy(dtype=object)  # type: ignore[no-any-return]


def _of_categories(among: NumberedIds, codes: NDArray[Any]) -> NumberedIds:
    """The persons of rows that say their ids by the places among categories; a place below 0 says none."""
    names = [*among.names, None]
    missing = names.index(None)
    person, first = _by_first_rows(np.where(codes < 0, missing, np.append(among.person, missing)[codes]))
    places = np.append(among.person, missing)[codes[first]]
    return NumberedIds(person, [names[place] for place in np.where(codes[first] < 0, missing, places)])


def _of_arrow(ids: Any) -> NDArray[Any] | list[Any]:
    import pyarrow as pa
    from pyarrow import types

    column = None
    try:
        column = ids if isinstance(ids, pa.Array | pa.ChunkedArray) else pa.chunked_array(ids)
    except Exception:  # it may quote an id
        column = None
    if column is None:
        raise InvalidInput(_FORM.format(f"a {type(ids).__name__}"))
    kind = column.type.value_type if types.is_dictionary(column.type) else column.type
    text = types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view()
    exact = types.is_integer(kind) or types.is_float64(kind)
    if not (text or exact or types.is_decimal(kind) or types.is_null(kind)):
        raise InvalidInput(_FORM.format(kind))
    if exact and kind == column.type and not column.null_count:
        return np.asarray(column)
    return column.to_pylist()  # type: ignore[no-any-return]
