"""``plan``: what the default loses to the model without noise, over its noise level, and the curves fitted to it."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dperm import __version__
from dperm.errors import DataUnavailable
from dperm.estimators.linear import PrivateLinearRegression
from dperm.estimators.logistic import PrivateLogisticRegression
from dperm.experiments.figures import save
from dperm.experiments.judging import accuracy, area
from dperm.experiments.spec import digest_rows
from dperm.experiments.splits import text_code
from dperm.experiments.tuning import measured_only
from dperm.losses import Logistic
from dperm.models.atomic import atomic_path
from dperm.planning.outlook import CONSTANTS, STUDY, LossCurve
from dperm.planning.rules import AUTO, noise_level
from dperm.privacy import Budget
from dperm.problem import Problem
from dperm.schema.features import Numeric, Target
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.development import DevelopmentSet, development_sets, read
from dperm_papers.reproduce.expected_fit import OUTSIDE, Cells, Coverage, coverage, errors_left_out, fit_curve
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# What the default loses to the model without noise, on parts of the development sets: the runs behind a plan's bands.

DELTA = 1e-8
HELD_OUT = 0.2
MOST_HELD_OUT = 20_000

NUMBERS: Mapping[str, str] = {
    "adult": "age",
    "bank": "age",
    "body_performance": "broad jump",
    "brfss_diabetes": "BMI",
    "cardio": "weight",
    "crash_deaths": "ageOFocc",
    "credit_delinquency": "age",
    "credit_risk": "loan_amnt",
    "hotel_bookings": "adr",
    "hr_attrition": "satisfaction_level",
    "law_school": "lsat",
    "online_shoppers": "ExitRates",
    "vote_2016": "age",
}
"""Tables with classes of which a number is predicted as well, from all features but itself: more regressions."""


@dataclass(frozen=True, kw_only=True)
class Design:
    """Which parts are trained on: rows to train on, budgets, and how often each."""

    sizes: tuple[int, ...]
    epsilons: tuple[float, ...]
    repeats: int
    most_rows: int
    most_work: float

    def parts(self, n_rows: int) -> list[int]:
        """The sizes that leave enough rows to judge on, and the largest such number itself."""
        most = n_rows - _held_out(n_rows)
        smaller = [size for size in self.sizes if size < 0.8 * most]
        return [*smaller, most]


def _held_out(n_rows: int) -> int:
    return min(int(HELD_OUT * n_rows), MOST_HELD_OUT)


def number_instead(some: DevelopmentSet, column: str) -> DevelopmentSet:
    """The same table with one of its numbers as the target; the label is left out."""
    (number,) = (one for one in some.schema.features if one.name == column)
    assert isinstance(number, Numeric)
    schema = replace(
        some.schema,
        target=Target(name=column, range=number.range),
        features=tuple(one for one in some.schema.features if one.name != column),
        cross=(),
    )
    base, comma, rest = some.name.partition(",")
    return DevelopmentSet(name=f"{base}: {column}{comma}{rest}", schema=schema, table=some.table)


def run(some: DevelopmentSet, design: Design, bench: Bench) -> pa.Table:
    """One row for each model: the set, its size and budget, and what it reached.

    ``label`` is "default", or "none" for a model without noise, with ``l2`` the rule's (almost none) or 1 / n.
    """
    records = some.records()
    bounds = some.schema.target.range
    y = records.y.astype(np.float64) if bounds is not None else np.unique(records.y, return_inverse=True)[1]
    key = {
        "rows": digest_rows(records.X, y.astype(np.float64), None),
        "dataset": some.name,
        "range": bounds,
        "sizes": design.parts(len(y)),
        "epsilons": list(design.epsilons),
        "repeats": design.repeats,
        "delta": DELTA,
        "seed": bench.seed,
    }
    report = bench.progress(some.name)

    def make() -> list[dict[str, Any]]:
        rows = []
        sizes = design.parts(len(y))
        for repeat in range(design.repeats):
            order = np.random.default_rng([text_code(some.name), repeat]).permutation(len(y))
            held_out, rest = np.split(order, [_held_out(len(y))])
            for place, size in enumerate(sizes):
                report(repeat * len(sizes) + place, design.repeats * len(sizes))
                task = _Task(X=records.X, y=y, train=rest[:size], held_out=held_out, range=bounds)
                about = {"dataset": some.name, "kind": some.kind, "n": size, "features": records.X.shape[1]}
                about |= {"outputs": task.outputs, "delta": DELTA, "repeat": repeat}
                rows += [about | one for one in task.runs(design.epsilons, [bench.seed, repeat, size])]
        report(1, 1)
        return rows

    return cached(bench.parts, "expected", key, make, bench.fresh)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Task:
    """Rows to train on and rows to judge on; with a range the target is a number."""

    X: NDArray[Any]
    y: NDArray[Any]
    train: NDArray[np.int64]
    held_out: NDArray[np.int64]
    range: tuple[float, float] | None

    @property
    def outputs(self) -> int:
        classes = 0 if self.range is not None else len(np.unique(self.y))
        return classes if classes > 2 else 1

    def runs(self, epsilons: Sequence[float], seed: Sequence[int]) -> Iterator[dict[str, Any]]:
        for epsilon in epsilons:
            found = self._reached(epsilon, "auto", AUTO, [*seed, round(1000 * epsilon)])
            yield {"label": "default", "epsilon": epsilon, "l2": AUTO, **found}
        for l2, named in ((AUTO, AUTO), (1 / len(self.train), "1/n")):
            yield {"label": "none", "epsilon": None, "l2": named, **self._reached(1.0, "none", l2, seed)}

    def _reached(
        self, epsilon: float, mechanism: str, l2: float | str, seed: Sequence[int]
    ) -> dict[str, float | None]:
        common: dict[str, Any] = {
            "epsilon": epsilon,
            "delta": DELTA,
            "mechanism": mechanism,
            "l2": l2,
            "random_state": np.random.default_rng(seed),
        }
        X, y = self.X[self.train], self.y[self.train]
        judged, truth = self.X[self.held_out], self.y[self.held_out]
        with measured_only():
            if self.range is not None:
                regression = PrivateLinearRegression(**common, y_range=self.range).fit(X, y)
                return {"accuracy": None, "auc": None, "r2": float(regression.score(judged, truth))}
            model = PrivateLogisticRegression(**common, classes=list(range(int(self.y.max()) + 1))).fit(X, y)
            margins = model.decision_function(judged)
        targets = 2 * truth - 1 if margins.ndim == 1 else truth
        return {"accuracy": accuracy(margins, targets), "auc": area(margins, targets), "r2": None}


# The figure of ``plan``: every cell of the study, the curves and their bands.

_TITLES = {
    "accuracy": "accuracy, points",
    "auc": "area under the ROC curve, points",
    "r2": "R², points",
}
_TWO, _MORE, _GREY = "#0072B2", "#D55E00", "#5F5F5F"
_TICKS = (0.3, 1, 3, 10, 30, 100)


def draw(rows: Sequence[Mapping[str, str]], curves: Sequence[LossCurve], path: Path) -> None:
    """A panel for each metric, losses in points (hundredths) on the scale of the curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.3 * len(curves), 4.4), dpi=160)
    FigureCanvasAgg(figure)
    for axes, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        _panel(axes, curve, [row for row in rows if row[curve.metric]])
    figure.suptitle(
        "What the default loses to the model without noise", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    note = (
        "A point is a public table at one number of rows and one ε, mean over the runs. Bands: 8 of 10 tables that "
        "were left out of the fit. Curves: two classes."
    )
    figure.text(0.01, 0.02, note, fontsize=8.5, color=_GREY)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def _panel(axes: Axes, curve: LossCurve, rows: Sequence[Mapping[str, str]]) -> None:
    from matplotlib.ticker import NullLocator

    several = max(int(row["outputs"]) for row in rows) > 1
    for outputs, colour, label in ((1, _TWO, "two classes"), (0, _MORE, "more classes")):
        mine = [row for row in rows if (int(row["outputs"]) == 1) == bool(outputs)]
        axes.plot(
            [float(row["level"]) for row in mine],
            [100 * float(row[curve.metric]) for row in mine],
            "o",
            color=colour,
            alpha=0.35,
            markersize=3,
            markeredgewidth=0,
            label=label if several else None,
        )
    levels = np.geomspace(*curve.studied["level"], 100)
    found = [curve(float(level)) for level in levels]
    low, high = ([100 * getattr(one, name) for one in found] for name in ("low", "high"))
    axes.fill_between(levels, low, high, color=_TWO, alpha=0.13, linewidth=0)
    axes.plot(levels, [100 * one.expected for one in found], color=_TWO, linewidth=2)
    axes.set_xscale("log")
    axes.set_yscale("asinh", linear_width=100 * curve.scale)
    ticks = [0, *(tick for tick in _TICKS if tick >= 99 * curve.scale)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-1, 130)
    axes.set_title(f"{_TITLES[curve.metric]}: {curve.sets} tables", loc="left", fontsize=10.5)
    axes.set_xlabel("noise level √p / (n μ)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    if several:
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")


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
        draw(rows, list(fit.curves.values()), files[-1])
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
        "curves": [asdict(curve) for curve in curves.values()],
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
