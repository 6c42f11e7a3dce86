"""The default against the papers' methods and the model without noise, on all development sets."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.errors import DataUnavailable, DpermError
from dperm.estimators.linear import PrivateLinearRegression
from dperm.experiments.figures import figure_of, save
from dperm.experiments.results import Study, combine, curves
from dperm.experiments.spec import Method, digest_rows
from dperm.experiments.splits import assign_folds
from dperm.experiments.tuning import measured_only
from dperm.mechanisms import resolve
from dperm.models.atomic import atomic_path
from dperm_papers.reproduce import calibration, constants
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.data import Records
from dperm_papers.reproduce.defaults_tables import (
    CANDIDATES,
    DEFAULT,
    DEFAULT_PLAIN,
    MAJORITY,
    NONE,
    checks,
    draw,
    draw_others,
    sections,
)
from dperm_papers.reproduce.development import DevelopmentSet, development_sets, read
from dperm_papers.reproduce.item import Bench, Item, Report
from dperm_papers.reproduce.regret import Entry
from dperm_papers.reproduce.studies import Comparison, as_one, refusals

# Private regression on held-out rows: R² of several mechanisms by cross-validation.


def run(
    records: Records,
    mechanisms: Mapping[str, str],
    y_range: tuple[float, float],
    *,
    epsilons: Sequence[float],
    delta: float,
    folds: int,
    repeats: int,
    bench: Bench,
) -> tuple[pa.Table, list[str]]:
    """Rows ``dataset, label, private, epsilon, repeat, fold, r2, seconds``, and who was refused and why."""
    tables, refused = [], []
    report = bench.progress(f"{records.name}, regression")
    for place, (label, mechanism) in enumerate(mechanisms.items()):
        report(place, len(mechanisms))
        key = {
            "rows": digest_rows(records.X, records.y.astype(np.float64), None),
            "dataset": records.name,
            "mechanism": resolve(mechanism),
            "label": label,
            "y_range": list(y_range),
            "budgets": [list(epsilons), delta],
            "folds": [folds, repeats],
            "seed": bench.seed,
        }

        def make(label: str = label, mechanism: str = mechanism) -> list[dict[str, Any]]:
            about = {"dataset": records.name, "label": label, "private": resolve(mechanism).private}
            rows = [
                {**about, "epsilon": epsilon, "repeat": repeat, "fold": fold}
                | _fit(records, mechanism, y_range, epsilon, delta, repeat, fold, folds, bench.seed)
                for epsilon in (epsilons if about["private"] else epsilons[:1])
                for repeat in range(repeats)
                for fold in range(folds)
            ]
            # A baseline is the same at every epsilon.
            return rows if about["private"] else [{**row, "epsilon": e} for e in epsilons for row in rows]

        try:
            tables.append(cached(bench.parts, "regression", key, make, bench.fresh))
        except DpermError as error:
            refused.append(f"{records.name}: {label}: {error}")
    report(len(mechanisms), len(mechanisms))
    return pa.concat_tables(tables), refused


def _fit(
    records: Records,
    mechanism: str,
    y_range: tuple[float, float],
    epsilon: float,
    delta: float,
    repeat: int,
    fold: int,
    folds: int,
    seed: int,
) -> dict[str, float]:
    tested = assign_folds(records.name, repeat, len(records.X), folds) == fold
    model = PrivateLinearRegression(
        epsilon=epsilon,
        delta=delta,
        mechanism=mechanism,
        y_range=y_range,
        random_state=np.random.default_rng([seed, repeat, fold]),
    )
    with measured_only():
        started = time.perf_counter()
        model.fit(records.X[~tested], records.y[~tested])
        seconds = time.perf_counter() - started
    return {"r2": float(model.score(records.X[tested], records.y[tested])), "seconds": seconds}


def entries(results: pa.Table) -> list[Entry]:
    """The means over all runs, method by method."""
    found: dict[tuple[str, str, bool], dict[float, list[float]]] = {}
    for row in results.to_pylist():
        mine = found.setdefault((row["dataset"], row["label"], row["private"]), {})
        mine.setdefault(row["epsilon"], []).append(row["r2"])
    return [
        Entry(
            dataset=dataset,
            label=label,
            private=private,
            means={"r2": {epsilon: float(np.mean(values)) for epsilon, values in by_epsilon.items()}},
        )
        for (dataset, label, private), by_epsilon in found.items()
    ]


DELTA = 1e-8
AS_DECLARED = {DEFAULT: "auto", NONE: "none"}
"""On rows as the schema says."""

PLAIN = {
    DEFAULT_PLAIN: "auto",
    "none, plain rows": "none",
    MAJORITY: "majority",
    "RSGD-AR": "rsgd-ar",
    "RSGD-AR, as published": "rsgd-ar:paper",
    "DP-AGD": "dp-agd",
    "ObjPert": "objective",
    "ObjPert, as published": "objective-kst:paper",
    "AMP": "amp",
    "OutPert": "output",
    "DP-GD": "dp-gd",
    "DP-SGD": "dp-sgd",
    "SSP": "ssp",
}
"""On rows with one column for every number: the papers' methods by their public rules."""

SLOW = {"DP-AGD": 60_000}
"""Methods that take minutes a model on larger tables, and the most rows that they run on."""

PLAIN_REGRESSION = {
    DEFAULT_PLAIN: "auto",
    "none, plain rows": "none",
    "AdaSSP": "adassp",
    "ObjPert": "objective",
    "OutPert": "output",
    "DP-GD": "dp-gd",
}

DRAWN = {"figure.png": draw, "others.png": draw_others, "regret.png": constants.draw}


@dataclass(frozen=True, kw_only=True)
class Size:
    """``most_work`` limits the rows of wide tables: rows times columns squared, what a Newton step costs.

    ``calibrated`` are the epsilons at which probabilities are looked at, ``without`` the methods that do not run.
    """

    epsilons: tuple[float, ...]
    repeats: int
    folds: int = 5
    most_rows: int | None = None
    most_work: float | None = None
    calibrated: tuple[float, ...] | None = None
    without: tuple[str, ...] = ()

    def methods(self, methods: Mapping[str, Method]) -> dict[str, Method]:
        return {label: method for label, method in methods.items() if label not in self.without}


OTHER_L2 = tuple(one.label for one in CANDIDATES.values() if one.l2_times != 1)

FULL = Size(epsilons=(0.05, 0.1, 0.25, 0.5, 1.0, 4.0), repeats=1, most_rows=60_000, without=OTHER_L2)
MIDDLE = Size(
    epsilons=(0.1, 0.25, 0.5, 1.0, 4.0),
    repeats=1,
    folds=3,
    most_rows=60_000,
    most_work=2e9,
    calibrated=(0.1, 1.0),
    without=(
        "none, plain rows",
        "DP-AGD",
        "DP-SGD",
        *(one.label for one in CANDIDATES.values() if one.clip in (0.25, 0.75) and one.l2_times != 1),
    ),
)
QUICK = Size(epsilons=(0.1, 1.0), repeats=1, folds=2, most_rows=4_000)


@dataclass(eq=False, kw_only=True)
class _Found:
    """What was gathered so far, set by set."""

    tables: list[pa.Table] = field(default_factory=list)
    candidates: list[pa.Table] = field(default_factory=list)
    regressions: list[pa.Table] = field(default_factory=list)
    bins: list[pa.Table] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    sets: dict[str, str] = field(default_factory=dict)

    def entries(self) -> list[Entry]:
        classified = [
            Entry.of(Study.of(table).dataset, curve)
            for table in (*self.tables, *self.candidates)
            for curve in curves(table)
        ]
        return [*classified, *(one for table in self.regressions for one in entries(table))]


def _run(bench: Bench) -> Report:
    size = QUICK if bench.quick else MIDDLE if bench.middle else FULL
    found = _Found()
    for name in bench.among(development_sets()):
        try:
            some = read(name, bench.most_rows or size.most_rows, size.most_work)
        except DataUnavailable as error:
            found.skipped.append(f"{name}: {error}")
            continue
        found.sets[some.name] = some.kind
        if some.kind == "regression":
            _regress(some, size, bench, found)
        else:
            _classify(some, size, bench, found)
    if not found.sets:
        return Report(skipped=tuple(found.skipped))
    entries, bins = found.entries(), [row for table in found.bins for row in table.to_pylist()]
    calibrated = size.calibrated or size.epsilons
    shown = (
        *constants.sections(entries, found.sets, size.epsilons),
        *sections(entries, bins, found.sets, size.epsilons, calibrated),
    )
    files = _write(found, bench.folder)
    for name, drawn in DRAWN.items():
        if drawn(entries, found.sets, size.epsilons, bench.folder / name):
            files.append(bench.folder / name)
    return Report(
        sections=shown,
        checks=(
            *constants.checks(entries, found.sets, size.epsilons),
            *checks(entries, found.sets, size.epsilons),
        ),
        skipped=tuple(found.skipped),
        results=tuple(found.tables),
        files=tuple(files),
    )


def _classify(some: DevelopmentSet, size: Size, bench: Bench, found: _Found) -> None:
    records, plain = some.records(), some.records(plain=True)
    taking_part = size.methods(PLAIN)
    slow = [label for label in taking_part if len(plain.X) > SLOW.get(label, len(plain.X))]
    found.skipped += [f"{plain.name}: {label}: it takes minutes a model on so many rows" for label in slow]
    not_slow = {label: method for label, method in taking_part.items() if label not in slow}
    found.tables.append(
        as_one([_compare(records, AS_DECLARED, size, bench), _compare(plain, not_slow, size, bench)])
    )
    found.skipped += refusals(found.tables[-1])
    if some.kind == "binary":
        found.candidates.append(_compare(records, size.methods(CANDIDATES), size, bench))
        found.skipped += refusals(found.candidates[-1])
        calibrated = size.calibrated or size.epsilons
        found.bins.append(calibration.run(records, calibrated, DELTA, size.folds, bench))


def _compare(records: Records, methods: Mapping[str, Method], size: Size, bench: Bench) -> pa.Table:
    comparison = Comparison(
        records=records,
        configurations=methods,
        epsilons=size.epsilons,
        delta=DELTA,
        folds=size.folds,
        repeats=size.repeats,
    )
    return comparison.run(bench)


def _regress(some: DevelopmentSet, size: Size, bench: Bench, found: _Found) -> None:
    bounds = some.schema.target.range
    assert bounds is not None
    for methods, plain in ((AS_DECLARED, False), (PLAIN_REGRESSION, True)):
        table, refused = run(
            some.records(plain=plain),
            methods,
            bounds,
            epsilons=size.epsilons,
            delta=DELTA,
            folds=size.folds,
            repeats=size.repeats,
            bench=bench,
        )
        found.regressions.append(table)
        found.skipped += refused


def _write(found: _Found, folder: Path) -> list[Path]:
    """The tables as Parquet, and a figure for every set with classes."""
    files = []
    combined: Sequence[tuple[str, Sequence[pa.Table]]] = (
        ("results.parquet", [combine(found.tables)] if found.tables else []),
        ("candidates.parquet", [combine(found.candidates)] if found.candidates else []),
        ("regression.parquet", found.regressions),
        ("calibration.parquet", found.bins),
    )
    for name, tables in combined:
        if tables:
            files.append(folder / name)
            with atomic_path(files[-1]) as unfinished:
                pq.write_table(pa.concat_tables(tables), unfinished)
    for table in found.tables:
        files.append(folder / f"{Study.of(table).dataset.partition(',')[0]}.png")
        with atomic_path(files[-1]) as unfinished:
            save(figure_of(table), unfinished)
    return files


ITEMS = {
    "defaults": Item(
        name="defaults",
        title="The default against the papers' methods and the model without noise, on all development sets",
        paper="this library",
        run=_run,
        datasets=development_sets,
        published="Nothing was published: this is how the default was judged.",
        differs=(
            "The default is given rows, ε and δ, nothing else. The papers' methods run by their public rules with the "
            "exact price of their noise, where they have one, on rows with one column for every number; δ = 1e-8, "
            "replace-one.",
            "The best of several methods is the best on the test rows of the same cell: an oracle, which flatters it.",
            "Of tables beyond 60,000 rows, and of hotel_bookings beyond 20,000, a random part is used. MNIST is judged "
            "on its published test part.",
        ),
    ),
}
