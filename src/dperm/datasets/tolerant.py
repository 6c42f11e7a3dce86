"""Columns of any kind as a schema declares them, where what cannot be read is counted and not refused."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets.columns import (
    NUMBER_MARKS,
    NUMBERS,
    TEXT,
    TRUTH_VALUES,
    as_numbers,
    kind_of,
    text_marks,
)

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

_NUMBER = re.compile(
    r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:inf|infinity|nan)", re.IGNORECASE | re.ASCII
)
_TRUTH = {"true": 1.0, "1": 1.0, "false": 0.0, "0": 0.0}


def number_of(text: str) -> float | None:
    """The number that a text is read as, or None."""
    told = text.strip()
    return float(told) if _NUMBER.fullmatch(told) else None


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
