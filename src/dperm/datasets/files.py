"""Read a table from a CSV or Parquet file. Messages name the file and the column, never what they hold."""

import csv
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

from dperm.datasets.columns import TEXT, TRUTH_VALUES, declared_kind
from dperm.datasets.dates import Date
from dperm.datasets.expansion import Feature
from dperm.datasets.hashed import Hashed
from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema
from dperm.datasets.target import Target
from dperm.errors import InvalidInput

_COLUMN_NUMBER = re.compile(r"In CSV column #(\d+): ")


def read_table(path: str | os.PathLike[str], schema: Schema | None = None) -> Any:
    """Read a ``.csv`` (commas, one header line, UTF-8) or ``.parquet`` file as a PyArrow table.

    With a schema only the declared columns are read, and the columns of a CSV file take their declared
    kinds; without one PyArrow guesses the kinds from the values. A file may hold no rows.
    """
    file = readable(path)
    return (_read_csv if is_csv(file) else _read_parquet)(file, schema)


def look_at(path: str | os.PathLike[str]) -> tuple[list[str], int]:
    """The columns and the number of rows of a file that :func:`read_table` reads, before a cell is looked at.

    A CSV file has to be gone through to find where its rows end; nothing else is made of them. There may be none.
    """
    file = readable(path)
    return (_csv_shape if is_csv(file) else _parquet_shape)(file)


def readable(path: str | os.PathLike[str]) -> Path:
    """The path of a file that there is and that ends as one of ours; it may still hold something else."""
    file = Path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidInput(f"{file.name}: a file ending in .csv or .parquet was expected.")
    if not file.is_file():
        raise InvalidInput(f"{file.name}: there is no such file.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name}: the file is empty.")
    return file


def is_csv(file: Path) -> bool:
    return file.suffix.lower() == ".csv"


def _parquet_shape(file: Path) -> tuple[list[str], int]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    shape = None
    with suppress(pa.ArrowException, OSError, UnicodeDecodeError), pq.ParquetFile(file) as parquet:
        shape = parquet.schema_arrow.names, parquet.metadata.num_rows
    if shape is None:
        raise unreadable(file)
    _check_names(file, shape[0])
    return shape


def _csv_shape(file: Path) -> tuple[list[str], int]:
    names = _header(file)
    longest = csv.field_size_limit(2**31 - 1)
    try:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            return names, sum(1 for row in csv.reader(lines) if row) - 1
    finally:
        csv.field_size_limit(longest)


def _read_parquet(file: Path, schema: Schema | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            return parquet.read(columns=declared_names(file, parquet.schema_arrow.names, schema))
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a column name
        pass  # its message may quote a cell, so it is left behind before another error is made
    raise unreadable(file)


def unreadable(file: Path) -> InvalidInput:
    return InvalidInput(f"{file.name}: this is not a readable Parquet file.")


def declared_names(file: Path, names: list[str], schema: Schema | None) -> list[str] | None:
    """The columns of a Parquet file to be read: those that the schema declares, or all."""
    _check_names(file, names)
    return None if schema is None else [name for name in names if name in _declared(schema)]


def _read_csv(file: Path, schema: Schema | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names, options = csv_options(file, schema)
    try:
        return arrow_csv.read_csv(file, convert_options=arrow_csv.ConvertOptions(**options))
    except (pa.ArrowException, OSError) as error:
        told = unfit_row(file, names, str(error))
    raise told


def csv_options(file: Path, schema: Schema | None) -> tuple[list[str], dict[str, Any]]:
    """The columns of a CSV file, and how PyArrow is to convert those that the schema declares."""
    names = _header(file)
    if schema is None:
        return names, {}
    kinds = {item.name: _csv_type(item) for item in (schema.target, *schema.features)}
    return names, {"column_types": kinds, "include_columns": [name for name in names if name in kinds]}


def unfit_row(file: Path, names: list[str], said: str) -> InvalidInput:
    """The error about a row of a CSV file. PyArrow quotes a cell, so only the number of its column is taken from it."""
    number = _COLUMN_NUMBER.match(said)
    where = f"column {names[int(number[1])]!r}" if number and int(number[1]) < len(names) else "a row"
    return InvalidInput(
        f"{file.name}: {where} does not fit the rest of the file or its declared kind. Every row needs "
        f"{len(names)} values separated by commas, and a column values of one kind."
    )


def _header(file: Path) -> list[str]:
    names = _first_line(file)
    if names is None:
        raise InvalidInput(f"{file.name}: this is not a readable CSV file in UTF-8.")
    _check_names(file, names)
    if any(_is_number(name) for name in names):
        raise InvalidInput(f"{file.name}: the first line must name the columns, but it holds numbers.")
    return names


def _first_line(file: Path) -> list[str] | None:
    try:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            names = next(csv.reader(lines), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error):
        return None
    return names


def _check_names(file: Path, names: list[str]) -> None:
    if not names or "" in names or len(set(names)) != len(names):
        raise InvalidInput(
            f"{file.name}: every column needs a name of its own, in the first line of a CSV file."
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _declared(schema: Schema) -> set[str]:
    return {schema.target.name, *(feature.name for feature in schema.features)}


def _csv_type(item: Feature | Target) -> Any:
    """The Arrow type of a declared column; numbers whose marks of a missing value are text come as text."""
    import pyarrow as pa

    marks = () if isinstance(item, Target) else item.missing
    if isinstance(item, Numeric | Date | Hashed):
        categories: tuple[str | int, ...] = ()
    else:
        categories = item.classes if isinstance(item, Target) else item.categories
    kind = declared_kind(categories) if categories else None
    if kind == TEXT or isinstance(item, Date | Hashed) or any(isinstance(mark, str) for mark in marks):
        return pa.string()
    return pa.bool_() if kind == TRUTH_VALUES else pa.float64()
