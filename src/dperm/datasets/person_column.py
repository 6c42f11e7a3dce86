"""The column with the ids of persons, which says whose row each is. No message quotes an id."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import NUMBER_MARKS, NUMBERS, TEXT, arrow_columns, kind_of, text_marks
from dperm.datasets.schema import Schema
from dperm.errors import InvalidInput


def person_column(table: Any, schema: Schema) -> Any:
    """The ids as an Arrow column without missing ones.

    Ids are numbers or text. Empty text, blanks and what stands for a missing number, such as ``NA``, are no ids.
    """
    assert schema.person is not None
    name = schema.person
    column = ids_or_nothing(arrow_columns(table, [name])[name])
    if column is None:
        raise InvalidInput(f"Column {name!r}: ids of persons must be text or numbers. Convert the column.")
    if column.null_count:
        raise InvalidInput(
            f"Column {name!r}: there are rows without the id of a person. Leave such rows out, or give each an id of "
            "its own if nobody else's row can be among them."
        )
    return column


def ids_or_nothing(column: Any) -> Any:
    """A column with null for every missing id; None for a column that cannot hold ids."""
    import pyarrow.compute as pc
    from pyarrow import types

    kind = kind_of(column)
    if kind == TEXT:
        trimmed = pc.utf8_trim_whitespace(column)
        return pc.if_else(pc.is_valid(text_marks(trimmed, NUMBER_MARKS)), column, None)
    if types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), column, None)
    return column if kind in (NUMBERS, None) else None


def person_ids(table: Any, schema: Schema) -> NDArray[np.int64]:
    """For every row the number of its person: persons are numbered by their first rows."""
    import pyarrow as pa

    column = person_column(table, schema)
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # of a column without rows, or one too long for a single array
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    return np.asarray(whole.dictionary_encode().indices, np.int64)
