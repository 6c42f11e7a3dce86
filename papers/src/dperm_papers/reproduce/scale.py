"""The study of scale: time and memory of one fit over the number of rows and of columns, beside scikit-learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.models.atomic import atomic_path
from dperm.processors import available_processors
from dperm_papers.reproduce.item import Bench, Item, Report, Section
from dperm_papers.scale.cells import FULL, QUICK, Cell
from dperm_papers.scale.child import SHORT
from dperm_papers.scale.figure import draw
from dperm_papers.scale.findings import checks, left_out
from dperm_papers.scale.fits import DELTA, EPSILON
from dperm_papers.scale.measuring import LIMIT, Outcome, measure_all
from dperm_papers.scale.memory import SHARE
from dperm_papers.scale.tables import Measured, number, sections


def _scale(bench: Bench) -> Report:
    sweeps = QUICK if bench.quick else FULL
    outcomes = measure_all(sweeps, bench)
    measured = [
        Measured(sweep=sweep, outcomes={cell: outcomes[cell] for cell in sweep.cells()}) for sweep in sweeps
    ]
    return Report(
        sections=(*sections(measured), _machine(outcomes)),
        checks=tuple(checks(measured)),
        skipped=tuple(left_out(outcomes.values())),
        files=(_write(outcomes, bench.folder / "cells.parquet"), draw(measured, bench.folder / "figure.png")),
    )


def _machine(outcomes: Mapping[Cell, Outcome]) -> Section:
    """How busy the machine was with everything, these fits included, when a cell was begun."""
    loads = [outcome.load for outcome in outcomes.values() if outcome.seconds is not None]
    rows = [("processors", str(available_processors()))]
    if loads:
        rows += [("load, median", number(float(np.median(loads)))), ("load, most", number(max(loads)))]
    rows.append(("cells measured", str(len(loads))))
    return Section(title="Machine: when the cells were measured", columns=("what", "value"), rows=tuple(rows))


def _write(outcomes: Mapping[Cell, Outcome], path: Path) -> Path:
    """A row for every cell."""
    rows = [
        {**asdict(cell.shape), "method": cell.method.name, "engine": cell.method.engine, **_values(outcome)}
        for cell, outcome in outcomes.items()
    ]
    with atomic_path(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished)
    return path


def _values(outcome: Outcome) -> dict[str, object]:
    return {name: value for name, value in vars(outcome).items() if name != "cell"}


ITEMS = {
    "scale": Item(
        name="scale",
        title="Time and memory of one fit over 10,000 to 20,000,000 rows and 10 to 100,000 columns",
        paper="A study of this library",
        published="There is nothing published to put beside it.",
        run=_scale,
        differs=(
            f"Logistic regression, ε = {EPSILON:g}, δ = {DELTA:g}, every mechanism with its defaults; scikit-learn "
            "with its own, not private. Rows are drawn from a logistic model by the seed.",
            "Each cell is a process of its own. It fits a few rows first, so that no compilation is timed, and making "
            f"the rows does not count. Fits below {SHORT:g} s are timed three times and the median is taken.",
            "scikit-learn gets dense rows as the same float32 matrix, sparse rows as the same CSR matrix, and the "
            "records of coded rows one-hot in CSR. On shards SGDClassifier makes one epoch by partial_fit over pieces "
            "from the disk.",
            "Memory is the highest resident size during the fit less that before the rows were made: rows count, and "
            "so do files that are mapped.",
            f"A cell is not run if it is expected to take more than {SHARE:.0%} of the free memory, and is ended after "
            f"{LIMIT:.0f} s.",
        ),
    ),
}
