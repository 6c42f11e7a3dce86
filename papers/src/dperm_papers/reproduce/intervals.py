"""Confidence intervals: how often they hold the true coefficient, and how wide they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dperm.experiments.figures import MARKERS, save
from dperm.experiments.metrics import with_error
from dperm.models.atomic import atomic_path
from dperm.models.intervals.first_order import MOST_NOISE
from dperm.render.style import GREY, PALETTE
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.intervals_trials import (
    DELTA,
    EARNINGS,
    FULL,
    LEVELS,
    LINEAR,
    LOGISTIC,
    QUICK,
    SPREAD,
    TRUTH,
    Size,
    Task,
    chosen_level,
    coverage,
    drawn_settings,
    run_cell,
    run_people,
    run_setting,
)
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# The tables of the study of intervals, with the published figures beside ours, and what must be so.

Rows = Sequence[Mapping[str, Any]]
NOTHING = "–"
LOW, HIGH = 0.93, 0.97
FEW = 50  # intervals of a cell below which its coverage is not judged

ERM_COVERAGE = {
    (0.1, 500): 0.803,
    (0.1, 1000): 0.769,
    (0.1, 2000): 0.796,
    (1.0, 500): 0.807,
    (1.0, 1000): 0.824,
    (1.0, 2000): 0.862,
    (10.0, 500): 0.946,
    (10.0, 1000): 0.947,
    (10.0, 2000): 0.946,
}
ERM_WIDTH = {(0.1, 2000): 2.15, (1.0, 2000): 0.46, (10.0, 2000): 0.35}
REPRO_COVERAGE = {
    (0.1, 500): 0.984,
    (0.1, 1000): 0.994,
    (0.1, 2000): 0.994,
    (1.0, 500): 0.989,
    (1.0, 1000): 0.994,
    (1.0, 2000): 0.996,
}
REPRO_WIDTH = {(0.1, 2000): 9.16, (1.0, 2000): 0.62}
REPRO_SECONDS = {(0.1, 2000): 5065, (1.0, 2000): 11566}
"""Medians from the result files beside Awan & Wang: DP-CI-ERM of Wang, Kifer & Lee, and repro samples."""


class Cell:
    """The repeats of one number of rows and one budget."""

    def __init__(self, kind: str, epsilon: float, n_rows: int, rows: Rows) -> None:
        self.kind, self.epsilon, self.n_rows, self.rows = kind, epsilon, n_rows, rows
        self.given = [
            row
            for row in rows
            if row["slope_low"] is not None
            and row["noise_level"] <= MOST_NOISE
            and (np.isfinite(row["slope_low"]) or np.isfinite(row["slope_high"]))
        ]

    @property
    def enough(self) -> bool:
        """Whether there are so many that their coverage says something."""
        return len(self.given) >= min(FEW, max(1, len(self.rows) // 2))

    @property
    def name(self) -> str:
        return f"ε = {self.epsilon:g}, n = {self.n_rows:,}"

    def held(self, name: str = "slope", plain: str = "") -> float:
        truth = TRUTH[self.kind][("slope", "intercept").index(name)]
        inside = [row[f"{name}_{plain}low"] <= truth <= row[f"{name}_{plain}high"] for row in self.given]
        return float(np.mean(inside)) if inside else np.nan

    @property
    def error(self) -> float:
        """Standard error of the coverage, were it as it should be."""
        return float(np.sqrt(0.95 * 0.05 / max(len(self.given), 1)))

    @property
    def width(self) -> float:
        """The median; an interval with an open end is infinitely wide."""
        widths = [row["slope_high"] - row["slope_low"] for row in self.given]
        return float(np.median(widths)) if widths else np.nan

    @property
    def closed(self) -> float:
        both = [np.isfinite(row["slope_low"]) and np.isfinite(row["slope_high"]) for row in self.given]
        return float(sum(both) / len(self.rows))

    def mean(self, name: str) -> float:
        return float(np.mean([row[name] for row in self.given])) if self.given else np.nan


def cells_of(rows: Rows, kind: str) -> list[Cell]:
    mine = [row for row in rows if row["kind"] == kind]
    keys = dict.fromkeys((row["epsilon"], row["n_rows"]) for row in mine)
    return [
        Cell(kind, epsilon, n, [row for row in mine if (row["epsilon"], row["n_rows"]) == (epsilon, n)])
        for epsilon, n in keys
    ]


def sections(grid: Rows, people: Rows, settings: Rows) -> Iterable[Section]:
    yield _grid_section(LOGISTIC, cells_of(grid, LOGISTIC), published=True)
    yield _grid_section(LINEAR, cells_of(grid, LINEAR), published=False)
    yield _people_section(people)
    yield _level_section(settings)
    yield _left_out_section(settings)
    yield _time_section(grid, people)


def _grid_section(kind: str, cells: Sequence[Cell], published: bool) -> Section:
    rows = []
    for cell in cells:
        key = cell.epsilon, cell.n_rows
        line = [
            cell.name,
            _percent(len(cell.given) / len(cell.rows)),
            _percent(cell.closed),
            with_error(cell.held(), cell.error, 3) if cell.given else NOTHING,
            _number(cell.width, 3),
            _number(cell.mean("slope_privacy"), 2),
            _number(cell.held("intercept"), 3),
            _number(cell.held(plain="plain_"), 3),
        ]
        if published:
            others = (ERM_COVERAGE, 3), (ERM_WIDTH, 2), (REPRO_COVERAGE, 3), (REPRO_WIDTH, 2)
            line += [f"{told[key]:.{digits}f}" if key in told else NOTHING for told, digits in others]
        rows.append(tuple(line))
    columns = [
        "budget and rows",
        "given, %",
        "with two ends, %",
        "coverage",
        "median width",
        "share of privacy",
        "coverage, intercept",
        "coverage, naive",
    ]
    if published:
        columns += ["DP-CI-ERM: coverage", "width", "repro samples: coverage", "width "]
    return Section(
        title=f"{kind} regression: intervals of the slope at a nominal 95 %, δ = {DELTA:g}",
        columns=tuple(columns),
        rows=tuple(rows),
    )


def _people_section(people: Rows) -> Section:
    rows = []
    for (name, kind, p), mine in _by(people, "name", "kind", "n_features").items():
        given = [row for row in mine if row["coverage"] is not None and row["noise_level"] <= MOST_NOISE]
        held = np.array([row["coverage"] for row in given])
        rows.append(
            (
                f"{name}, {kind}, {p} features",
                f"{mine[0]['n_rows']:,}",
                _percent(len(given) / len(mine)),
                with_error(float(held.mean()), float(held.std() / np.sqrt(len(held))), 3)
                if given
                else NOTHING,
                _number(_mean(given, "width"), 3),
                _number(_mean(given, "wider"), 2),
                _number(_mean(given, "plain_coverage"), 3),
            )
        )
    epsilon = people[0]["epsilon"] if people else 1.0
    return Section(
        title=f"tables of people: mean coverage over the coefficients at ε = {epsilon:g}",
        columns=(
            "table",
            "rows",
            "given, %",
            "coverage",
            "width",
            "over that without privacy",
            "coverage, naive",
        ),
        rows=tuple(rows),
    )


def _level_section(settings: Rows) -> Section:
    rows, low = [], 0.0
    total = max(len(settings), 1)
    for level in LEVELS:
        added = [row for row in settings if low < row["noise_level"] <= level]
        up_to = [row for row in settings if row["noise_level"] <= level]
        rows.append(
            (
                f"{level:g}",
                _percent(len(up_to) / total),
                _number(coverage(up_to), 3),
                _number(coverage(added), 3),
                "chosen" if level == MOST_NOISE else "",
            )
        )
        low = level
    return Section(
        title="noise levels: intervals of all coefficients, were they given up to this level, in made-up settings",
        columns=("level", "models, %", "coverage", "coverage of what it adds", ""),
        rows=tuple(rows),
    )


def _left_out_section(settings: Rows) -> Section:
    """What a choice without a setting means for that setting, at most at the library's own level."""
    found: dict[str, list[float]] = {"all of its models are told of": [], "some are": []}
    allowed = []
    for (place,), mine in _by(settings, "place").items():
        allowed.append(chosen_level(settings, left_out=place))
        told = [row for row in mine if row["noise_level"] <= min(allowed[-1], MOST_NOISE)]
        if sum(row["intervals"] for row in told) >= FEW:
            kind = next(iter(found)) if len(told) > 0.9 * len(mine) else "some are"
            found[kind].append(coverage(told))
    rows = [
        (kind, str(len(values)), *(_number(float(of(values)), 3) for of in (np.mean, np.min, np.max)))
        for kind, values in found.items()
        if values
    ]
    least = f"; the others allow levels of {min(allowed):g} and more" if allowed else ""
    return Section(
        title=f"left out: coverage in a setting under the level that the others choose{least}",
        columns=("setting", "settings", "mean coverage", "least", "most"),
        rows=tuple(rows),
    )


def _time_section(grid: Rows, people: Rows) -> Section:
    rows = []
    for name, mine in (("one feature", grid), ("tables of people", people)):
        if mine:
            fit, told = (
                1000 * float(np.median([row[f"{part}_seconds"] for row in mine]))
                for part in ("fit", "interval")
            )
            rows.append((name, _number(fit, 1), _number(told, 1)))
    hours = max(REPRO_SECONDS.values()) / 3600
    rows.append(
        ("repro samples, one interval, n = 2,000, ε = 1, published", NOTHING, f"{1000 * 3600 * hours:,.0f}")
    )
    return Section(
        title="time: medians in milliseconds",
        columns=("what", "fit", "intervals of all coefficients"),
        rows=tuple(rows),
    )


def checks(grid: Rows, people: Rows, settings: Rows) -> Iterable[Check]:
    for kind in (LOGISTIC, LINEAR):
        judged = [cell for cell in cells_of(grid, kind) if cell.enough]
        allowed = [2.6 * cell.error for cell in judged]
        low = [
            cell.name for cell, more in zip(judged, allowed, strict=True) if cell.held() < 0.95 - more - 0.005
        ]
        inside = [cell for cell in judged if LOW <= cell.held() <= HIGH]
        yield Check(
            claim=f"{kind}: in no cell coverage is below 95 % by more than chance makes it"
            + (f" (below: {'; '.join(low)})" if low else ""),
            holds=not low,
        )
        yield Check(
            claim=f"{kind}: coverage is between {LOW:g} and {HIGH:g} wherever intervals are given "
            f"({len(inside)} of {len(judged)} cells)",
            holds=len(inside) == len(judged),
        )
    cells = {(cell.epsilon, cell.n_rows): cell for cell in cells_of(grid, LOGISTIC)}
    for key, most in REPRO_WIDTH.items():
        if key in cells and key[0] >= 1:
            yield _narrower(cells[key], most, "repro samples")
    for key, width in ERM_WIDTH.items():
        if key in cells and key[0] >= 3:
            yield _narrower(cells[key], 1.2 * width, "1.2 times DP-CI-ERM")
    if settings:
        places = {row["place"] for row in settings}
        least = min(chosen_level(settings, left_out=place) for place in places)
        yield Check(
            claim=f"the made-up settings allow the noise level of the library ({MOST_NOISE:g}), whichever is left "
            f"out (they allow {least:g})",
            holds=least >= MOST_NOISE,
        )
    for (name, kind, p), mine in _by(people, "name", "kind", "n_features").items():
        given = [
            row["coverage"]
            for row in mine
            if row["coverage"] is not None and row["noise_level"] <= MOST_NOISE
        ]
        if given:
            mean = float(np.mean(given))
            yield Check(
                claim=f"{name}, {kind}, {p} features: mean coverage between {LOW:g} and {HIGH:g} ({mean:.3f})",
                holds=LOW <= mean <= HIGH,
            )


def _narrower(cell: Cell, most: float, than: str) -> Check:
    return Check(
        claim=f"{cell.name}: the median width ({cell.width:.2f}) is at most that of {than} ({most:.2f})",
        holds=bool(cell.width <= most),
    )


def _by(rows: Rows, *names: str) -> dict[tuple[Any, ...], list[Mapping[str, Any]]]:
    found: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(tuple(row[name] for name in names), []).append(row)
    return found


def _mean(rows: Rows, name: str) -> float:
    return float(np.mean([row[name] for row in rows])) if rows else np.nan


def _percent(share: float) -> str:
    return f"{100 * share:.1f}"


def _number(value: float, digits: int) -> str:
    if np.isnan(value):
        return NOTHING
    return "open" if np.isinf(value) else f"{value:.{digits}f}"


# The figure of the study of intervals: coverage and width over the budget.

NOTE = (
    "Simulated tables, one feature and an intercept. Cells with few intervals are left out; an interval with an open "
    "end counts as one. δ = 1e-6 and replace-one; the published methods are pure ε."
)
_OTHERS = (("DP-CI-ERM", ERM_COVERAGE, ERM_WIDTH), ("repro samples", REPRO_COVERAGE, REPRO_WIDTH))


def draw(grid: Rows, path: Path) -> Path:
    """Coverage for two classes and for numbers, and widths at the largest number of rows."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13.2, 4.6), dpi=160)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 3)
    for axes, kind in zip(panels, (LOGISTIC, LINEAR), strict=False):
        _coverage(axes, kind, cells_of(grid, kind))
    _widths(panels[2], cells_of(grid, LOGISTIC))
    for axes in panels:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel("ε (more privacy to the left)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.2))
    figure.suptitle(
        "Confidence intervals at a nominal 95 %", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    figure.text(0.01, 0.012, NOTE, fontsize=8, color=GREY)
    figure.tight_layout(rect=(0, 0.035, 1, 0.97))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)
    return path


def _coverage(axes: Axes, kind: str, cells: Sequence[Cell]) -> None:
    axes.axhspan(0.93, 0.97, color="#E9F2E9", linewidth=0)
    axes.axhline(0.95, color=GREY, linewidth=0.8)
    for place, n in enumerate(sorted({cell.n_rows for cell in cells})):
        mine = [cell for cell in cells if cell.n_rows == n and cell.enough]
        look: dict[str, Any] = {"color": PALETTE[place], "marker": MARKERS[place]}
        axes.plot([c.epsilon for c in mine], [c.held() for c in mine], label=f"dperm, n = {n:,}", **look)
        if kind == LOGISTIC:
            for (name, told, _), style in zip(_OTHERS, (":", "--"), strict=True):
                points = [(epsilon, value) for (epsilon, rows), value in told.items() if rows == n]
                shown = f"{name}, n = {n:,}"
                axes.plot(*zip(*points, strict=True), linestyle=style, linewidth=1.0, label=shown, **look)
    axes.set_ylim(0.72, 1.005)
    axes.set_title(f"{kind} regression: coverage of the slope", loc="left", fontsize=11)


def _widths(axes: Axes, cells: Sequence[Cell]) -> None:
    most = max(cell.n_rows for cell in cells)
    mine = [c for c in cells if c.n_rows == most and c.enough and np.isfinite(c.width)]
    axes.plot([c.epsilon for c in mine], [c.width for c in mine], marker="o", color=PALETTE[0], label="dperm")
    for place, (name, _, told) in enumerate(_OTHERS, 1):
        points = [(epsilon, value) for (epsilon, rows), value in told.items() if rows == most]
        if points:
            axes.plot(*zip(*points, strict=True), marker=MARKERS[place], color=PALETTE[place], label=name)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title(f"logistic regression: median width, n = {most:,}", loc="left", fontsize=11)


EPSILON = 1.0  # of the tables of people
_RULE = 3  # raised when the statistics change, so that kept parts are not taken for new ones


def run(bench: Bench) -> Report:
    """Cell after cell; those that are finished are not run again."""
    size = QUICK if bench.quick else FULL
    parts = list(_parts(size, bench.seed))
    found: dict[str, list[dict[str, Any]]] = {"grid": [], "people": [], "settings": []}
    report = bench.progress("fits and intervals")
    for place, (part, key, rows) in enumerate(parts):
        report(place, len(parts))
        whole = {**key, "size": asdict(size), "seed": bench.seed, "rule": _RULE}
        table = cached(bench.parts / "intervals", part, whole, partial(list, rows), bench.fresh)
        found[part] += table.to_pylist()
    report(len(parts), len(parts))
    results = bench.folder / "results.parquet"
    with atomic_path(results) as unfinished:
        pq.write_table(
            pa.concat_tables(
                [pa.Table.from_pylist(rows) for rows in found.values()], promote_options="default"
            ),
            unfinished,
        )
    return Report(
        sections=tuple(sections(found["grid"], found["people"], found["settings"])),
        checks=tuple(checks(found["grid"], found["people"], found["settings"])),
        files=(results, draw(found["grid"], bench.folder / "figure.png")),
    )


def _parts(size: Size, seed: int) -> Iterator[tuple[str, dict[str, Any], Iterator[dict[str, Any]]]]:
    """What is run: the kind of simulation, what tells it from others, and its rows, made as they are asked for."""
    for kind in (LOGISTIC, LINEAR):
        for epsilon in size.epsilons:
            for n in size.n_rows:
                task = Task(kind=kind, n_rows=n, n_features=1, epsilon=epsilon)
                yield "grid", task.key, run_cell(task, size.repeats, seed)
    for table in size.tables:
        key = {"table": list(table)}
        yield "people", key, run_people(*table, size.most_rows, size.table_repeats, EPSILON, seed)
    for setting in drawn_settings(size.settings, seed):
        yield "settings", {"place": setting.place}, run_setting(setting, size.setting_repeats, seed)


ITEMS = {
    "intervals": Item(
        name="intervals",
        title="Confidence intervals: coverage and width beside published methods, and on tables of people",
        paper="this library, beside DP-CI-ERM (Wang, Kifer & Lee 2019) and repro samples (Awan & Wang 2025)",
        run=run,
        published="Published coverages and widths, from the result files beside Awan & Wang, are in the first table.",
        differs=(
            f"The published methods are pure ε-private. Ours are (ε, δ)-private with δ = {DELTA:g}, replace-one.",
            "Assumed of their study: one feature 2z - 1 with z ~ Beta(1/2, 1/2), "
            f"a slope of {TRUTH[LOGISTIC][0]:g} and an intercept of {TRUTH[LOGISTIC][1]:g}, an interval for the slope.",
            f"For numbers the slope is {TRUTH[LINEAR][0]:g}, the intercept {TRUTH[LINEAR][1]:g} and the spread around "
            f"the line {SPREAD:g}, in half ranges of the target.",
            "'Given' are models whose slope has an interval, with two ends or one; the others are too noisy to say. "
            "Coverage and width are over the given ones, and an open end counts as infinitely wide.",
            "'Naive' is the interval around the released coefficient by the released curvature, as if there were "
            "neither noise nor penalty.",
            "Tables of people keep their rows; targets are drawn from a model that was fitted to them, so the truth "
            f"is known. Earnings of CPS are declared within {EARNINGS[0]:g} to {EARNINGS[1]:g} dollars an hour; "
            "drawn ones are not cut off there.",
        ),
    ),
}
