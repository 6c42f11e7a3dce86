"""How a file is written, where its name does not say it: what parts its columns, its decimal mark, its encoding."""

import reprlib
from dataclasses import dataclass
from typing import Final

from dperm.datasets.declared import check_text, set_field
from dperm.errors import InvalidInput

DELIMITERS: Final = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ENCODINGS: Final = ("utf-8", "latin-1", "cp1252")
_LONGEST_SHEET = 31  # that Excel allows


@dataclass(frozen=True, kw_only=True)
class FileLayout:
    """The table ``[file]`` of a schema. What is empty is found without a look at a row.

    ``delimiter`` parts the columns of a text file; otherwise a name that ends in .tsv says tabs, and for other names,
    or where that parts nothing, the header line tells (:func:`dperm.datasets.text_files.delimiter_of`). ``decimal`` is
    the decimal mark, ``encoding`` that of the text, ``sheet`` the sheet of a workbook, otherwise its first.
    """

    delimiter: str = ""
    decimal: str = "."
    encoding: str = "utf-8"
    sheet: str = ""

    def __post_init__(self) -> None:
        _check_one("delimiter", self.delimiter, ("", *DELIMITERS))
        _check_one("decimal", self.decimal, (".", ","))
        _check_one("encoding", self.encoding, ENCODINGS)
        set_field(self, "sheet", check_text("sheet", self.sheet))
        if len(self.sheet) > _LONGEST_SHEET:
            raise InvalidInput(f"sheet must be the name of a sheet, of at most {_LONGEST_SHEET} letters.")
        if self.delimiter == self.decimal:
            raise InvalidInput("delimiter and decimal must differ.")


def _check_one(key: str, value: object, known: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in known:
        told = ", ".join(repr(item) for item in known if item)
        raise InvalidInput(f"{key} must be one of {told}; got {reprlib.repr(value)}.")


AS_NAMED: Final = FileLayout()
"""What is assumed where nothing is declared."""
