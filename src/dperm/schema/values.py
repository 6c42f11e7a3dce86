"""Single values of a schema: each is checked, brought into one form, and put into words. A schema may be hostile."""

import datetime
import math
import reprlib
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from dperm.errors import InvalidInput

LARGEST_INTEGER = 2**53 - 1
"""Largest integer that may name a category: floats hold it exactly, and nothing else rounds to it."""

MOST_SPLINES = 256

Category = str | int
"""A category or class: text, an integer or a truth value; one kind within one list."""


TODO = "TODO"
"""What stands in a draft of a schema for what a person has to say."""

_TO_SAY = {
    "name": "name the column to predict",
    "range": "give [low, high], the values that you expect, or declare categories, date or hashed in its place",
    "categories": "list the values that may occur, or give hashed = 64 for text that nobody can list",
    "date": 'give ["2015-01-01", "2025-12-31"], the first and the last date that you expect',
    "classes": 'list the labels, as in ["no", "yes"], or give range = [low, high] for a number',
}


def check_finished(table: Mapping[str, Any]) -> None:
    """Refuse what a draft left to be said."""
    for key, value in table.items():
        if value == TODO or (isinstance(value, list | tuple) and value and all(v == TODO for v in value)):
            raise InvalidInput(
                f"{key} is still {TODO}; {_TO_SAY.get(str(key), 'say it or leave the key out')}."
            )


def check_number(key: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidInput(f"{key} must be a number; got {reprlib.repr(value)}.")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidInput(f"{key} must be a finite number; got {reprlib.repr(value)}.")
    return number


def check_flag(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{key} must be true or false; got {reprlib.repr(value)}.")
    return value


def check_list(key: str, value: object) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise InvalidInput(f"{key} must be a list; got {reprlib.repr(value)}.")
    return list(value)


def check_text(key: str, value: object) -> str:
    if not isinstance(value, str) or any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InvalidInput(f"{key} must be text; got {reprlib.repr(value)}.")
    return value


def check_name(key: str, value: object) -> str:
    if check_text(key, value) == "":
        raise InvalidInput(f"{key} must not be empty.")
    return str(value)


def check_bounds(key: str, value: object) -> tuple[float, float]:
    bounds = check_list(key, value)
    if any(isinstance(bound, str | datetime.date) for bound in bounds):
        raise InvalidInput(
            f"{key} must be two numbers [low, high]; got {reprlib.repr(value)}. For dates give date in its place."
        )
    numbers = [check_number(key, bound) for bound in bounds]
    if len(numbers) != 2 or not numbers[0] < numbers[1]:
        raise InvalidInput(
            f"{key} must be two numbers [low, high] with low < high; got {reprlib.repr(value)}."
        )
    return numbers[0], numbers[1]


def check_categories(key: str, value: object) -> tuple[Category, ...]:
    values = check_list(key, value)
    kinds = {type(item) for item in values}
    if len(values) < 2 or kinds not in ({str}, {int}, {bool}):
        raise InvalidInput(
            f"{key} must list at least two values of one kind: text, integers or truth values; "
            f"got {reprlib.repr(value)}."
        )
    if len(set(values)) != len(values):
        raise InvalidInput(f"{key} must not repeat a value; got {reprlib.repr(value)}.")
    for item in values:
        if isinstance(item, str):
            check_text(key, item)
        elif abs(item) > LARGEST_INTEGER:
            raise InvalidInput(
                f"{key} must hold integers of at most 2**53 - 1 in size; got {reprlib.repr(item)}."
            )
    return tuple(values)


def folded(value: object) -> str:
    """Text without its case, blanks at its ends, and more than one blank inside."""
    return " ".join(str(value).split()).casefold()


def check_fold(
    key: str, fold: object, values: tuple[Category, ...], marks: tuple[str | float, ...] = ()
) -> bool:
    """Whether spellings are folded; then no two of the values, and no mark and a value, may fold to the same."""
    if not check_flag("fold", fold):
        return False
    if not (values and isinstance(values[0], str)):
        raise InvalidInput(f"fold needs {key} that are text.")
    first: dict[str, object] = {}
    for value in values:
        other = first.setdefault(folded(value), value)
        if other is not value:
            raise InvalidInput(
                f"{key} must differ by more than case and blanks under fold; {reprlib.repr(other)} and "
                f"{reprlib.repr(value)} do not."
            )
    if any(folded(mark) in first for mark in marks):
        raise InvalidInput("missing must not hold a declared category; remove it from one of the two.")
    return True


def check_spline(key: str, value: object) -> int | None:
    """A number of splines, or None where none is declared. Two splines say what the linear column says."""
    if value is None:
        return None
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not (value == 0 or 3 <= value <= MOST_SPLINES)
    ):
        raise InvalidInput(
            f"{key} must be 0 for no splines, or a whole number of them from 3 to {MOST_SPLINES}; got "
            f"{reprlib.repr(value)}."
        )
    return value


def check_cuts(key: str, value: object, bounds: tuple[float, float]) -> tuple[float, ...]:
    """Rising cut points strictly within the bounds."""
    cuts = tuple(check_number(key, cut) for cut in check_list(key, value))
    edges = (bounds[0], *cuts, bounds[1])
    if any(not left < right for left, right in pairwise(edges)):
        raise InvalidInput(
            f"{key} must be cut points that rise from one to the next, all within the range; got {reprlib.repr(value)}."
        )
    return cuts


def check_marks(key: str, value: object) -> tuple[str | float, ...]:
    """Marks of a missing value: text, or numbers (kept as floats)."""
    return tuple(
        check_text(key, mark) if isinstance(mark, str) else check_number(key, mark)
        for mark in check_list(key, value)
    )


def shortest(value: Any) -> Any:
    """17.0 as 17, so that a written schema reads as a person would write it."""
    return int(value) if isinstance(value, float) and value.is_integer() and abs(value) < 1e15 else value


def set_field(instance: object, field: str, value: object) -> None:
    """Put a checked value into a frozen dataclass while it is being made."""
    object.__setattr__(instance, field, value)


def check_fields(instance: object, **checks: Callable[[str, object], object]) -> None:
    """Replace these fields of a frozen dataclass that is being made by what their checks give."""
    for field, check in checks.items():
        set_field(instance, field, check(field, getattr(instance, field)))


MOST_LISTED = 12


def category_name(value: Category | float) -> str:
    """How a category is written in a column name."""
    return str(value).lower() if isinstance(value, bool) else str(shortest(value))


def listed(values: Sequence[Category | float]) -> str:
    """The first few of some values, and how many more there are."""
    shown = ", ".join(category_name(value) or "(empty)" for value in values[:MOST_LISTED])
    more = len(values) - MOST_LISTED
    return f"{shown} and {more:,} more" if more > 0 else shown


def sentence(head: str, *details: str) -> str:
    """A head and those of the details that there are."""
    return "; ".join((head, *(detail for detail in details if detail)))


def missing_words(marks: Sequence[str | float], instead: str = "") -> str:
    """What stands for a missing value, and what it counts as."""
    missing = f"missing if {listed(marks)}" if marks else "missing" if instead else ""
    return f"{missing}, {instead}" if instead else missing
