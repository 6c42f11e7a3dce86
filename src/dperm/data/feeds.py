"""Where rows come from, a piece at a time: files, Arrow, frames, arrays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from dperm.errors import InvalidInput
from dperm.person_ids import texts
from dperm.schema import Schema, look_at, stream_table
from dperm.schema.columns import NUMBERS, TRUTH_VALUES, arrow_columns, as_numbers, check_kind, kind_of
from dperm.schema.encoding import person_column
from dperm.schema.readers import ROWS_AT_ONCE, from_row

Pieces = Callable[[int], Iterator[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Feed:
    """Pieces of rows.

    ``pieces``    the pieces from a row on, in an order that does not change;
    ``identity``  what says whether the rows of another run are the same ones, or None where nothing does: files have
                  names, sizes and times of their last change;
    ``total``     the number of rows, where it is known without a look at them.
    """

    pieces: Pieces
    identity: list[Any] | None = None
    total: int | None = None


def table_feed(source: Any, schema: Schema | None, person: str | None = None) -> Feed:
    """Pieces that are tables with named columns; without a schema ``person`` may name that of the ids."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    if isinstance(source, str | os.PathLike):
        return _file_feed(Path(source), schema, person)
    if isinstance(source, ds.Dataset):
        return _dataset_feed(source, schema)
    if isinstance(source, pa.RecordBatchReader):
        return Feed(pieces=lambda skip: from_row(_read_by(source), skip))
    if isinstance(source, Mapping) or hasattr(source, "__arrow_c_stream__"):
        counted = not isinstance(source, Mapping) and hasattr(source, "__len__")
        total = len(source) if counted else None
        return Feed(pieces=lambda skip: _cut([source], schema, skip, person), total=total)
    if isinstance(source, Iterable):
        return Feed(pieces=lambda skip: _cut(source, schema, skip, person))
    raise InvalidInput(
        "rows must come from a CSV or Parquet file, a folder of Parquet files, Arrow, a frame, or an iterator of "
        f"frames; got {type(source).__name__}."
    )


def array_feed(X: Any, y: Any) -> Feed:
    """Pieces of an array and its labels."""
    if getattr(X, "ndim", None) != 2 or (y is not None and len(y) != len(X)):
        raise InvalidInput("X must be a two-dimensional array and y hold one label for each row.")

    def pieces(skip: int) -> Iterator[Any]:
        for first in range(skip, len(X), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            yield X[part], None if y is None else y[part]

    return Feed(pieces=pieces, total=len(X))


def pair_feed(pairs: Iterable[Any]) -> Feed:
    """Pieces of (X, y) as they come."""

    def pieces(skip: int) -> Iterator[Any]:
        for pair in pairs:
            if not (isinstance(pair, tuple) and len(pair) == 2):
                raise InvalidInput("without a schema an iterator must give pairs (X, y) of arrays.")
            yield from array_feed(*pair).pieces(min(skip, len(pair[0])))
            skip = max(0, skip - len(pair[0]))

    return Feed(pieces=pieces)


def peeked(feed: Feed) -> tuple[Any, Feed]:
    """The first piece, or None, and the feed with that piece still in it."""
    pieces = feed.pieces(0)
    first = next(pieces, None)

    def again(skip: int) -> Iterator[Any]:
        if skip:
            return feed.pieces(skip)
        return pieces if first is None else chain([first], pieces)

    return first, Feed(pieces=again, identity=feed.identity, total=feed.total)


def _file_feed(path: Path, schema: Schema | None, person: str | None) -> Feed:
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise InvalidInput(f"{path.name}: the folder holds no .parquet files.")
    counts = [look_at(file)[1] if file.suffix.lower() == ".parquet" else None for file in files]
    known = [count for count in counts if count is not None]

    def pieces(skip: int) -> Iterator[Any]:
        for file, count in zip(files, counts, strict=True):
            if count is None or skip < count:
                yield from stream_table(file, schema, skip, person)
            skip = max(0, skip - (count or 0))

    return Feed(
        pieces=pieces,
        identity=[_identity(file) for file in files],
        total=sum(known) if len(known) == len(counts) else None,
    )


def _dataset_feed(dataset: Any, schema: Schema | None) -> Feed:
    names = None if schema is None else list(schema.column_names)
    missing = [name for name in names or () if name not in dataset.schema.names]
    if missing:
        raise InvalidInput(f"The dataset has no column named {missing[0]!r}, which the schema declares.")
    options = {"batch_size": ROWS_AT_ONCE, "batch_readahead": 2, "fragment_readahead": 1}
    files = [Path(name) for name in getattr(dataset, "files", [])]
    local = bool(files) and all(file.is_file() for file in files)

    def pieces(skip: int) -> Iterator[Any]:
        return from_row(_read_by(dataset.scanner(columns=names, **options).to_reader()), skip)

    return Feed(
        pieces=pieces,
        identity=[_identity(file) for file in files] if local else None,
        total=int(dataset.count_rows()),
    )


def _read_by(reader: Any) -> Iterator[Any]:
    """Batches of a reader, with errors that quote no value."""
    import pyarrow as pa

    while True:
        failed = False
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            failed = True
        if failed:
            raise InvalidInput("the rows could not be read: Arrow refused a piece of them.")
        yield batch


def _cut(frames: Iterable[Any], schema: Schema | None, skip: int, person: str | None = None) -> Iterator[Any]:
    """Frames of any kind as Arrow tables of bounded size, with the declared columns or all.

    Arrow gives a column one type, so ids of persons are made text before.
    """
    import pyarrow as pa

    person = person if schema is None else schema.person
    for frame in frames:
        table = frame
        if not isinstance(frame, pa.Table | pa.RecordBatch):
            names = None if schema is None else list(schema.column_names)
            held: Any = frame if isinstance(frame, Mapping) else getattr(frame, "columns", None)
            if held is None and names is None:
                raise InvalidInput(f"a table with named columns was expected; got {type(frame).__name__}.")
            names = list(held) if names is None else names
            columns = arrow_columns(frame, [name for name in names if name != person])
            if person in names:
                columns[person] = pa.array(texts(person_column(frame, person)), pa.string())
                if any(len(column) != len(columns[person]) for column in columns.values()):
                    raise InvalidInput("The columns of the table do not have the same length.")
            table = pa.table(columns)
        for first in range(0, table.num_rows, ROWS_AT_ONCE):
            yield from from_row(iter([table.slice(first, ROWS_AT_ONCE)]), skip - first)
        skip -= table.num_rows


def _identity(file: Path) -> list[Any]:
    status = file.stat()
    return [file.name, status.st_size, status.st_mtime_ns]


def numbers_of(
    frame: Any, target: str | None, names: list[str], person: str | None = None
) -> tuple[Any, ...]:
    """A table whose columns are numbers as (X, y), X in the order of ``names``, and with ``person`` the ids."""
    apart = [name for name in (target, person) if name is not None]
    columns = arrow_columns(frame, [*names, *apart])
    for name in names:
        if kind_of(columns[name]) != TRUTH_VALUES:
            check_kind(name, columns[name], NUMBERS)
    X = np.column_stack([as_numbers(name, columns[name]) for name in names])
    y = None if target is None else columns[target].to_numpy()
    return (X, y) if person is None else (X, y, columns[person])


def number_feed(source: Any, target: str | None, person: str | None) -> tuple[list[str], Feed]:
    """Tables of numbers as pieces of (X, y) or (X, y, ids of persons); and the names of the columns of X."""
    feed = table_feed(source, None, person)
    held = _column_names(source)
    if held is None:
        first, feed = peeked(feed)
        if first is None:
            raise InvalidInput("there are no rows, so nothing says which columns there are; give a schema.")
        held = list(first.schema.names)
    for name, what in ((target, "y"), (person, "person")):
        if name is not None and name not in held:
            raise InvalidInput(f"the table has no column named {name!r}, which {what} asks for.")
    names = [name for name in held if name not in (target, person)]
    convert = partial(numbers_of, target=target, names=names, person=person)
    return names, Feed(
        pieces=lambda skip: map(convert, feed.pieces(skip)), identity=feed.identity, total=feed.total
    )


def _column_names(source: Any) -> list[str] | None:
    """The columns of a table whose names are known before its rows are read."""
    if isinstance(source, str | os.PathLike):
        path = Path(source)
        return look_at(path)[0] if path.is_file() else None
    return (
        list(source.schema.names) if hasattr(source, "schema") and hasattr(source.schema, "names") else None
    )
