"""Columns of any kind of table as Arrow arrays of a declared kind. No message ever quotes a value."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.values import Category, folded

UNKNOWN: Final = -1
MISSING: Final = -2

NUMBERS: Final = "numbers"
TEXT: Final = "text"
TRUTH_VALUES: Final = "truth values"
DATES: Final = "dates"

NUMBER_MARKS: Final = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-NaN", "-nan", "NULL", "null")
"""Texts that stand for a missing number wherever numbers come as text."""

_INSTEAD: Final = {
    TEXT: 'categories = [...] or hashed = k for text, date = [...] for dates, missing = [...] for marks such as "?"',
    DATES: "date = [first, last]",
    NUMBERS: "range = [low, high], or categories that are whole numbers",
    TRUTH_VALUES: "categories = [false, true]",
}
_CLASSES: Final = "classes = [...] as they are written in the table"


def check_columns(table: Any, names: Sequence[str]) -> Any:
    """The table in a form that gives a column by its name, once it is known to have all of these.

    The table is a PyArrow table, a pandas or polars frame, a dictionary of columns, or anything else
    that speaks the Arrow PyCapsule interface.
    """
    import pyarrow as pa

    if not isinstance(table, Mapping) and not hasattr(table, "__arrow_c_stream__"):
        raise InvalidInput(
            "A table with named columns was expected: PyArrow, pandas, polars or a dictionary of columns; "
            f"got {type(table).__name__}."
        )
    if not isinstance(table, Mapping) and not (hasattr(table, "columns") and hasattr(table, "__getitem__")):
        table = read_quietly(lambda: pa.table(table))
        if table is None:
            raise InvalidInput("The table cannot be read through the Arrow interface that it offers.")
    if isinstance(table, pa.Table | pa.RecordBatch):
        held = Counter(table.schema.names)
    else:
        held = Counter(list(table if isinstance(table, Mapping) else table.columns))
    for name in names:
        if held[name] != 1:
            problem = "more than one column" if held[name] else "no column"
            raise InvalidInput(f"The table has {problem} named {name!r}, which the schema declares.")
    return table


def arrow_columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """The named columns as Arrow chunked arrays of one length; all other columns are ignored."""
    table = check_columns(table, names)
    columns = {name: _chunked(name, table[name]) for name in names}
    if len({len(column) for column in columns.values()}) > 1:
        raise InvalidInput("The columns of the table do not have the same length.")
    return columns


def _chunked(name: str, values: Any) -> Any:
    import pyarrow as pa

    def convert() -> Any:
        if hasattr(values, "__arrow_c_stream__"):
            return pa.chunked_array(values)
        column = pa.array(values, from_pandas=True)
        return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])

    column = None if isinstance(values, str | bytes) else read_quietly(convert)
    if column is None:
        raise InvalidInput(f"Column {name!r} does not hold values of one kind.")
    return _plain(column)


def read_quietly(convert: Callable[[], Any]) -> Any:
    """The result, or None where it fails in whatever way: that error may quote a value, so it is left behind here."""
    try:
        return convert()
    except MemoryError:
        raise
    except Exception:
        return None


def _plain(column: Any) -> Any:
    """Without dictionaries, and with one of the two text types that all compute functions know."""
    import pyarrow as pa

    encoded = pa.types.is_dictionary(column.type)
    kind = column.type.value_type if encoded else column.type
    kind = pa.large_string() if kind == pa.string_view() else kind
    if encoded:
        return pa.chunked_array(
            [part.dictionary.cast(kind).take(part.indices) for part in column.chunks], kind
        )
    return column if kind == column.type else column.cast(kind)


def kind_of(column: Any) -> str | None:
    """``NUMBERS``, ``TEXT``, ``TRUTH_VALUES`` or ``DATES``; ``None`` for a column of nulls, which fits all of them."""
    from pyarrow import types

    kind = column.type
    if types.is_null(kind):
        return None
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return NUMBERS
    if types.is_string(kind) or types.is_large_string(kind):
        return TEXT
    if types.is_date(kind) or types.is_timestamp(kind):
        return DATES
    return TRUTH_VALUES if types.is_boolean(kind) else "values of another kind"


def check_kind(
    name: str, column: Any, declared: str, marks: Sequence[str | float] = (), is_target: bool = False
) -> None:
    """Raise unless the column holds what was declared; marks of text let numbers come as text."""
    found = kind_of(column)
    text_is_fine = declared == NUMBERS and any(isinstance(mark, str) for mark in marks)
    if found not in (None, declared, TEXT if text_is_fine else declared):
        way = _CLASSES if is_target else _INSTEAD.get(str(found))
        instead = "Change the declaration" if way is None else f"Declare {way}"
        raise InvalidInput(
            f"Column {name!r}: the schema declares {declared}, the table holds {found}. {instead}, or convert the "
            "column."
        )


def declared_kind(categories: Sequence[Category]) -> str:
    """What a column of these categories holds."""
    kinds: dict[type, str] = {str: TEXT, bool: TRUTH_VALUES, int: NUMBERS}
    return kinds[type(categories[0])]


def as_numbers(name: str, column: Any, marks: Sequence[str | float] = ()) -> NDArray[np.float64]:
    """The column as floats, with NaN for null and for the marks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if kind_of(column) == TEXT:
        column = text_marks(pc.utf8_trim_whitespace(column), (*marks, *NUMBER_MARKS))
    values: NDArray[np.float64] | None = read_quietly(
        lambda: column.cast(pa.float64(), safe=False).to_numpy()
    )
    if values is None:
        raise InvalidInput(
            f"Column {name!r}: the schema declares {NUMBERS}, the table holds text that is neither a number nor a "
            "declared mark of a missing value. List such marks under missing, or declare categories or a date."
        )
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    return np.where(np.isin(values, numbers), np.nan, values) if numbers else values


def text_marks(column: Any, marks: Sequence[str | float]) -> Any:
    """A column of text with null in place of the marks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pa.array([mark for mark in marks if isinstance(mark, str)], type=column.type)
    return pc.if_else(pc.is_in(column, value_set=texts), pa.scalar(None, column.type), column)


def folded_column(column: Any) -> Any:
    """A column of text in its folded spelling; each text that occurs is folded once."""
    import pyarrow as pa

    parts = []
    for part in column.dictionary_encode().chunks:
        spelled = pa.array([folded(text) for text in part.dictionary.to_pylist()], column.type)
        parts.append(spelled.take(part.indices))
    return pa.chunked_array(parts, column.type)


def as_codes(
    name: str,
    column: Any,
    categories: Sequence[Category],
    marks: Sequence[str | float] = (),
    fold: bool = False,
) -> NDArray[np.int64]:
    """The position of each value among the categories, compared by value; else UNKNOWN or MISSING.

    With ``fold`` text is compared in its folded spelling.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if declared_kind(categories) == NUMBERS:
        values = as_numbers(name, column, marks)
        known = np.asarray(categories, dtype=np.float64)
        order = np.argsort(known)
        found = order[np.searchsorted(known, values, sorter=order).clip(max=len(known) - 1)]
        codes = np.where(known[found] == values, found, UNKNOWN)
        codes[np.isnan(values)] = MISSING
        return codes
    if kind_of(column) is None:
        return np.full(len(column), MISSING)
    if fold:
        column = folded_column(column)
        categories, marks = [folded(value) for value in categories], [folded(mark) for mark in marks]
    position = pc.index_in(column, value_set=pa.array(categories, type=column.type))
    codes = np.array(position.fill_null(UNKNOWN), dtype=np.int64)
    codes[pc.is_null(column).to_numpy()] = MISSING
    if marks:
        codes[pc.is_in(column, value_set=pa.array(marks, type=column.type)).to_numpy()] = MISSING
    return codes


Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NUMBER = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|infinity|nan)", re.IGNORECASE | re.ASCII
)
_TRUTH = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def number_of(text: str) -> float | None:
    """The number that a text is read as, or None."""
    text = text.strip()
    return float(text) if _NUMBER.fullmatch(text) else None


def truth_of(text: str) -> float | None:
    return _TRUTH.get(text.strip().lower())


def tolerant_numbers(column: Any, marks: Sequence[str | float]) -> tuple[Floats, Mask]:
    """The numbers of a column, NaN where there is none, and which cells hold something else."""
    if kind_of(column) == TEXT:
        return each_text(text_marks(column, (*marks, *NUMBER_MARKS)), number_of, marks)
    if kind_of(column) in (NUMBERS, None):
        return as_numbers("", column, marks), np.zeros(len(column), bool)
    return other_kind(column)


def tolerant_truth(column: Any) -> tuple[Floats, Mask]:
    """1 for true and 0 for false, NaN where there is neither, and which cells hold something else."""
    import pyarrow as pa

    if kind_of(column) == TEXT:
        return each_text(text_marks(column, NUMBER_MARKS), truth_of)
    if kind_of(column) in (TRUTH_VALUES, None):
        return column.cast(pa.int8()).cast(pa.float64()).to_numpy(), np.zeros(len(column), bool)
    return other_kind(column)


def other_kind(column: Any) -> tuple[Floats, Mask]:
    """Nothing of it can be read."""
    return np.full(len(column), np.nan), ~column.is_null().to_numpy()


def each_text(
    column: Any, read: Callable[[str], float | None], marks: Sequence[str | float] = ()
) -> tuple[Floats, Mask]:
    """What each text is read as, NaN where it is nothing, and which cells hold text that is not read."""
    import pyarrow as pa

    coded = column.dictionary_encode().unify_dictionaries()
    texts = coded.chunk(0).dictionary.to_pylist() if coded.num_chunks else []
    found = [read(text) for text in texts]
    values = np.array([*(np.nan if value is None else value for value in found), np.nan])
    unread = np.array([*(value is None for value in found), False])
    numbers = [mark for mark in marks if not isinstance(mark, str)]
    values[np.isin(values, numbers)] = np.nan
    places = (
        pa.chunked_array([part.indices for part in coded.chunks], pa.int32()).fill_null(len(texts)).to_numpy()
    )
    return values[places], unread[places]


def counted(column: Any, read: Callable[[str], bool]) -> int:
    """How many cells of text are so; none in a column of another kind."""
    if kind_of(column) != TEXT:
        return 0
    _, unread = each_text(column, lambda text: 1.0 if read(text) else None)
    return int((~unread & ~column.is_null().to_numpy()).sum())


def distinct(column: Any) -> int:
    """How many different values there are, missing ones aside."""
    import pyarrow.compute as pc

    return 0 if kind_of(column) is None else int(pc.count_distinct(column, mode="only_valid").as_py())


def blank_cells(column: Any) -> NDArray[np.bool_]:
    """Which cells hold text without a letter."""
    import pyarrow.compute as pc

    if kind_of(column) != TEXT:
        return np.zeros(len(column), bool)
    found: NDArray[np.bool_] = pc.equal(pc.utf8_trim_whitespace(column), "").fill_null(False).to_numpy()
    return found
