"""Confidence intervals: how often they hold the true coefficient, and how wide they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.models.atomic import atomic_path
from dperm_papers.reproduce.cached import cached
from dperm_papers.reproduce.intervals_drawing import draw
from dperm_papers.reproduce.intervals_runs import (
    EARNINGS,
    FULL,
    QUICK,
    SPREAD,
    TRUTH,
    Size,
    run_cell,
    run_people,
)
from dperm_papers.reproduce.intervals_settings import drawn_settings, run_setting
from dperm_papers.reproduce.intervals_tables import checks, sections
from dperm_papers.reproduce.intervals_trials import DELTA, LINEAR, LOGISTIC, Task
from dperm_papers.reproduce.item import Bench, Item, Report

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
