"""The groups, declared before a row is read: no value of a row ever makes one, and none is quoted."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.estimators.apart import made
from dperm.evaluation.owners import Integers
from dperm.schema.columns import arrow_columns, as_codes, declared_kind, kind_of
from dperm.schema.values import LARGEST_INTEGER, Category

MOST_GROUPS = 4096
ALL = "all"


@dataclass(frozen=True)
class Declared:
    """The values that a group may have, in their order; ``other`` names a last group of all rows with another value."""

    name: str
    values: tuple[Category, ...]
    other: str | None = None

    @property
    def labels(self) -> tuple[Category, ...]:
        return self.values if self.other is None else (*self.values, self.other)

    @property
    def n_cells(self) -> int:
        """One where nothing is declared: that of all rows."""
        return max(1, len(self.labels))

    def places(self, X: Any, by: Any, n_rows: int) -> Integers:
        """The group of each row. Whatever was wrong, the values of rows are not told."""
        if not self.values:
            return np.zeros(n_rows, np.int64)
        column = arrow_columns(*_column(X, by, self.name))[self.name]
        if len(column) != n_rows:
            raise InvalidInput("by must hold one value for every row of X.")
        wanted, held = declared_kind(self.values), kind_of(column)
        if held not in (None, wanted):
            raise InvalidInput(f"values are {wanted}, and by holds {held}; convert one of them.")
        places = as_codes(self.name, column, self.values)
        unknown = places < 0
        if unknown.any() and self.other is None:
            raise InvalidInput(
                "there are rows whose group is missing or not among the declared values; declare every value that may "
                "occur, or name the rest with other."
            )
        return np.where(unknown, len(self.values), places).astype(np.int64)


def declared_groups(by: Any, values: Any, other: Any) -> Declared:
    if by is None:
        if values is not None or other is not None:
            raise InvalidInput(
                "values and other say which groups there are; give by too, the group of each row."
            )
        return Declared(ALL, ())
    name = by if isinstance(by, str) else getattr(by, "name", None)
    return Declared(name if isinstance(name, str) and name else "group", *_checked(values, other))


def _checked(values: Any, other: Any) -> tuple[tuple[Category, ...], str | None]:
    if (
        values is None
        or isinstance(values, str | bytes | Mapping)
        or not isinstance(values, Sequence | np.ndarray)
    ):
        raise InvalidInput(
            f"values must list the values of by that make a group; got {reprlib.repr(values)}. They are declared, not "
            "taken from rows: that a value occurs would tell about the row that has it."
        )
    known = [value.item() if isinstance(value, np.generic) else value for value in values]
    if {type(value) for value in known} not in ({str}, {int}, {bool}) or len(known) > MOST_GROUPS:
        raise InvalidInput(
            f"values must be from 1 to {MOST_GROUPS} of one kind: text, integers or truth values; got "
            f"{reprlib.repr(known)}."
        )
    if len(set(known)) < len(known):
        raise InvalidInput(f"values must not repeat a value; got {reprlib.repr(known)}.")
    if any(isinstance(value, int) and abs(value) > LARGEST_INTEGER for value in known):
        raise InvalidInput("values must hold integers of at most 2**53 - 1 in size.")
    if other is not None and (not isinstance(other, str) or not other or other in known):
        raise InvalidInput(f"other must be a text that is not among values; got {reprlib.repr(other)}.")
    return tuple(known), other


def _column(X: Any, by: Any, name: str) -> tuple[Any, list[str]]:
    """A table that has the column, and its name there."""
    if not isinstance(by, str):
        return {name: made(by)}, [name]
    held = getattr(X, "column_names", None)  # of Arrow, whose columns are no names
    known = list(X if isinstance(X, Mapping) else getattr(X, "columns", ()) if held is None else held)
    if known.count(by) != 1:
        raise InvalidInput(
            f"by names the column {by!r}, so X must be a table with one column of this name; or give one value for "
            "every row."
        )
    return X, [by]
