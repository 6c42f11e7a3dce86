"""What a comparison of a schema with a table found, and what that suggests. NOT PRIVATE: for the owner of the data."""

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from math import isnan
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.schema.columns import (
    DATES,
    NUMBERS,
    TEXT,
    UNKNOWN,
    as_codes,
    blank_cells,
    counted,
    declared_kind,
    kind_of,
    number_of,
)
from dperm.schema.dates import Date, day_of
from dperm.schema.encoding import person_column
from dperm.schema.features import Categorical, Hashed, Numeric, Target
from dperm.schema.schema import Feature, Schema
from dperm.schema.values import folded

NOTE: Final = """\
NOT PRIVATE, NOT FOR PUBLICATION. These figures come from the rows, and no
ledger was charged. Keep them beside the data. Mend spelling, units and types
by them and nothing else: a range, a category or a feature that is chosen
because of them tells about the rows, and the guarantee of a model does not
cover that."""


@dataclass(frozen=True, kw_only=True)
class ColumnCheck:
    """Counts about one declared column; never a value.

    ``missing`` counts empty cells and declared marks, ``below`` and ``above`` what lies outside the range, ``unknown``
    what is no declared category, ``unread`` cells that are not of the declared kind. ``distinct`` counts different
    values. ``absent`` says that the table has no such column.
    """

    name: str
    kind: str
    declared: str
    missing: int = 0
    below: int = 0
    above: int = 0
    unknown: int = 0
    unread: int = 0
    distinct: int = 0
    absent: bool = False


@dataclass(frozen=True, kw_only=True)
class PersonCheck:
    """Counts about the ids of persons; never an id.

    ``most_rows`` is the largest number of rows of one person, ``missing`` counts rows whose id is missing or cannot be
    read, ``spelled_alike`` ids that another one differs from by case or blanks alone. ``absent`` says that the table
    has no such column, ``unread`` that it holds neither text nor whole numbers.
    """

    name: str
    n_persons: int = 0
    most_rows: int = 0
    missing: int = 0
    spelled_alike: int = 0
    absent: bool = False
    unread: bool = False


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A remark on a column, or on the whole table. ``wrong`` if it looks like a mistake."""

    column: str
    text: str
    wrong: bool

    def __str__(self) -> str:
        return f"{'!' if self.wrong else '-'} {f'{self.column}: ' if self.column else ''}{self.text}"


@dataclass(frozen=True, kw_only=True)
class SchemaCheck:
    """How a table fits a schema. NOT PRIVATE: it is computed from the rows.

    Attributes
    ----------
    n_rows : int
    columns : tuple of ColumnCheck
        The features in their order, then the target.
    classes : dict
        How often each declared class occurs; empty for a numeric target.
    undeclared : tuple of str
        Columns of the table that the schema does not declare; they are not read.
    shortened : int
        Rows that are longer than ``norm_share`` of the longest possible row, and are cut to it.
    typical_length : float
        Median length of the rows as a share of the longest possible one.
    findings : tuple of Finding
    persons : PersonCheck, optional
        The ids of persons, where the schema names their column.
    """

    n_rows: int
    columns: tuple[ColumnCheck, ...]
    classes: dict[str, int]
    undeclared: tuple[str, ...]
    shortened: int
    typical_length: float
    findings: tuple[Finding, ...]
    persons: PersonCheck | None = None

    @property
    def looks_wrong(self) -> bool:
        """Whether any finding looks like a mistake."""
        return any(finding.wrong for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values, with the note."""
        return {
            "private": False,
            "note": " ".join(NOTE.split()),
            **asdict(self),
            "looks_wrong": self.looks_wrong,
        }

    def __str__(self) -> str:
        return "\n".join([NOTE, "", *self._table(), "", *self._about(), "", *self._remarks()])

    def _table(self) -> list[str]:
        head = ("column", "kind", "missing", "outside", "unknown", "unread", "distinct")
        rows: list[tuple[str, ...]] = [head]
        for column in self.columns:
            shares = (column.missing, column.below + column.above, column.unknown, column.unread)
            counts = [*(share(count, self.n_rows) for count in shares), f"{column.distinct:,}"]
            rows.append(
                (_cut(column.name, 24), column.kind, *(["no such column"] if column.absent else counts))
            )
        widths = [max(len(row[place]) for row in rows if len(row) > place) for place in range(2)]
        return [
            "  ".join(
                [row[0].ljust(widths[0]), row[1].ljust(widths[1]), *(cell.rjust(8) for cell in row[2:])]
            ).rstrip()
            for row in rows
        ]

    def _about(self) -> list[str]:
        lines = [
            f"{self.n_rows:,} rows; their median length is {self.typical_length:.2f} of the longest possible, and "
            f"{share(self.shortened, self.n_rows)} are shortened."
        ]
        if self.classes:
            classes = (
                f"{_cut(label, 24)} {share(count, self.n_rows)}" for label, count in self.classes.items()
            )
            lines.append("Classes: " + ", ".join(classes))
        persons = self.persons
        if persons is not None and not (persons.absent or persons.unread):
            lines.append(
                f"Persons, by {_cut(persons.name, 24)}: {persons.n_persons:,}; the most rows of one: "
                f"{persons.most_rows:,}; rows without an id: {share(persons.missing, self.n_rows)}."
            )
        if self.undeclared:
            lines.append(
                f"Not declared, so not read: {', '.join(_cut(name, 24) for name in self.undeclared)}"
            )
        return lines

    def _remarks(self) -> list[str]:
        if not self.findings:
            return ["Nothing looks wrong."]
        return ["Findings (! looks wrong)", *(f"  {finding}" for finding in self.findings)]


def share(count: int, total: int) -> str:
    """A part of the rows in per cent; a few are never shown as none, nor nearly all as all."""
    if count == 0 or total == 0:
        return "0 %"
    percent = 100 * count / total
    if percent < 0.1:
        return "<0.1 %"
    if count < total and percent > 99.9:
        return ">99.9 %"
    return f"{percent:.1f} %" if percent < 10 else f"{percent:.0f} %"


def _cut(text: str, most: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


MANY = 0.05
HALF = 0.5
MOST = 0.9
RARE = 0.05
_FORMATS = ("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%d-%m-%Y", "%d.%m.%y")

Codes = NDArray[np.int64] | None


def column_findings(
    item: Feature | Target, check: ColumnCheck, column: Any, codes: Codes, n_rows: int, names: Sequence[str]
) -> Iterator[Finding]:
    """What looks wrong about one column, and what is worth knowing."""
    is_target = isinstance(item, Target)

    def finding(text: str, wrong: bool = True) -> Finding:
        return Finding(column=item.name, text=text, wrong=wrong)

    if check.absent:
        close = difflib.get_close_matches(item.name, names, 1)
        meant = f" Is {close[0]!r} meant?" if close else " Correct the name or leave it out of the schema."
        yield finding(f"the table has no such column.{meant}", not is_target or bool(close))
        return
    if n_rows == 0:
        return
    if check.unread:
        yield finding(f"{share(check.unread, n_rows)} of the cells are {_unread(item, column)}")
    outside = check.below + check.above
    for count, side in ((check.below, "below"), (check.above, "above")):
        if count > MANY * n_rows:
            units = ": are the units right?" if count > HALF * n_rows else " and are moved to its end."
            yield finding(
                f"{share(count, n_rows)} of the values are {side} the range{units}", count > HALF * n_rows
            )
    if check.unknown:
        yield from _unknown(item, check, column, n_rows)
    if is_target and check.missing:
        yield finding(f"{share(check.missing, n_rows)} of the labels are missing. Leave such rows out.")
    elif check.missing > HALF * n_rows:
        yield finding(f"{share(check.missing, n_rows)} of the values are missing.", check.missing == n_rows)
    elif (
        check.missing
        and isinstance(item, Numeric | Date)
        and not item.indicator
        and check.missing > MANY * n_rows
    ):
        yield finding(
            f"{share(check.missing, n_rows)} of the values are missing; indicator = true would tell the model.",
            False,
        )
    if check.distinct == 1 and n_rows > 1 and not (check.missing or check.unread):
        yield finding("every row has the same value: it adds noise to a model and nothing else.")
    elif check.distinct == n_rows > 20 and isinstance(item, Categorical | Hashed):
        yield finding("no two rows have the same value: is it an identifier? Then leave it out.")
    if codes is not None and not isinstance(item, Target) and outside == 0:
        yield from _unused(item, codes)


def _unread(item: Feature | Target, column: Any) -> str:
    """What cells are that cannot be read, and the way out."""
    found = kind_of(column)
    if isinstance(item, Target):
        return (
            "not of the declared kind. Declare classes = [...] as they are written, or a range for numbers."
        )
    if found not in (TEXT, None):
        return {
            DATES: "dates. Declare date = [first, last].",
            NUMBERS: "numbers. Declare range = [low, high], or categories that are whole numbers.",
        }.get(str(found), f"{found}. Change the declaration.")
    if isinstance(item, Date):
        mine = _dated(item.format)
        dates = {form: counted(column, _also(_dated(form), mine)) for form in _FORMATS}
        form = max(_FORMATS, key=dates.__getitem__)
        way = (
            f'format = "{form}" would read some or all.' if dates[form] else "List their marks under missing."
        )
        return f"text that is no date. {way}"
    if isinstance(item, Categorical) and declared_kind(item.categories) != NUMBERS:
        return "neither true nor false. Declare the categories as they are written."
    if counted(column, lambda text: number_of(text.strip().replace(",", ".", 1)) is not None and "," in text):
        return 'numbers with a decimal comma, or text. Give [file] decimal = ",".'
    if any(counted(column, _dated(form)) for form in ("", *_FORMATS)):
        return "dates. Declare date = [first, last]."
    return "text that is no number. List marks of a missing value under missing, or declare categories or hashed."


def _dated(form: str) -> Callable[[str], bool]:
    return lambda text: not isnan(day_of(text, form))


def _also(read: Callable[[str], bool], already: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: read(text) and not already(text)


def _unknown(item: Feature | Target, check: ColumnCheck, column: Any, n_rows: int) -> Iterator[Finding]:
    """Values that are no declared category, and whether folding would help."""
    is_target = isinstance(item, Target)
    if not isinstance(item, Categorical | Target):
        return
    values = item.classes if isinstance(item, Target) else item.categories
    words = "labels are no declared class" if is_target else "values are no declared category"
    unknown = f"{share(check.unknown, n_rows)} of the {words}"
    if declared_kind(values) == TEXT and not item.fold and kind_of(column) == TEXT:
        still = (as_codes("", column, values, fold=True) == UNKNOWN) & ~blank_cells(column)
        helped = check.unknown - int(still.sum())
        if helped > 0:
            way = f". fold = true would match {share(helped, n_rows)}: only case or blanks differ."
            yield Finding(column=item.name, text=f"{unknown}{way}", wrong=True)
            return
    many = check.unknown > MANY * n_rows
    way = ": are they spelled as in the file?" if many else " and count as none."
    if is_target:
        way = ": are they spelled as in the file? Or leave such rows out, or give rest = true."
    yield Finding(column=item.name, text=f"{unknown}{way}", wrong=is_target or many)


def _unused(item: Feature, codes: NDArray[np.int64]) -> Iterator[Finding]:
    assert isinstance(item, Categorical)
    k = len(item.categories)
    unused = k - len(np.unique(codes[codes >= 0]))
    if 0 < unused < k:
        yield Finding(column=item.name, text=f"{unused} of {k} categories never occur.", wrong=False)


def table_findings(schema: Schema, codes: Codes, n_rows: int) -> Iterator[Finding]:
    """What is worth knowing of the whole table."""
    if n_rows == 0:
        yield Finding(column="", text="the table holds no rows.", wrong=True)
        return
    if codes is None or not schema.classes:
        return
    counts = [int((codes == place).sum()) for place in range(len(schema.classes))]
    name = schema.target.name
    if min(counts) == 0:
        yield Finding(column=name, text="a declared class never occurs.", wrong=True)
    elif min(counts) < RARE * n_rows:
        text = f"the rarest class has {share(min(counts), n_rows)} of the rows: accuracy will say little, AUC more."
        yield Finding(column=name, text=text, wrong=False)


def check_persons(name: str, table: Any) -> PersonCheck:
    """Counts about the column of ids; ``table`` is None where it has no such column."""
    if table is None:
        return PersonCheck(name=name, absent=True)
    try:
        found = person_column(table, name)
    except InvalidInput:
        return PersonCheck(name=name, unread=True)
    counts = np.bincount(found.person, minlength=len(found.names))
    given = np.array([name is not None for name in found.names], dtype=bool)
    spellings = {folded(name) for name in found.names if name is not None}
    return PersonCheck(
        name=name,
        n_persons=int(given.sum()),
        most_rows=int(counts[given].max(initial=0)),
        missing=int(counts[~given].sum()),
        spelled_alike=int(given.sum()) - len(spellings),
    )


def person_findings(check: PersonCheck, n_rows: int, names: Sequence[str]) -> Iterator[Finding]:
    """What looks wrong about ids, and what is worth knowing."""

    def finding(text: str, wrong: bool = True) -> Finding:
        return Finding(column=check.name, text=text, wrong=wrong)

    if check.absent:
        close = difflib.get_close_matches(check.name, names, 1)
        meant = f" Is {close[0]!r} meant?" if close else " Correct person in the schema."
        yield finding(f"the table has no such column, which should hold the ids of persons.{meant}")
    elif check.unread:
        yield finding("ids of persons must be text or whole numbers. Convert the column.")
    elif n_rows == 0:
        return
    elif check.missing:
        yield finding(
            f"{share(check.missing, n_rows)} of the rows have no id of a person, which fit refuses. Leave them out, "
            "or give each an id of its own."
        )
    if check.spelled_alike:
        yield finding(
            f"{check.spelled_alike:,} ids differ from others by case or blanks alone. A person with two ids is "
            "protected as two: spell ids alike."
        )
    if check.n_persons == n_rows > 1:
        yield finding(
            "every row has an id of its own. If a person can have one row only, --max-rows-per-person 1 asks for the "
            "noise of rows.",
            False,
        )
