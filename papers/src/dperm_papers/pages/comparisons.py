"""Results of ``dperm compare`` as tables: mean accuracy over ε, and several of them side by side."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import InvalidInput
from dperm.experiments.metrics import METRICS, with_error
from dperm.experiments.results import Curve, Study, curves, mean_and_error
from dperm_papers.pages.cells import Cell, Table, cell
from dperm_papers.pages.files import Results
from dperm_papers.pages.runs import Run


def over_epsilon(results: pa.Table, heading: str) -> Table:
    """Mean accuracy in % ± its standard error, a row for every configuration."""
    found = {curve.label: curve for curve in curves(results)}
    epsilons = sorted({float(some) for curve in found.values() for some in curve.epsilons})
    rows = [[label, *(_reached(curve, some) for some in epsilons)] for label, curve in found.items()]
    return Table([heading, *(f"ε = {some:g}" for some in epsilons)], rows)


def _reached(curve: Curve, epsilon: float) -> Cell:
    at = np.flatnonzero(curve.epsilons == epsilon)
    if not len(at):
        return "skipped"
    about = METRICS["accuracy"]
    mean, error = mean_and_error(about.factor * curve.accuracy[at[0]], curve.runs[at[0]][:, 0])
    return cell(with_error(mean, error, about.digits or 0, about.finer))


def beside(tables: Mapping[str, Table], column: str) -> Table:
    """Tables of the same configurations as one: for every configuration a row from each, named in a second column."""
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


def take_comparisons(path: Path, column: str, folders: Mapping[str, Path], command: str) -> Path:
    """One file of the folders of several ``dperm compare --out FOLDER``.

    A folder is named TABLE, or TABLE/PART where the parts of a table stand side by side in a column of their own.
    """
    parts: dict[str, dict[str, Table]] = {}
    studies: list[Study] = []
    files = [_results_in(folder) for folder in folders.values()]
    for title, file in zip(folders, files, strict=True):
        table, _, part = title.partition("/")
        results = pq.read_table(file)
        studies.append(Study.of(results))
        parts.setdefault(table, {})[part] = over_epsilon(results, table)
    tables = {table: beside(some, column) if "" not in some else some[""] for table, some in parts.items()}
    return Results(tables, _run_of(studies, files, command)).write(path)


def _results_in(folder: Path) -> Path:
    file = folder / "results.parquet"
    if not file.is_file():
        raise InvalidInput(f"{folder} has no results.parquet; dperm compare --out writes it.")
    return file


def _run_of(studies: Sequence[Study], files: Sequence[Path], command: str) -> Run:
    newest = max(file.stat().st_mtime for file in files)
    seeds = {study.seed for study in studies}
    return Run(
        date=datetime.fromtimestamp(newest, UTC).date().isoformat(),
        command=command,
        seed=seeds.pop() if len(seeds) == 1 else None,
        versions=studies[0].versions,
        machine=studies[0].machine,
    )
