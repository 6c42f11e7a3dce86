"""Read a table from a file, by what its name ends in. Messages name the file and the column, never what they hold."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from dperm.datasets.layout import AS_NAMED, FileLayout
from dperm.datasets.schema import Schema
from dperm.datasets.text_files import EXCEL, TextTable, check_names
from dperm.errors import InvalidInput

PARQUET = ".parquet"
ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", EXCEL, PARQUET)


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
        or ``.parquet``. Text has one header line; ``[file]`` of the schema says how it is written.
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
    file = readable(path)
    return _read_parquet(file, schema, only) if is_parquet(file) else _read_text(file, schema, as_text, only)


def look_at(path: str | os.PathLike[str], schema: Schema | None = None) -> tuple[list[str], int]:
    """The columns and the number of rows of a file that :func:`read_table` reads, before a cell is looked at.

    A file of text, or a workbook, has to be gone through to find where its rows end; nothing else is made of them.
    There may be none.
    """
    file = readable(path)
    if is_parquet(file):
        return _parquet_shape(file)
    text = TextTable(file, layout_of(schema))
    return text.names, text.count()


def column_types(path: str | os.PathLike[str], layout: FileLayout | None = None) -> dict[str, Any]:
    """The names of a file's columns with their declared Arrow types, None where a file of text declares none."""
    file = readable(path)
    if not is_parquet(file):
        return dict.fromkeys(TextTable(file, layout or AS_NAMED).names)
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = None
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError):
        known = pq.read_schema(file)
        types = [(field.name, field.type) for field in known]
    if types is None:
        raise unreadable(file)
    check_names(file, [name for name, _ in types])
    return dict(types)


def readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that there is and that ends as one of ours; it may still hold something else."""
    file = Path(path)
    if not file.name.lower().endswith(ENDINGS):
        raise InvalidInput(
            f"{file.name}: a file ending in {', '.join(ENDINGS[:-1])} or {ENDINGS[-1]} was expected."
        )
    if not file.is_file():
        raise InvalidInput(f"{file.name}: there is no such file.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name}: the file is empty.")
    return file


def is_parquet(file: Path) -> bool:
    return file.suffix.lower() == PARQUET


def layout_of(schema: Schema | None) -> FileLayout:
    return AS_NAMED if schema is None else schema.file


def _parquet_shape(file: Path) -> tuple[list[str], int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape = None
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError), pq.ParquetFile(file) as parquet:
        shape = parquet.schema_arrow.names, parquet.metadata.num_rows
    if shape is None:
        raise unreadable(file)
    check_names(file, shape[0])
    return shape


def _read_parquet(file: Path, schema: Schema | None, only: str | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            names = declared_names(file, parquet.schema_arrow.names, schema)
            return parquet.read(columns=names if only is None else [only])
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a column name
        pass  # its message may quote a cell, so it is left behind before another error is made
    raise unreadable(file)


def unreadable(file: Path) -> InvalidInput:
    return InvalidInput(f"{file.name}: this is not a readable Parquet file.")


def declared_names(file: Path, names: list[str], schema: Schema | None) -> list[str] | None:
    """The columns of a Parquet file to be read: those that the schema declares, or all."""
    check_names(file, names)
    if schema is None:
        return None
    return [name for name in names if name in schema.column_names]


def _read_text(file: Path, schema: Schema | None, as_text: bool, only: str | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    text = TextTable(file, layout_of(schema))
    try:
        table = arrow_csv.read_csv(
            text.source,
            read_options=arrow_csv.ReadOptions(encoding=text.encoding),
            **text.options(schema, as_text, only),
        )
        return text.with_points(table, schema)
    except (pa.ArrowException, OSError, UnicodeError) as error:
        told = text.unfit(str(error), schema)
    raise told
