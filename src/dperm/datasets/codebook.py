"""A code book, one row for each column of a table, as a draft of the table's schema."""

import csv
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from math import isnan
from pathlib import Path
from typing import Any

from dperm.datasets.calendar import date_of, day_of
from dperm.datasets.dates import check_format
from dperm.datasets.declared import TODO, folded
from dperm.datasets.drafts import Draft, check_target_name, draft_of, draft_text, target_draft
from dperm.datasets.files import readable
from dperm.datasets.layout import AS_NAMED
from dperm.datasets.text_files import delimiter_of, open_text
from dperm.errors import InvalidInput

_ALIASES = {
    "name": "name column variable field",
    "type": "type kind",
    "min": "min minimum low lower from",
    "max": "max maximum high upper to",
    "categories": "categories category levels values codes classes",
    "missing": "missing na null missing_values",
    "unit": "unit units",
    "format": "format",
    "note": "note notes label description comment meaning",
}
_KINDS = {
    "number": "number numeric num integer int float double real decimal continuous count",
    "category": "category categorical cat factor enum code nominal ordinal choice",
    "truth": "bool boolean truth flag binary",
    "date": "date datetime timestamp time day",
    "text": "text string str free_text words",
    "leave out": "id identifier key ignore skip none",
}
_LONGEST = 2**20
_MOST_ROWS = 100_000


def _by_alias(table: Mapping[str, str]) -> dict[str, str]:
    return {alias: name for name, aliases in table.items() for alias in aliases.split()}


_KEY_OF, _KIND_OF = _by_alias(_ALIASES), _by_alias(_KINDS)

Book = dict[str, dict[str, str]]


def read_codebook(path: str | os.PathLike[str]) -> Book:
    """The rows of a code book by the names of the columns that they tell about, each with what it says.

    A CSV or TSV file with the columns name, type, min, max, categories, missing, unit, format and note, in any order
    and by any of their usual names; all but the first may be absent or empty.
    """
    file = readable(path)
    told = _rows(file)
    if not told or file.stat().st_size > _LONGEST:
        raise InvalidInput(
            f"{file.name}: this is not a code book, a CSV file in UTF-8 of at most {_LONGEST:,} bytes."
        )
    keys = [_KEY_OF.get(folded(cell).replace(" ", "_"), "") for cell in told[0]]
    if "name" not in keys:
        raise InvalidInput(
            f"{file.name}: a code book needs a column called name (or variable, column, field); known beside it are "
            f"{', '.join(key for key in _ALIASES if key != 'name')}."
        )
    book: Book = {}
    for number, cells in enumerate(told[1:], 2):
        row = {key: cell.strip() for key, cell in zip(keys, cells, strict=False) if key and cell.strip()}
        if not row:
            continue
        name = row.pop("name", "")
        if not name or name in book:
            what = f"names {name!r} a second time" if name else "has no name"
            raise InvalidInput(f"{file.name}: line {number} {what}.")
        if row.get("type") and folded(row["type"]).replace(" ", "_") not in _KIND_OF:
            raise InvalidInput(
                f"{file.name}: {name!r} has the type {row['type']!r}; known are {', '.join(_KINDS)} and usual words "
                "for them."
            )
        with _about(file, name):
            check_format(row.get("format", ""))
        book[name] = row
    return book


@contextmanager
def _about(file: Path, name: str) -> Iterator[None]:
    """Errors of the block, which are about the book and no row, name the file and the column."""
    told = None
    try:
        yield
    except InvalidInput as error:
        told = str(error)
    if told is not None:
        raise InvalidInput(f"{file.name}: {name!r}: {told}")


def _rows(file: Path) -> list[list[str]] | None:
    """The cells of a text file in UTF-8, or None."""
    try:
        with open_text(file, AS_NAMED) as lines:
            rows = list(islice(csv.reader(lines, delimiter=delimiter_of(file, AS_NAMED)), _MOST_ROWS))
        "".join(chain.from_iterable(rows)).encode()
    except (csv.Error, OSError, EOFError, zlib.error, UnicodeEncodeError):
        return None
    return rows


def codebook_schema(columns: Mapping[str, Any], book: Book, target: str | None = None) -> str:
    """The text of a schema in which all that the book says is said, and what it does not is TODO."""
    check_target_name(columns, target)
    by_spelling = {folded(name): name for name in book}
    drafts, chosen, used = [], None, set()
    for name, kind in columns.items():
        known = name if name in book else by_spelling.get(folded(name))
        used.add(known)
        draft = _absent(draft_of(name, kind)) if known is None else _draft(name, kind, book[known])
        if name == target:
            chosen = _as_target(name, kind, draft)
        else:
            drafts.append(draft)
    unused = [name for name in book if name not in used]
    remarks = [f"In the code book but not in the table: {', '.join(unused)}."] if unused else []
    return draft_text(drafts, chosen, remarks)


def _absent(draft: Draft) -> Draft:
    draft.remarks.insert(0, "not in the code book")
    return draft


def _draft(name: str, stored: Any, row: Mapping[str, str]) -> Draft:
    told = _KIND_OF.get(folded(row.get("type", "")).replace(" ", "_"))
    bounded = "min" in row or "max" in row
    kind = told or ("category" if "categories" in row else "number" if bounded else None)
    if kind is None:
        draft = draft_of(name, stored)
    elif kind == "leave out":
        draft = Draft(
            name, {"hashed": TODO}, ["the code book calls it an identifier: left out"], left_out=True
        )
    else:
        draft = Draft(name, _KEYS[kind](row, stored))
    if "note" in row:
        draft.remarks.insert(0, row["note"])
    return draft


def _number(row: Mapping[str, str], stored: Any) -> dict[str, Any]:
    if "categories" in row and not ("min" in row or "max" in row):
        return _category(row, stored)
    ends = [_numeral(row.get(end, "")) for end in ("min", "max")]
    keys: dict[str, Any] = {"range": TODO if None in ends else ends}
    if "unit" in row:
        keys["unit"] = row["unit"]
    return keys | _marks(row, numbers=True)


def _category(row: Mapping[str, str], stored: Any) -> dict[str, Any]:
    codes = [re.split(r"\s*=\s*", part, maxsplit=1)[0] for part in _parts(row.get("categories", ""))]
    as_text = stored is not None and "string" in str(stored)
    whole = bool(codes) and not as_text and all(re.fullmatch(r"0|-?[1-9]\d{0,14}", code) for code in codes)
    truth = [folded(code) for code in codes]
    if sorted(truth) == ["false", "true"]:
        return {"categories": [False, True]}
    values: list[Any] = [int(code) for code in codes] if whole else codes
    return {"categories": values if len(values) > 1 else TODO} | _marks(row, numbers=whole)


def _truth(row: Mapping[str, str], stored: Any) -> dict[str, Any]:
    return _category(row, stored) if "categories" in row else {"categories": [False, True]}


def _date(row: Mapping[str, str], _stored: Any) -> dict[str, Any]:
    form = row.get("format", "")
    days = [day_of(row.get(end, ""), form) for end in ("min", "max")]
    keys: dict[str, Any] = {"date": [date_of(day) for day in days] if not any(map(isnan, days)) else TODO}
    if form:
        keys["format"] = form
    return keys | _marks(row, numbers=False)


def _words(row: Mapping[str, str], stored: Any) -> dict[str, Any]:
    if "categories" in row:
        return _category(row, stored)
    return {"hashed": 64, "words": True} | _marks(row, numbers=False)


_KEYS = {"number": _number, "category": _category, "truth": _truth, "date": _date, "text": _words}


def _as_target(name: str, kind: Any, draft: Draft) -> Draft:
    target = target_draft(name, kind)
    if isinstance(draft.keys.get("range"), list):
        target.keys = {"name": name, "range": draft.keys["range"]}
        if "unit" in draft.keys:
            target.keys["unit"] = draft.keys["unit"]
    elif "categories" in draft.keys:
        target.keys["classes"] = draft.keys["categories"]
    return target


def _marks(row: Mapping[str, str], *, numbers: bool) -> dict[str, Any]:
    marks: list[Any] = _parts(row.get("missing", ""))
    if numbers:
        marks = [mark if _numeral(mark) is None else _numeral(mark) for mark in marks]
    return {"missing": marks} if marks else {}


def _parts(text: str) -> list[str]:
    """The parts of a list, which | or ; or commas part."""
    mark = next((mark for mark in "|;" if mark in text), ",")
    return [part.strip() for part in text.split(mark) if part.strip()]


def _numeral(text: str) -> int | float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    if value != value or value in (float("inf"), float("-inf")):
        return None
    return int(value) if value.is_integer() and abs(value) < 1e15 else value
