"""Read a table from a CSV or Parquet file. Messages name the file and the column, never what they hold."""

import csv
import os
import re
from pathlib import Path
from typing import Any

from dperm.datasets.columns import TEXT, TRUTH_VALUES, declared_kind
from dperm.datasets.schema import Feature, Numeric, Schema, Target
from dperm.errors import InvalidInput

_COLUMN_NUMBER = re.compile(r"CSV column #(\d+)")


def read_table(path: str | os.PathLike[str], schema: Schema | None = None) -> Any:
    """Read a ``.csv`` (commas, one header line, UTF-8) or ``.parquet`` file as a PyArrow table.

    With a schema only the declared columns are read, and the columns of a CSV file take their declared
    kinds; without one PyArrow guesses the kinds from the values. A file may hold no rows.
    """
    file = Path(path)
    readers = {".csv": _read_csv, ".parquet": _read_parquet}
    if file.suffix.lower() not in readers:
        raise InvalidInput(f"{file.name}: a file ending in .csv or .parquet was expected.")
    if not file.is_file():
        raise InvalidInput(f"{file.name}: there is no such file.")
    if file.stat().st_size == 0:
        raise InvalidInput(f"{file.name}: the file is empty.")
    return readers[file.suffix.lower()](file, schema)


def _read_parquet(file: Path, schema: Schema | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file) as parquet:
            names = parquet.schema_arrow.names
            _check_names(file, names)
            return parquet.read(
                columns=None if schema is None else [n for n in names if n in _declared(schema)]
            )
    except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a column name
        raise InvalidInput(f"{file.name}: this is not a readable Parquet file.") from None


def _read_csv(file: Path, schema: Schema | None) -> Any:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    names = _header(file)
    options = {}
    if schema is not None:
        kinds = {item.name: _csv_type(item) for item in (schema.target, *schema.features)}
        options = {"column_types": kinds, "include_columns": [name for name in names if name in kinds]}
    try:
        return arrow_csv.read_csv(file, convert_options=arrow_csv.ConvertOptions(**options))
    except (pa.ArrowException, OSError) as error:
        number = _COLUMN_NUMBER.search(str(error))
        where = f"column {names[int(number[1])]!r}" if number and int(number[1]) < len(names) else "a row"
        raise InvalidInput(
            f"{file.name}: {where} does not fit the rest of the file or its declared kind. Every row needs "
            f"{len(names)} values separated by commas, and a column values of one kind."
        ) from None


def _header(file: Path) -> list[str]:
    try:
        with file.open(encoding="utf-8-sig", errors="surrogateescape", newline="") as lines:
            names = next(csv.reader(lines), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error):
        raise InvalidInput(f"{file.name}: this is not a readable CSV file in UTF-8.") from None
    _check_names(file, names)
    if any(_is_number(name) for name in names):
        raise InvalidInput(f"{file.name}: the first line must name the columns, but it holds numbers.")
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
    if isinstance(item, Numeric):
        categories: tuple[str | int, ...] = ()
    else:
        categories = item.classes if isinstance(item, Target) else item.categories
    kind = declared_kind(categories) if categories else None
    if kind == TEXT or any(isinstance(mark, str) for mark in marks):
        return pa.string()
    return pa.bool_() if kind == TRUTH_VALUES else pa.float64()
