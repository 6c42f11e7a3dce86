"""Excel workbooks, read as the text of a CSV file. Every cell has a text, so nothing here fails because of one."""

import csv
import datetime
import io
import warnings
from functools import cached_property, lru_cache
from importlib.util import find_spec
from typing import IO, Any, ClassVar

from dperm.errors import InvalidInput, Unsupported
from dperm.schema.columns import read_quietly
from dperm.schema.readers.text import TextReader
from dperm.schema.schema import FileLayout


class ExcelReader(TextReader):
    """A sheet of a workbook: its rows from the first that holds anything on."""

    endings = (".xlsx",)
    magic: ClassVar = {b"PK\x03\x04": ".xlsx"}

    @cached_property
    def delimiter(self) -> str:
        return _delimiter(self.layout)

    @property
    def encoding(self) -> str:
        return "utf8"

    @property
    def source(self) -> Any:
        import pyarrow as pa

        return pa.BufferReader(self._text())

    def open(self) -> IO[str]:
        return io.TextIOWrapper(
            io.BytesIO(self._text()), encoding="utf-8", errors="surrogateescape", newline=""
        )

    def _text(self) -> bytes:
        about = self.file.stat()
        text = _sheet_text(str(self.file), (about.st_mtime_ns, about.st_size), self.layout)
        if text is None:
            raise InvalidInput(
                f"{self.file.name}: this is not a readable Excel workbook"
                + (f" with a sheet named {self.layout.sheet!r}." if self.layout.sheet else ".")
            )
        return text


@lru_cache(maxsize=1)
def _sheet_text(path: str, _version: tuple[int, int], layout: FileLayout) -> bytes | None:
    if find_spec("openpyxl") is None:
        raise Unsupported(
            "Excel files need the package openpyxl: pip install 'dperm[excel]', or save the sheet as CSV."
        )
    import openpyxl

    def convert() -> bytes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                sheet = book[layout.sheet] if layout.sheet else book.worksheets[0]
                return _csv(sheet.iter_rows(values_only=True), layout).encode()
            finally:
                book.close()

    text: bytes | None = read_quietly(convert)
    return text


def _csv(rows: Any, layout: FileLayout) -> str:
    """As wide as the first row that is not empty; rows without any cell are left out."""
    text = io.StringIO()
    writer = csv.writer(text, delimiter=_delimiter(layout), lineterminator="\n")
    width = 0
    for row in rows:
        cells = [_cell(value, layout.decimal) for value in row]
        if not any(cells):
            continue
        width = width or max(place for place, cell in enumerate(cells, 1) if cell)
        writer.writerow((cells + [""] * width)[:width])
    return text.getvalue()


def _delimiter(layout: FileLayout) -> str:
    return "\t" if layout.decimal == "," else ","


def _cell(value: Any, decimal: str) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        whole = isinstance(value, float) and value.is_integer() and abs(value) < 1e15
        return str(int(value) if whole else value).replace(".", decimal)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return value.isoformat() if isinstance(value, datetime.date) else str(value)
