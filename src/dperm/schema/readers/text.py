"""Tables in text: CSV and TSV files, packed or not. Messages never quote a cell."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import IO, Any, ClassVar

from dperm.errors import InvalidInput
from dperm.schema.columns import NUMBERS, TEXT, TRUTH_VALUES, declared_kind
from dperm.schema.dates import Date
from dperm.schema.features import Hashed, Numeric, Target
from dperm.schema.readers.base import ROWS_AT_ONCE, Reader, from_row
from dperm.schema.schema import DELIMITERS, Feature, Schema

_BYTES_AT_ONCE = 16 * 2**20
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


class TextReader(Reader):
    """A file of text, with the layout that the schema declares."""

    endings: ClassVar[tuple[str, ...]] = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
    magic: ClassVar = {b"\x1f\x8b": ".csv.gz"}

    @cached_property
    def delimiter(self) -> str:
        """What separates the columns: as declared, or as the name says, if that separates the header line at all.

        Otherwise it is what separates the header line into the most names; of equals the comma. The header holds
        names, so no row decides.
        """
        by_name = "\t" if self.file.name.lower().endswith((".tsv", ".tsv.gz")) else ""
        first = self.layout.delimiter or by_name
        if first and len(self._first_line(first) or ()) > 1:
            return first
        candidates = [mark for mark in (first, *DELIMITERS) if mark and mark != self.layout.decimal]
        return max(candidates, key=lambda mark: len(self._first_line(mark) or ()))

    @cached_property
    def names(self) -> list[str]:
        """The columns, which the first line names."""
        names = self._first_line(self.delimiter)
        if names is None:
            raise self._unreadable()
        self.check_names(names)
        if any(_is_number(name) for name in names):
            raise InvalidInput(
                f"{self.file.name}: the first line must name the columns, but it holds numbers."
            )
        return names

    def column_types(self) -> dict[str, Any]:
        return dict.fromkeys(self.names)

    def count(self) -> int:
        """Where each row ends is found by going through them; nothing else is made of them."""
        longest = csv.field_size_limit(2**31 - 1)
        counted = None
        try:
            with self.open() as lines:
                counted = sum(1 for row in csv.reader(lines, delimiter=self.delimiter) if row) - 1
        except (csv.Error, OSError, EOFError, zlib.error):
            pass
        finally:
            csv.field_size_limit(longest)
        if counted is None:
            raise self._unreadable()
        return counted

    def read(self, schema: Schema | None = None, *, as_text: bool = False, only: str | None = None) -> Any:
        from pyarrow import csv as arrow_csv

        options = self._options(schema, as_text, only)
        reading = arrow_csv.ReadOptions(encoding=self.encoding)
        return self._of_rows(
            schema,
            lambda: self._with_points(
                arrow_csv.read_csv(self.source, read_options=reading, **options), schema
            ),
        )

    def batches(self, schema: Schema | None, skip: int, person: str | None) -> Iterator[Any]:
        from pyarrow import csv as arrow_csv

        options = self._options(schema, person=person)
        reading = arrow_csv.ReadOptions(block_size=_BYTES_AT_ONCE, encoding=self.encoding)
        reader = self._of_rows(
            schema, lambda: arrow_csv.open_csv(self.source, read_options=reading, **options)
        )
        for batch in from_row(self._blocks(reader, schema), skip):
            for start in range(0, batch.num_rows, ROWS_AT_ONCE):
                yield batch.slice(start, ROWS_AT_ONCE)

    def _blocks(self, reader: Any, schema: Schema | None) -> Iterator[Any]:
        while True:
            try:
                batch = self._of_rows(schema, lambda: self._with_points(reader.read_next_batch(), schema))
            except StopIteration:
                return
            yield batch

    def _of_rows(self, schema: Schema | None, read: Callable[[], Any]) -> Any:
        """What PyArrow reads, or an error of our own: that of PyArrow quotes a cell, so it is left behind here."""
        import pyarrow as pa

        try:
            return read()
        except (pa.ArrowException, OSError, UnicodeError) as error:
            unfit = self._unfit(str(error), schema)
        raise unfit

    @property
    def source(self) -> Any:
        """What PyArrow reads."""
        import pyarrow as pa

        return pa.input_stream(self.file, compression="gzip") if self._is_packed else self.file

    @property
    def encoding(self) -> str:
        """What PyArrow calls the encoding of the text."""
        return "utf8" if self.layout.encoding == "utf-8" else self.layout.encoding

    def open(self) -> IO[str]:
        """The text, with bytes that are not of its encoding as surrogates."""
        encoding = "utf-8-sig" if self.layout.encoding == "utf-8" else self.layout.encoding
        raw: Any = gzip.GzipFile(self.file) if self._is_packed else self.file.open("rb")
        return io.TextIOWrapper(raw, encoding=encoding, errors="surrogateescape", newline="")

    @property
    def _is_packed(self) -> bool:
        return self.file.suffix.lower() == ".gz"

    def _first_line(self, delimiter: str) -> list[str] | None:
        try:
            with self.open() as lines:
                names = next(csv.reader(lines, delimiter=delimiter), [])
            "".join(names).encode()
        except (UnicodeEncodeError, csv.Error, OSError, EOFError, zlib.error):
            return None
        return names

    def _options(
        self,
        schema: Schema | None,
        as_text: bool = False,
        only: str | None = None,
        person: str | None = None,
    ) -> dict[str, Any]:
        """How PyArrow is to split and convert the columns, those that the schema declares to their kinds.

        Ids of persons, in the column that the schema or ``person`` names, stay as they are written.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        names = self.names
        convert: dict[str, Any] = {"decimal_point": self.layout.decimal}
        named = person if schema is None else schema.person
        kinds = {} if named is None else {named: pa.string()}
        if schema is not None:
            kinds |= {item.name: _arrow_type(item, as_text) for item in (schema.target, *schema.features)}
            convert["include_columns"] = self.wanted(names, schema, only)
        convert["column_types"] = kinds
        return {
            "parse_options": arrow_csv.ParseOptions(delimiter=self.delimiter),
            "convert_options": arrow_csv.ConvertOptions(**convert),
        }

    def _with_points(self, rows: Any, schema: Schema | None) -> Any:
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

    def _unfit(self, said: str, schema: Schema | None = None) -> InvalidInput:
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

    def _unreadable(self) -> InvalidInput:
        return InvalidInput(
            f"{self.file.name}: this is not a readable CSV file in {self.layout.encoding.upper()}. Give [file] "
            "encoding in the schema, or save it in UTF-8."
        )


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
    return declared_kind(item.categories) if item.categories else NUMBERS


def _arrow_type(item: Feature | Target, as_text: bool) -> Any:
    """The Arrow type of a declared column; numbers whose marks of a missing value are text come as text."""
    import pyarrow as pa

    kind = _kind(item)
    if as_text or kind == TEXT or any(isinstance(mark, str) for mark in item.missing):
        return pa.string()
    return pa.bool_() if kind == TRUTH_VALUES else pa.float64()
