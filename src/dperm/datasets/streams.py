"""Read a file a piece at a time. Messages name the file and the column, never what they hold."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dperm.datasets.files import csv_options, declared_names, is_csv, readable, unfit_row, unreadable
from dperm.datasets.schema import Schema

ROWS_AT_ONCE = 65_536
_CSV_BYTES = 16 * 2**20


def stream_table(path: str | os.PathLike[str], schema: Schema | None = None, skip: int = 0) -> Iterator[Any]:
    """The rows of a CSV or Parquet file from row ``skip`` on, as PyArrow record batches of bounded size.

    Columns are those of :func:`dperm.datasets.read_table`. Without a schema the kinds of a CSV file's columns are
    guessed from its beginning.
    """
    file = readable(path)
    return (_csv if is_csv(file) else _parquet)(file, schema, skip)


def from_row(batches: Iterator[Any], skip: int) -> Iterator[Any]:
    """What is left of some batches when the first ``skip`` rows are left out."""
    for batch in batches:
        left = max(0, min(skip, batch.num_rows))
        skip -= left
        if left < batch.num_rows:
            yield batch.slice(left) if left else batch


def _csv(file: Path, schema: Schema | None, skip: int) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv

    names, options = csv_options(file, schema)
    told = None
    try:
        reader = csv.open_csv(
            file,
            read_options=csv.ReadOptions(block_size=_CSV_BYTES),
            convert_options=csv.ConvertOptions(**options),
        )
    except (pa.ArrowException, OSError) as error:
        told = unfit_row(file, names, str(error))
    if told is not None:
        raise told
    for batch in from_row(_each(reader, file, names), skip):
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            yield batch.slice(start, ROWS_AT_ONCE)


def _each(reader: Any, file: Path, names: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    while True:
        told = None
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            told = unfit_row(file, names, str(error))
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
