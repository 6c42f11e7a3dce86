"""Tables from files: one reader for each file format, found by what the name of a file ends in."""

import os
from collections.abc import Iterator
from typing import Any

from dperm.schema.readers.base import (
    ROWS_AT_ONCE,
    Reader,
    from_row,
    reader_of,
    readers,
    register_reader,
)
from dperm.schema.readers.excel import ExcelReader
from dperm.schema.readers.parquet import ParquetReader
from dperm.schema.readers.text import TextReader
from dperm.schema.schema import AS_NAMED, FileLayout, Schema

for _reader in (TextReader, ExcelReader, ParquetReader):
    register_reader(_reader)

__all__ = [
    "ROWS_AT_ONCE",
    "Reader",
    "TextReader",
    "column_types",
    "from_row",
    "look_at",
    "read_table",
    "reader_of",
    "readers",
    "register_reader",
    "stream_table",
]


def read_table(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    as_text: bool = False,
    only: str | None = None,
) -> Any:
    """Read a file as a PyArrow table.

    Parameters
    ----------
    path : str or path
        A file that ends in ``.csv``, ``.tsv``, one of these with ``.gz``, ``.xlsx`` (with the extra ``dperm[excel]``)
        or ``.parquet``, or as a registered format of your own. Text has one header line; ``[file]`` of the schema
        says how it is written.
    schema : Schema, optional
        With it only the declared columns are read, and those of a text file take their declared kinds; without it
        PyArrow guesses the kinds from the values.
    as_text : bool
        Whether all declared columns of a text file are read as text, so that no cell can fail to be read.
    only : str, optional
        The one declared column that is read.

    Returns
    -------
    pyarrow.Table
        There may be no rows.
    """
    return reader_of(path, _layout(schema)).read(schema, as_text=as_text, only=only)


def look_at(path: str | os.PathLike[str], schema: Schema | None = None) -> tuple[list[str], int]:
    """The columns and the number of rows of a file that :func:`read_table` reads, before a cell is looked at.

    A file of text, or a workbook, has to be gone through to find where its rows end; nothing else is made of them.
    There may be none.
    """
    reader = reader_of(path, _layout(schema))
    return list(reader.column_types()), reader.count()


def column_types(path: str | os.PathLike[str], layout: FileLayout | None = None) -> dict[str, Any]:
    """The names of a file's columns with their declared Arrow types, None where a file of text declares none."""
    return reader_of(path, layout or AS_NAMED).column_types()


def stream_table(
    path: str | os.PathLike[str], schema: Schema | None = None, skip: int = 0, person: str | None = None
) -> Iterator[Any]:
    """The rows of a file from row ``skip`` on, as PyArrow record batches of bounded size.

    Columns are those of :func:`read_table`. Without a schema the kinds of a CSV file's columns are guessed from its
    beginning, but for that of ``person``, whose ids stay as they are written.
    """
    return reader_of(path, _layout(schema)).batches(schema, skip, person)


def _layout(schema: Schema | None) -> FileLayout:
    return AS_NAMED if schema is None else schema.file
