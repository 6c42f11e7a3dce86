"""An Excel workbook as the text of a CSV file. Every cell has a text, so nothing here fails because of one."""

import csv
import datetime
import io
import warnings
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dperm.datasets.columns import read_quietly
from dperm.datasets.layout import FileLayout
from dperm.errors import InvalidInput, Unsupported


def sheet_text(file: Path, layout: FileLayout) -> bytes:
    """The rows of a sheet, from the first that holds anything on, as CSV in UTF-8."""
    about = file.stat()
    text = _sheet_text(str(file), (about.st_mtime_ns, about.st_size), layout)
    if text is None:
        raise InvalidInput(
            f"{file.name}: this is not a readable Excel workbook"
            + (f" with a sheet named {layout.sheet!r}." if layout.sheet else ".")
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
    writer = csv.writer(text, delimiter=sheet_delimiter(layout), lineterminator="\n")
    width = 0
    for row in rows:
        cells = [_cell(value, layout.decimal) for value in row]
        if not any(cells):
            continue
        width = width or max(place for place, cell in enumerate(cells, 1) if cell)
        writer.writerow((cells + [""] * width)[:width])
    return text.getvalue()


def sheet_delimiter(layout: FileLayout) -> str:
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
