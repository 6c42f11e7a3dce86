"""Tables in text: CSV and TSV files, packed or not, and the sheets of workbooks. Messages never quote a cell."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

from dperm.datasets.columns import NUMBERS, TEXT, TRUTH_VALUES, declared_kind
from dperm.datasets.dates import Date
from dperm.datasets.excel import sheet_delimiter, sheet_text
from dperm.datasets.expansion import Feature
from dperm.datasets.hashed import Hashed
from dperm.datasets.layout import DELIMITERS, FileLayout
from dperm.datasets.numeric import Numeric
from dperm.datasets.schema import Schema
from dperm.datasets.target import Target
from dperm.errors import InvalidInput

EXCEL = ".xlsx"
_COLUMN_NUMBER = re.compile(r"In CSV column #(\d+): ")
_COMMA = r"^(\s*[-+]?\d*),(\d+(?:[eE][-+]?\d+)?\s*)$"
_INSTEAD = {
    NUMBERS: (
        "holds something else than numbers. If these are dates, declare date = [first, last]; if text, categories or "
        'hashed; if marks such as "?", list them under missing; if decimal commas, give [file] decimal = ","'
    ),
    TRUTH_VALUES: "holds something else than true and false. Declare the categories as they are written in the file",
    TEXT: "is not text in the declared encoding. Give [file] encoding, or save the file in UTF-8",
}


class TextTable:
    """A file of text with its layout: the names of its columns, and what PyArrow needs to read it."""

    def __init__(self, file: Path, layout: FileLayout) -> None:
        self.file, self.layout = file, layout
        self.is_sheet = file.name.lower().endswith(EXCEL)
        self.delimiter = sheet_delimiter(layout) if self.is_sheet else delimiter_of(file, layout)
        self.names = self._header()

    def count(self) -> int:
        """How many rows there are. Where each ends is found by going through them; nothing else is made of them."""
        longest = csv.field_size_limit(2**31 - 1)
        counted = None
        try:
            with open_text(self.file, self.layout) as lines:
                counted = sum(1 for row in csv.reader(lines, delimiter=self.delimiter) if row) - 1
        except (csv.Error, OSError, EOFError, zlib.error):
            pass
        finally:
            csv.field_size_limit(longest)
        if counted is None:
            raise self._unreadable()
        return counted

    @property
    def source(self) -> Any:
        """What PyArrow reads."""
        import pyarrow as pa

        if self.is_sheet:
            return pa.BufferReader(sheet_text(self.file, self.layout))
        return pa.input_stream(self.file, compression="gzip") if _is_packed(self.file) else self.file

    def options(
        self,
        schema: Schema | None,
        as_text: bool = False,
        only: str | None = None,
        person: str | None = None,
    ) -> dict[str, Any]:
        """How PyArrow is to part and convert the columns, those that the schema declares to their kinds.

        Ids of persons, in the column that the schema or ``person`` names, stay as they are written.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        convert: dict[str, Any] = {"decimal_point": self.layout.decimal}
        named = person if schema is None else schema.person
        kinds = {} if named is None else {named: pa.string()}
        if schema is not None:
            kinds |= {item.name: _arrow_type(item, as_text) for item in (schema.target, *schema.features)}
            convert["include_columns"] = [
                name for name in self.names if name in kinds and only in (None, name)
            ]
        convert["column_types"] = kinds
        return {
            "parse_options": arrow_csv.ParseOptions(delimiter=self.delimiter),
            "convert_options": arrow_csv.ConvertOptions(**convert),
        }

    @property
    def encoding(self) -> str:
        return "utf8" if self.is_sheet or self.layout.encoding == "utf-8" else self.layout.encoding

    def with_points(self, rows: Any, schema: Schema | None) -> Any:
        """A table or batch with a decimal point in numbers that came as text and have a comma."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.layout.decimal == "." or schema is None:
            return rows
        numbers = {item.name for item in (schema.target, *schema.features) if _kind(item) == NUMBERS}
        for place, field in enumerate(rows.schema):
            if field.name in numbers and pa.types.is_string(field.type):
                pointed = pc.replace_substring_regex(rows.column(place), pattern=_COMMA, replacement=r"\1.\2")
                rows = rows.set_column(place, field.name, pointed)
        return rows

    def unfit(self, said: str, schema: Schema | None = None) -> InvalidInput:
        """The error about a row. PyArrow quotes a cell, so only the number of its column is taken from it."""
        number = _COLUMN_NUMBER.match(said)
        if number is None or int(number[1]) >= len(self.names):
            return InvalidInput(
                f"{self.file.name}: a row does not fit the rest of the file. Every row needs {len(self.names)} values "
                f"separated by {DELIMITERS[self.delimiter]}, as the first line has."
            )
        name = self.names[int(number[1])]
        items = () if schema is None else (schema.target, *schema.features)
        kind = next((_kind(item) for item in items if item.name == name), None)
        what = _INSTEAD.get(kind or "", "does not hold values of one kind")
        if kind in (NUMBERS, TRUTH_VALUES) and schema is not None and name == schema.target.name:
            what = "holds something else. Declare classes = [...] as they are written in the file"
        declared = f"is declared as {kind} and " if kind in (NUMBERS, TRUTH_VALUES) else ""
        return InvalidInput(f"{self.file.name}: column {name!r} {declared}{what}.")

    def _header(self) -> list[str]:
        names = _first_line(self.file, self.layout, self.delimiter)
        if names is None:
            raise self._unreadable()
        check_names(self.file, names)
        if any(_is_number(name) for name in names):
            raise InvalidInput(
                f"{self.file.name}: the first line must name the columns, but it holds numbers."
            )
        return names

    def _unreadable(self) -> InvalidInput:
        return InvalidInput(
            f"{self.file.name}: this is not a readable CSV file in {self.layout.encoding.upper()}. Give [file] "
            "encoding in the schema, or save it in UTF-8."
        )


def delimiter_of(file: Path, layout: FileLayout) -> str:
    """What parts the columns: as declared, or as the name says, if that parts the header line at all.

    Otherwise it is what parts the header line into the most names; of equals the comma. The header holds names, so no
    row decides.
    """
    by_name = "\t" if file.name.lower().endswith((".tsv", ".tsv.gz")) else ""
    first = layout.delimiter or by_name
    if first and len(_first_line(file, layout, first) or ()) > 1:
        return first
    candidates = [mark for mark in (first, *DELIMITERS) if mark and mark != layout.decimal]
    return max(candidates, key=lambda mark: len(_first_line(file, layout, mark) or ()))


def check_names(file: Path, names: Sequence[str]) -> None:
    if not names or "" in names or len(set(names)) != len(names):
        raise InvalidInput(
            f"{file.name}: every column needs a name of its own, in the first line of a CSV file."
        )


def _is_packed(file: Path) -> bool:
    return file.suffix.lower() == ".gz"


def open_text(file: Path, layout: FileLayout) -> IO[str]:
    encoding = "utf-8-sig" if layout.encoding == "utf-8" else layout.encoding
    raw: Any
    if file.name.lower().endswith(EXCEL):
        raw, encoding = io.BytesIO(sheet_text(file, layout)), "utf-8"
    else:
        raw = gzip.GzipFile(file) if _is_packed(file) else file.open("rb")
    return io.TextIOWrapper(raw, encoding=encoding, errors="surrogateescape", newline="")


def _first_line(file: Path, layout: FileLayout, delimiter: str) -> list[str] | None:
    try:
        with open_text(file, layout) as lines:
            names = next(csv.reader(lines, delimiter=delimiter), [])
        "".join(names).encode()
    except (UnicodeEncodeError, csv.Error, OSError, EOFError, zlib.error):
        return None
    return names


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind(item: Feature | Target) -> str:
    """What a declared column holds, in a file that knows text only."""
    if isinstance(item, Date | Hashed):
        return TEXT
    if isinstance(item, Numeric):
        return NUMBERS
    categories = item.classes if isinstance(item, Target) else item.categories
    return declared_kind(categories) if categories else NUMBERS


def _arrow_type(item: Feature | Target, as_text: bool) -> Any:
    """The Arrow type of a declared column; numbers whose marks of a missing value are text come as text."""
    import pyarrow as pa

    marks = () if isinstance(item, Target) else item.missing
    kind = _kind(item)
    if as_text or kind == TEXT or any(isinstance(mark, str) for mark in marks):
        return pa.string()
    return pa.bool_() if kind == TRUTH_VALUES else pa.float64()
