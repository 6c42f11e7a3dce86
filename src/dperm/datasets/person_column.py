"""The column with the ids of persons, which says whose row each is. No message quotes an id."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import check_columns
from dperm.datasets.schema import Schema
from dperm.errors import InvalidInput
from dperm.person_ids import UNREADABLE, NumberedIds, numbered


def person_column(table: Any, name: str) -> NumberedIds:
    """The persons of a table, by the ids in a column. Whether every id could be read is left to the caller."""
    column = check_columns(table, [name])[name]
    try:
        return numbered(column)
    except InvalidInput as error:
        told = str(error)
    raise InvalidInput(f"Column {name!r}: {told}")


def checked_column(table: Any, name: str) -> NumberedIds:
    """The same, once every id could be read."""
    found = person_column(table, name)
    if not found.readable:
        raise InvalidInput(f"Column {name!r}: {UNREADABLE}")
    return found


def person_ids(table: Any, schema: Schema) -> NDArray[np.int64]:
    """For every row the number of its person: persons are numbered by their first rows."""
    assert schema.person is not None
    return checked_column(table, schema.person).person
