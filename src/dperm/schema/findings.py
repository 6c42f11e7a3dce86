"""What a comparison of a schema with a table found, as text. NOT PRIVATE: for the owner of the data."""

from dataclasses import asdict, dataclass
from typing import Any, Final

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
