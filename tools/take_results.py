"""Take results into docs/data: ``python tools/take_results.py FOLDER``, the folder of ``dperm reproduce --out FOLDER``.

Each item in it becomes docs/data/ITEM.parquet, from its results where these are curves over ε, else from the tables of
its report. With ``--as FILE COLUMN TABLE/PART=FOLDER ...`` the folders of several ``dperm compare --out FOLDER`` become
one file, each table with its parts side by side in a column named COLUMN. Take them on the machine and with the
versions of the run: what the results do not say themselves is noted from here. Then run ``tools/result_pages.py``; the
study of the defaults has ``tools/study_tables.py``.
"""

import math
import re
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import result_data
from dperm.experiments.results import Curve, Study, curves, separate
from dperm.experiments.series import mean_and_error
from dperm.experiments.store import machine, versions
from result_data import Cell, Number, Run, Table

OVER_EPSILON = ("rsgd-fig1", "rsgd-fig2", "rsgd-fig4")
SPLIT = ("gp-table4",)  # long tables with the data set in the first column
_SECTION = re.compile(r"^\*\*(.+)\*\*\n\n((?:\|.*\n?)+)", re.MULTILINE)
_COMMAND = re.compile(r"^`(dperm reproduce [^`]*)`", re.MULTILINE)


def over_epsilon(results: pa.Table, heading: str) -> Table:
    """Mean accuracy in % ± its standard error, a row for every contender."""
    found = {curve.label: curve for curve in curves(results)}
    epsilons = sorted({float(some) for curve in found.values() for some in curve.epsilons})
    rows = [[label, *(_reached(curve, some) for some in epsilons)] for label, curve in found.items()]
    return Table([heading, *(f"ε = {some:g}" for some in epsilons)], rows)


def _reached(curve: Curve, epsilon: float) -> Cell:
    at = np.flatnonzero(curve.epsilons == epsilon)
    if not len(at):
        return "skipped"
    mean, error = mean_and_error(100 * curve.accuracy[at[0]], curve.runs[at[0]][:, 0])
    return Number(mean, 1, None if math.isnan(error) else error)


def beside(tables: dict[str, Table], column: str) -> Table:
    """Tables of the same contenders as one: for every contender a row from each, named in a second column."""
    first, *epsilons = next(iter(tables.values())).headings
    labels = dict.fromkeys(str(row[0]) for table in tables.values() for row in table.rows)
    rows = [
        [label, part, *row[1:]]
        for label in labels
        for part, table in tables.items()
        for row in table.rows
        if row[0] == label
    ]
    return Table([first, column, *epsilons], rows)


def report_tables(report: str) -> dict[str, Table]:
    """The tables of a report by short names: their first words, and a number where these are the same."""
    tables: dict[str, Table] = {}
    for title, body in _SECTION.findall(report):
        count = sum(name.rstrip("-0123456789") == slug(title) for name in tables)
        name = f"{slug(title)}-{count + 1}" if count else slug(title)
        tables[name] = result_data.read_markdown(body)
    return tables


def slug(title: str) -> str:
    words = re.sub(r"[^\w\s-]", "", title.partition(":")[0].partition(",")[0]).lower().split()
    return "-".join(words[:5])


def split(table: Table) -> dict[str, Table]:
    """A table for every value of the first column, which goes into the first heading."""
    found: dict[str, list[Sequence[Cell]]] = {}
    for first, *others in table.rows:
        found.setdefault(str(first), []).append(others)
    return {slug(name): Table(table.headings[1:], rows) for name, rows in found.items()}


def date_of(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()


def run_of(folder: Path, command: str) -> Run:
    """From the studies of the results where there are any."""
    results = folder / "results.parquet"
    date = date_of(results if results.exists() else folder / "report.md")
    if results.exists() and b"dperm" in (pq.read_schema(results).metadata or {}):
        study = Study.of(pq.read_table(results))
        return Run(
            date=date, command=command, seed=study.seed, versions=study.versions, machine=study.machine
        )
    return Run(date=date, command=command, versions=dict(versions()), machine=dict(machine()))


def take(folder: Path, data: Path = result_data.DATA) -> list[Path]:
    """Everything that was reproduced in a folder, but for the study of the defaults."""
    written = []
    for item in sorted(path.parent for path in folder.glob("*/report.md")):
        if item.name == "defaults":
            continue
        report = (item / "report.md").read_text(encoding="utf-8")
        tables = report_tables(report)
        if item.name in OVER_EPSILON:
            parts = separate(pq.read_table(item / "results.parquet"))
            tables = {
                slug(Study.of(part).dataset): over_epsilon(part, Study.of(part).dataset) for part in parts
            }
        elif item.name in SPLIT:
            tables = {name: table for long in tables.values() for name, table in split(long).items()}
        command = _COMMAND.search(report)
        run = run_of(item, command[1] if command else f"dperm reproduce {item.name}")
        if tables:
            written.append(result_data.write(item.name, tables, run, data))
    return written


def take_comparisons(
    name: str, column: str, folders: dict[str, Path], command: str, data: Path = result_data.DATA
) -> Path:
    parts: dict[str, dict[str, Table]] = {}
    for title, folder in folders.items():
        table, _, part = title.partition("/")
        found = over_epsilon(pq.read_table(folder / "results.parquet"), table)
        parts.setdefault(table, {})[part] = found
    tables = {table: beside(some, column) if "" not in some else some[""] for table, some in parts.items()}
    return result_data.write(name, tables, run_of(next(iter(folders.values())), command), data)


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["--as"] and len(arguments) > 3:
        named = dict(one.split("=", 1) for one in arguments[3:])
        folders = {title: Path(folder) for title, folder in named.items()}
        print(take_comparisons(arguments[1], arguments[2], folders, "`dperm compare` as above"))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        for path in take(Path(arguments[0])):
            print(path)
    else:
        raise SystemExit(
            "usage: python tools/take_results.py FOLDER, or --as FILE COLUMN TABLE/PART=FOLDER ..."
        )


if __name__ == "__main__":
    main(sys.argv[1:])
