"""Tables of results and their run as one Parquet file, with a row for every cell."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import InvalidInput
from dperm.models.atomic import atomic_path
from dperm_papers.pages.cells import Cell, Number, Table
from dperm_papers.pages.runs import Run

CELLS = pa.schema(
    [
        ("table", pa.dictionary(pa.int16(), pa.string())),
        ("row", pa.int32()),
        ("column", pa.int16()),
        ("heading", pa.dictionary(pa.int16(), pa.string())),
        ("number", pa.float64()),
        ("error", pa.float64()),
        ("digits", pa.int8()),
        ("error_digits", pa.int8()),
        ("signed", pa.bool_()),
        ("grouped", pa.bool_()),
        ("text", pa.dictionary(pa.int32(), pa.string())),
    ]
)
_RUN, _HEADS = b"dperm-run", b"dperm-tables"


@dataclass(frozen=True)
class Results:
    """Tables by their names, and the run that they are from."""

    tables: Mapping[str, Table]
    run: Run

    def table(self, name: str) -> Table:
        if name not in self.tables:
            raise InvalidInput(f"there is no table {name!r}, but {', '.join(self.tables)}.")
        return self.tables[name]

    def write(self, path: Path) -> Path:
        cells: list[dict[str, Any]] = []
        for name, table in self.tables.items():
            for number, row in enumerate(table.rows):
                for column, (heading, shown) in enumerate(zip(table.headings, row, strict=True)):
                    where = {"table": name, "row": number, "column": column, "heading": heading}
                    cells.append(where | ({"text": shown} if isinstance(shown, str) else asdict(shown)))
        heads = {name: [table.title, *table.headings] for name, table in self.tables.items()}
        facts = {_RUN: json.dumps(asdict(self.run)), _HEADS: json.dumps(heads)}
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as unfinished:
            pq.write_table(
                pa.Table.from_pylist(cells, schema=CELLS).replace_schema_metadata(facts),
                unfinished,
                compression="zstd",
            )
        return path


def holds_results(path: Path) -> bool:
    """Whether a Parquet file has tables of this form."""
    return _HEADS in (pq.read_schema(path).metadata or {})


def read(path: Path) -> Results:
    if not path.is_file():
        there = sorted(file.stem for file in path.parent.glob("*.parquet"))
        raise InvalidInput(
            f"there is no file {path.name} in {path.parent}, but {', '.join(there) or 'nothing'}."
        )
    if not holds_results(path):
        raise InvalidInput(f"{path} has no tables of results; dperm reproduce writes such files.")
    found = pq.read_table(path)
    facts = found.schema.metadata
    rows: dict[str, dict[int, list[Cell]]] = {}
    for one in found.to_pylist():
        rows.setdefault(one["table"], {}).setdefault(one["row"], []).append(_shown(one))
    tables = {
        name: Table(headings, list(rows.get(name, {}).values()), title)
        for name, (title, *headings) in json.loads(facts[_HEADS]).items()
    }
    return Results(tables, Run(**json.loads(facts[_RUN])))


def _shown(one: Mapping[str, Any]) -> Cell:
    if one["text"] is not None:
        return str(one["text"])
    return Number(
        number=one["number"],
        digits=one["digits"],
        error=one["error"],
        error_digits=one["error_digits"],
        signed=one["signed"],
        grouped=one["grouped"],
    )
