"""Tables of results: every cell is a number as it is shown, perhaps with its standard error, or a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from dperm.errors import InvalidInput

_NUMBER = re.compile(r"([+-]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?)(?: ±(\d+(?:\.\d+)?))?")
BETWEEN = " | "
"""Between the first cells of a row, where one does not tell which row is meant."""


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number and how it is shown; behind ± stands one standard error."""

    number: float
    digits: int = 1
    error: float | None = None
    error_digits: int = 1
    signed: bool = False
    grouped: bool = False

    @property
    def alone(self) -> str:
        """Without its error."""
        return f"{self.number:{'+' if self.signed else ''}{',' if self.grouped else ''}.{self.digits}f}"

    def __str__(self) -> str:
        return self.alone if self.error is None else f"{self.alone} ±{self.error:.{self.error_digits}f}"


Cell = str | Number


def cell(text: str) -> Cell:
    """The number that a text shows, or the text where that number would not be shown like that again."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    shown, error = found[1], found[2]
    number = Number(
        number=float(shown.replace(",", "")),
        digits=len(shown.partition(".")[2]),
        error=None if error is None else float(error),
        error_digits=len((error or "").partition(".")[2]),
        signed=shown[0] == "+",
        grouped="," in shown,
    )
    return number if str(number) == text else text


@dataclass(frozen=True)
class Table:
    """Rows below headings; headings may occur twice."""

    headings: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""

    def as_markdown(self) -> str:
        lines = [
            self.headings,
            ["---"] * len(self.headings),
            *([_escaped(str(shown)) for shown in row] for row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"

    def at(self, row: str, column: str) -> Cell:
        """The cell of a row, named by its first cells, and of a column; a second one of its name is ``NAME (2)``."""
        headings = _numbered(self.headings)
        if column not in headings:
            raise InvalidInput(f"there is no column {column!r}, but {_listed(headings)}.")
        wanted = row.split(BETWEEN)
        found = [cells for cells in self.rows if [str(one) for one in cells[: len(wanted)]] == wanted]
        if len(found) != 1:
            names = [str(cells[0]) for cells in found or self.rows]
            if found:
                names = [BETWEEN.join(str(one) for one in cells[: len(wanted) + 1]) for cells in found]
            problem = "several rows begin with" if found else "no row begins with"
            raise InvalidInput(f"{problem} {row!r}; there are {_listed(names)}.")
        return found[0][headings.index(column)]

    def below(self, first: str) -> "Table":
        """The rows whose first cell is this, without that cell."""
        rows = [cells[1:] for cells in self.rows if str(cells[0]) == first]
        if not rows:
            raise InvalidInput(
                f"no row begins with {first!r}; there are {_listed([str(cells[0]) for cells in self.rows])}."
            )
        return Table(self.headings[1:], rows, self.title)


def read_markdown(text: str) -> Table:
    """A table of Markdown."""
    lines = [
        [part.strip() for part in line.strip().strip("|").split("|")] for line in text.strip().splitlines()
    ]
    return Table(lines[0], [[cell(part) for part in line] for line in lines[2:]])


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def _numbered(headings: Sequence[str]) -> list[str]:
    seen: dict[str, int] = {}
    names = []
    for heading in headings:
        seen[heading] = seen.get(heading, 0) + 1
        names.append(heading if seen[heading] == 1 else f"{heading} ({seen[heading]})")
    return names


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in dict.fromkeys(names))
