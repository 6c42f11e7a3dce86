"""``plan``: what the default loses to the model without noise, over its noise level, and the curves fitted to it."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm import __version__
from dperm.errors import DataUnavailable
from dperm.experiments.reproduce import expected_drawing
from dperm.experiments.reproduce.development import DevelopmentSet, development_sets, read
from dperm.experiments.reproduce.expected_fit import (
    OUTSIDE,
    Cells,
    Coverage,
    coverage,
    errors_left_out,
    fit_curve,
)
from dperm.experiments.reproduce.expected_runs import DELTA, NUMBERS, Design, number_instead, run
from dperm.experiments.reproduce.item import Bench, Check, Item, Report, Section
from dperm.losses import Logistic
from dperm.models.atomic import atomic_path
from dperm.planning.outlook import CONSTANTS, STUDY, LossCurve
from dperm.planning.rules import noise_level
from dperm.privacy import Budget
from dperm.problem import Problem

METRICS = ("accuracy", "auc", "r2")
FEWEST_SETS = 4
"""With fewer sets nothing is fitted: each is left out, and one more within."""

FACTS = ("dataset", "kind", "n", "features", "outputs", "delta", "epsilon", "level")

FULL = Design(
    sizes=(1_000, 2_500, 6_000, 15_000),
    epsilons=(0.1, 0.25, 0.5, 1.0, 2.0, 4.0),
    repeats=3,
    most_rows=50_000,
    most_work=4e9,
)
QUICK = Design(sizes=(1_000,), epsilons=(0.25, 1.0), repeats=1, most_rows=4_000, most_work=4e8)


def _run(bench: Bench) -> Report:
    design = QUICK if bench.quick else FULL
    tables, skipped = [], []
    for name in bench.among(development_sets()):
        try:
            some = read(name, bench.most_rows or design.most_rows, design.most_work)
        except DataUnavailable as error:
            skipped.append(f"{name}: {error}")
            continue
        tables += [run(one, design, bench) for one in _tasks(name, some)]
    if not tables:
        return Report(skipped=tuple(skipped))
    together = pa.concat_tables(tables, promote_options="permissive")
    rows = losses(together.to_pylist())
    fit = Fit.of(rows)
    files = [bench.folder / name for name in ("results.parquet", STUDY, CONSTANTS)]
    with atomic_path(files[0]) as unfinished:
        pq.write_table(together, unfinished)
    with atomic_path(files[1]) as unfinished:
        _write_study(rows, unfinished)
    with atomic_path(files[2]) as unfinished:
        unfinished.write_text(_constants(fit.curves, fit.held, rows, bench), encoding="utf-8")
    if fit.curves:
        files.append(bench.folder / "figure.png")
        expected_drawing.draw(rows, list(fit.curves.values()), files[-1])
    return replace(fit.report(), skipped=tuple(skipped), files=tuple(files))


@dataclass(frozen=True, eq=False, kw_only=True)
class Fit:
    """The curves of a study by metric, and how their bands hold for sets left out."""

    cells: Mapping[str, Cells]
    curves: Mapping[str, LossCurve]
    held: Mapping[str, Coverage]

    @classmethod
    def of(cls, rows: Sequence[Mapping[str, str]]) -> Fit:
        found = {metric: Cells.of(metric, rows) for metric in METRICS}
        cells = {metric: some for metric, some in found.items() if len(some.names) >= FEWEST_SETS}
        return cls(
            cells=cells,
            curves={metric: fit_curve(some) for metric, some in cells.items()},
            held={metric: coverage(some) for metric, some in cells.items()},
        )

    def report(self) -> Report:
        return Report(
            sections=(*_coverage_sections(self.curves, self.held), _errors_section(self.cells)),
            checks=tuple(_checks(self.held)),
        )


def _tasks(name: str, some: DevelopmentSet) -> list[DevelopmentSet]:
    return [some, number_instead(some, NUMBERS[name])] if name in NUMBERS else [some]


def losses(runs: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Mean losses by table, size and epsilon, as text: what the best model without noise reaches beyond the default."""
    by_part: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for one in runs:
        by_part.setdefault((one["dataset"], one["n"]), []).append(one)
    rows = []
    for part in by_part.values():
        first = part[0]
        best = {
            metric: max(means) for metric in METRICS if (means := _means(part, metric, "none", "l2").values())
        }
        for epsilon in sorted({one["epsilon"] for one in part if one["label"] == "default"}):
            about = {**first, "dataset": _short(first["dataset"]), "epsilon": epsilon}
            about["level"] = _level(about)
            row = {name: _text(about[name]) for name in FACTS}
            for metric in METRICS:
                mine = _means(part, metric, "default", "epsilon").get(epsilon)
                row[metric] = "" if mine is None else f"{best[metric] - mine:.5f}"
            rows.append(row)
    return rows


def _means(part: Sequence[Mapping[str, Any]], metric: str, label: str, by: str) -> dict[Any, float]:
    found: dict[Any, list[float]] = {}
    for one in part:
        if one["label"] == label and one[metric] is not None:
            found.setdefault(one[by], []).append(one[metric])
    return {key: float(np.mean(values)) for key, values in found.items()}


def _level(about: Mapping[str, Any]) -> float:
    """The noise level that the default would state of such a fit."""
    loss = Logistic() if about["outputs"] == 1 else Logistic().for_classes(about["outputs"])
    problem = Problem.for_table(about["n"], about["features"], loss=loss, l2=0.0, x_norm=1.0)
    return noise_level(problem, Budget(about["epsilon"], about["delta"]))


def _short(name: str) -> str:
    return name.partition(",")[0]


def _text(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _write_study(rows: Sequence[Mapping[str, str]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*FACTS, *METRICS], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def _constants(
    curves: Mapping[str, LossCurve],
    held: Mapping[str, Coverage],
    rows: Sequence[Mapping[str, str]],
    bench: Bench,
) -> str:
    quick = " --quick" if bench.quick else ""
    document = {
        "made": datetime.now(UTC).date().isoformat(),
        "command": f"dperm reproduce plan{quick} --seed {bench.seed}",
        "version": __version__,
        "sets": sorted({row["dataset"] for row in rows}),
        "curves": [curve.to_dict() for curve in curves.values()],
        "left_out": {
            metric: {"cells": round(one.mean, 3), "sets": round(one.sets, 3)} for metric, one in held.items()
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _coverage_sections(curves: Mapping[str, LossCurve], held: Mapping[str, Coverage]) -> list[Section]:
    whole = [
        (metric, str(curves[metric].sets), curves[metric].form, _percent(one.mean), _percent(one.sets))
        for metric, one in held.items()
    ]
    epsilons = sorted({epsilon for one in held.values() for epsilon in one.full})
    at = [
        (metric, *(_percent(one.full[epsilon]) if epsilon in one.full else "" for epsilon in epsilons))
        for metric, one in held.items()
    ]
    return [
        Section(
            title="Sets left out, against the band of all others",
            columns=("metric", "sets", "form", "cells inside", "sets mostly inside"),
            rows=tuple(whole),
        ),
        Section(
            title="Sets inside at their largest size",
            columns=("metric", *(f"ε = {epsilon:g}" for epsilon in epsilons)),
            rows=tuple(at),
        ),
    ]


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _errors_section(fitted: Mapping[str, Cells]) -> Section:
    rows = []
    for metric, cells in fitted.items():
        errors = errors_left_out(cells)
        rows += [(metric, form, f"{error:.3f}") for form, error in errors.items()]
    return Section(
        title="Mean absolute error on sets left out, on the scale of the curve",
        columns=("metric", "form", "error"),
        rows=tuple(rows),
    )


def _checks(held: Mapping[str, Coverage]) -> list[Check]:
    asked = 1 - OUTSIDE
    return [
        Check(
            claim=f"{metric}: {_percent(share)} of {what} left out lie in their band of {_percent(asked)}",
            holds=share >= asked,
        )
        for metric, one in held.items()
        for what, share in (("cells", one.mean), ("sets, by most of their cells,", one.sets))
    ]


ITEMS = {
    "plan": Item(
        name="plan",
        title="What the default loses to the model without noise, by its noise level: the bands of dperm plan",
        paper="this library",
        run=_run,
        datasets=development_sets,
        published="Nothing was published: the constants that dperm plan reads are made here.",
        differs=(
            f"δ = {DELTA:g}, replace-one. The model without noise is the better of two on the held-out rows: hardly "
            "regularised, and with l2 = 1 / n.",
            "Of some tables with classes a number is predicted as well, so that there are more regressions.",
            "The scale of a loss and the largest noise level were chosen on all sets, after a look at the table by ε: "
            "the shares by ε flatter the bands, and the others do a little.",
        ),
    ),
}
