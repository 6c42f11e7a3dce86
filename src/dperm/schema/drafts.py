"""A schema to be finished by a person: from names, storage types or a code book, never from values."""

import csv
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from math import isnan
from pathlib import Path
from typing import Any

from dperm.errors import InvalidInput
from dperm.schema import toml
from dperm.schema.dates import check_format, date_of, day_of
from dperm.schema.readers import Reader, TextReader, reader_of
from dperm.schema.values import TODO, folded

_IDENTIFIERS = re.compile(
    "ids?|uid|uuid|guid|identifier|key|mrn|ssn|nhs|nin|iban|passport|email|mail|phone|telephone|mobile|fax|address|"
    "street|names?|surname|firstname|lastname|forename|fullname"
)
_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")

_OF_TARGET = "the labels, of two the positive one last; for a number range = [low, high] in its place"

HEAD = """\
# A draft: every TODO is for you to fill in, from the questionnaire, the code book or common sense,
# never from the rows: a smallest age or a list of towns looked up in them tells about single people.
#
#   range = [18, 98]               a number; values outside are moved to the nearer end, so take what you
#                                  expect of most people, not of every one (log = true for money and the like)
#   categories = ["rent", "own"]   a category, spelled as in the table (fold = true: case and blanks do not count)
#   date = ["2015-01-01", "2025-12-31"]     a date; cycles = ["month", "weekday"] adds these
#   hashed = 64                    text, or a category that nobody can list
#   missing = ["?", "NA"]          marks of a missing value; unit = "years" is shown to people
#
# Delete what is not to be learned from: a column without a table here is not read.
# If one person may have several rows, say which column has their ids, above [target], so that the guarantee
# is for persons:  person = "patient_id"
# Then, on the machine with the data: dperm schema check DATA --schema THIS_FILE
"""


@dataclass
class Draft:
    """What is known of one column: values for its keys, some of them TODO, and words for the person.

    ``remarks`` stand before the table, ``hint`` behind what is to be filled in.
    """

    name: str
    keys: dict[str, Any] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    hint: str = ""
    left_out: bool = False

    def text(self, table: str) -> str:
        """The table of the column, behind comment signs if it is better left out."""
        lines = [f"[{table}]"]
        for key, value in self.keys.items():
            hint = f"  # {self.hint}" if self.hint and value == TODO and key != "name" else ""
            lines.append(f"{key} = {toml.value_text(value)}{hint}")
        if self.left_out:
            lines = [f"# {line}" for line in lines]
        return "".join(
            f"{line}\n" for line in (*(f"# {_one_line(remark)}" for remark in self.remarks), *lines)
        )


def draft_of(name: str, kind: Any = None) -> Draft:
    """The draft for a column with this storage type, None where the file declares none."""
    if looks_like_identifier(name):
        draft = Draft(name, {"hashed": TODO}, left_out=True)
        draft.remarks.append(
            f"By its name {toml.key(name)} tells who a person is: leave it out, unless it is something else."
        )
        return draft
    if kind is None:
        return Draft(name, {"range": TODO}, hint="a number; or in its place categories, date or hashed")
    import pyarrow as pa
    from pyarrow import types

    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return Draft(name, {"categories": [False, True]})
    if types.is_date(kind) or types.is_timestamp(kind):
        return Draft(name, {"date": TODO})
    if types.is_integer(kind):
        return Draft(name, {"range": TODO}, hint="or, for codes, categories = [1, 2, 3]")
    if types.is_floating(kind) or types.is_decimal(kind):
        return Draft(name, {"range": TODO})
    if types.is_string(kind) or types.is_large_string(kind) or kind == pa.string_view():
        return Draft(name, {"categories": TODO}, hint="or, if nobody can list them, hashed = 64")
    return Draft(
        name, {"range": TODO}, [f"the file stores {kind}, which no feature takes: convert it"], left_out=True
    )


def looks_like_identifier(name: str) -> bool:
    """Whether a column tells, by its name alone, who a person is."""
    return any(_IDENTIFIERS.fullmatch(part.lower()) for part in _PART.findall(name))


def _one_line(text: str) -> str:
    return re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+", " ", text)


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
    reader = reader_of(path)
    file = reader.file
    lines = _rows(reader)
    if not lines or file.stat().st_size > _LONGEST:
        raise InvalidInput(
            f"{file.name}: this is not a code book, a CSV file in UTF-8 of at most {_LONGEST:,} bytes."
        )
    keys = [_KEY_OF.get(folded(cell).replace(" ", "_"), "") for cell in lines[0]]
    if "name" not in keys:
        raise InvalidInput(
            f"{file.name}: a code book needs a column called name (or variable, column, field); known beside it are "
            f"{', '.join(key for key in _ALIASES if key != 'name')}."
        )
    book: Book = {}
    for number, cells in enumerate(lines[1:], 2):
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
            check_format("format", row.get("format", ""))
        book[name] = row
    return book


@contextmanager
def _about(file: Path, name: str) -> Iterator[None]:
    """Errors of the block, which are about the book and no row, name the file and the column."""
    problem = None
    try:
        yield
    except InvalidInput as error:
        problem = str(error)
    if problem is not None:
        raise InvalidInput(f"{file.name}: {name!r}: {problem}")


def _rows(reader: Reader) -> list[list[str]] | None:
    """The cells of a text file in UTF-8, or None."""
    if not isinstance(reader, TextReader):
        return None
    try:
        with reader.open() as lines:
            rows = list(islice(csv.reader(lines, delimiter=reader.delimiter), _MOST_ROWS))
        "".join(chain.from_iterable(rows)).encode()
    except (csv.Error, OSError, EOFError, zlib.error, UnicodeEncodeError):
        return None
    return rows


def draft_schema(columns: Mapping[str, Any], target: str | None = None, book: Book | None = None) -> str:
    """The text of a schema to be finished.

    Parameters
    ----------
    columns : mapping of str
        The names of the columns, with the Arrow types that a file declares, or None.
    target : str, optional
        The column to predict.
    book : dict, optional
        A code book: what it says is said, and what it does not is TODO.
    """
    if target is not None and target not in columns:
        raise InvalidInput(f"the table has no column named {target!r}, which is to be the target.")
    by_spelling = {folded(name): name for name in book or {}}
    chosen = Draft(TODO, {"name": TODO, "classes": TODO}, ["the column to predict"], _OF_TARGET)
    drafts, used = [], set()
    for name, kind in columns.items():
        known = name if book and name in book else by_spelling.get(folded(name))
        used.add(known)
        draft = _draft(name, kind, {} if book is None or known is None else book[known])
        if book is not None and known is None:
            draft.remarks.insert(0, "not in the code book")
        if name == target:
            chosen = _as_target(name, kind, draft)
        else:
            drafts.append(draft)
    unused = [name for name in book or {} if name not in used]
    remarks = [f"In the code book but not in the table: {', '.join(unused)}."] if unused else []
    parts = [HEAD + "".join(f"# {_one_line(remark)}\n" for remark in remarks), chosen.text("target")]
    parts.extend(draft.text(f"features.{toml.key(draft.name)}") for draft in drafts)
    return "\n".join(parts)


def _draft(name: str, stored: Any, row: Mapping[str, str]) -> Draft:
    stated = _KIND_OF.get(folded(row.get("type", "")).replace(" ", "_"))
    bounded = "min" in row or "max" in row
    kind = stated or ("category" if "categories" in row else "number" if bounded else None)
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
    """What is to be predicted, by the draft of its column or else by its storage type."""
    if isinstance(draft.keys.get("range"), list):
        keys = {key: value for key, value in draft.keys.items() if key in ("range", "unit")}
    else:
        stored = draft_of(name, kind).keys.get("categories", TODO)
        keys = {"classes": draft.keys.get("categories", stored)}
    return Draft(name, {"name": name, **keys}, hint=_OF_TARGET)


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
