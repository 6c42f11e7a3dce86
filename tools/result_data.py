"""Tables of results as data: the small Parquet files of docs/data, from which pages are written.

A file has one row for every cell of its tables: ``table`` and ``row`` say where it stands, ``place`` and ``heading`` in
which column. A cell is a number with its decimals, perhaps with a spread behind ±, or words. What is known of the run
(date, command, seed, versions, machine) is the file's metadata.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

DATA = Path(__file__).resolve().parents[1] / "docs" / "data"
CELLS = pa.schema(
    [
        ("table", pa.dictionary(pa.int16(), pa.string())),
        ("row", pa.int32()),
        ("place", pa.int16()),
        ("heading", pa.dictionary(pa.int16(), pa.string())),
        ("value", pa.float64()),
        ("spread", pa.float64()),
        ("digits", pa.int8()),
        ("signed", pa.bool_()),
        ("words", pa.dictionary(pa.int16(), pa.string())),
    ]
)
_KEY = b"dperm-run"
_NUMBER = re.compile(r"([+-]?\d+(?:\.\d+)?)(?: ±(\d+(?:\.\d+)?))?")
_PACKAGES = {"python": "Python", "numpy": "NumPy", "scikit-learn": "scikit-learn", "opendp": "OpenDP"}


@dataclass(frozen=True, kw_only=True)
class Run:
    """Where results come from. ``transcribed`` says from what, when the files of the run itself were not kept."""

    date: str
    command: str
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)
    transcribed: str = ""
    note: str = ""

    def in_words(self, name: str) -> str:
        day = date.fromisoformat(self.date)
        when = f"{day.day} {day:%B} {day.year}"
        file = f"[{name}.parquet](data/{name}.parquet)"
        if self.transcribed:
            parts = [f"{file}, transcribed from {self.transcribed} of {when}"]
        else:
            parts = [f"{file}, run on {when}"]
        parts.append(f"`{self.command}`" if self.command.startswith("dperm ") else self.command)
        if self.seed is not None:
            parts.append(f"seed {self.seed}")
        if self.versions:
            others = ", ".join(
                f"{shown} {self.versions[name]}" for name, shown in _PACKAGES.items() if name in self.versions
            )
            parts.append(f"dperm {self.versions.get('dperm', '?')} ({others})")
        if self.machine:
            parts.append(f"{self.machine['cores']} cores of {self.machine['processor']}")
        if self.note:
            parts.append(self.note)
        return f"<small>Data: {'; '.join(parts)}.</small>"


@dataclass(frozen=True)
class Number:
    """A number as it is shown."""

    value: float
    digits: int = 1
    spread: float | None = None
    signed: bool = False

    def __str__(self) -> str:
        shown = f"{self.value:{'+' if self.signed else ''}.{self.digits}f}"
        return shown if self.spread is None else f"{shown} ±{self.spread:.{self.digits}f}"


Cell = str | Number
Rows = Sequence[Sequence[Cell]]


@dataclass(frozen=True)
class Table:
    headings: Sequence[str]
    rows: Rows

    def as_markdown(self) -> str:
        lines = [
            self.headings,
            ["---"] * len(self.headings),
            *([str(cell) for cell in row] for row in self.rows),
        ]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(text: str) -> Cell:
    """The number in a printed cell, or its words where the number would not be printed like that again."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return text
    number = Number(
        float(found[1]),
        len(found[1].partition(".")[2]),
        None if found[2] is None else float(found[2]),
        found[1][0] == "+",
    )
    return number if str(number) == text else text


def read_markdown(text: str) -> Table:
    """A table of Markdown."""
    lines = [
        [part.strip() for part in line.strip().strip("|").split("|")] for line in text.strip().splitlines()
    ]
    return Table(lines[0], [[cell(part) for part in line] for line in lines[2:]])


def write(name: str, tables: Mapping[str, Table], run: Run, folder: Path = DATA) -> Path:
    cells: list[dict[str, Any]] = []
    for title, table in tables.items():
        for number, row in enumerate(table.rows):
            for place, (heading, shown) in enumerate(zip(table.headings, row, strict=True)):
                where = {"table": title, "row": number, "place": place, "heading": heading}
                what = {"words": shown} if isinstance(shown, str) else asdict(shown)
                cells.append(where | what)
    found = pa.Table.from_pylist(cells, schema=CELLS).replace_schema_metadata({_KEY: json.dumps(asdict(run))})
    folder.mkdir(exist_ok=True)
    pq.write_table(found, folder / f"{name}.parquet", compression="zstd")
    return folder / f"{name}.parquet"


def read(name: str, folder: Path = DATA) -> tuple[dict[str, Table], Run]:
    found = pq.read_table(folder / f"{name}.parquet")
    tables: dict[str, dict[int, dict[int, tuple[str, Cell]]]] = {}
    for one in found.to_pylist():
        shown: Cell = one["words"]
        if one["words"] is None:
            shown = Number(one["value"], one["digits"], one["spread"], one["signed"])
        rows = tables.setdefault(one["table"], {})
        rows.setdefault(one["row"], {})[one["place"]] = (one["heading"], shown)
    made = {
        title: Table(
            [heading for heading, _ in rows[0].values()],
            [[shown for _, shown in row.values()] for row in rows.values()],
        )
        for title, rows in tables.items()
    }
    return made, Run(**json.loads(found.schema.metadata[_KEY]))
