"""Read a file a piece at a time. Messages name the file and the column, never what they hold."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dperm.datasets.files import declared_names, is_parquet, layout_of, readable, unreadable
from dperm.datasets.schema import Schema
from dperm.datasets.text_files import TextTable

ROWS_AT_ONCE = 65_536
_CSV_BYTES = 16 * 2**20


def stream_table(
    path: str | os.PathLike[str], schema: Schema | None = None, skip: int = 0, person: str | None = None
) -> Iterator[Any]:
    """The rows of a file from row ``skip`` on, as PyArrow record batches of bounded size.

    Columns are those of :func:`dperm.datasets.read_table`. Without a schema the kinds of a CSV file's columns are
    guessed from its beginning, but for that of ``person``, whose ids stay as they are written.
    """
    file = readable(path)
    return _parquet(file, schema, skip) if is_parquet(file) else _text(file, schema, skip, person)


def from_row(batches: Iterator[Any], skip: int) -> Iterator[Any]:
    """What is left of some batches when the first ``skip`` rows are left out."""
    for batch in batches:
        left = max(0, min(skip, batch.num_rows))
        skip -= left
        if left < batch.num_rows:
            yield batch.slice(left) if left else batch


def _text(file: Path, schema: Schema | None, skip: int, person: str | None) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    text = TextTable(file, layout_of(schema))
    told = None
    try:
        reader = csv.open_csv(
            text.source,
            read_options=csv.ReadOptions(block_size=_CSV_BYTES, encoding=text.encoding),
            **text.options(schema, person=person),
        )
    except (pa.ArrowException, OSError, UnicodeError) as error:
        told = text.unfit(str(error), schema)
    if told is not None:
        raise told
    for batch in from_row(_each(reader, text, schema), skip):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _each(reader: Any, text: TextTable, schema: Schema | None) -> Iterator[Any]:
    import pyarrow as pa

    while True:
        told = None
        try:
            batch = text.with_points(reader.read_next_batch(), schema)
        except StopIteration:
            return
        except (pa.ArrowException, OSError, UnicodeError) as error:
            told = text.unfit(str(error), schema)
        if told is not None:
            raise told
        yield batch


def _parquet(file: Path, schema: Schema | None, skip: int) -> Iterator[Any]:
    """Row groups that are left out whole are not read."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            names = declared_names(file, parquet.schema_arrow.names, schema)
            for group in range(parquet.num_row_groups):
                rows = parquet.metadata.row_group(group).num_rows
                if skip >= rows:
                    skip -= rows
                    continue
                batches = parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=names)
                yield from from_row(batches, skip)
                skip = 0
        return
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    raise unreadable(file)
