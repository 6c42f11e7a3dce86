"""A comparison in the terminal: a table per metric, and what was skipped."""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from rich import box
from rich.table import Table

from dperm.cli.output import console
from dperm.experiments.metrics import HELD_OUT, METRICS, with_error
from dperm.experiments.results import Curve, Skipped, Study, curves
from dperm.experiments.series import error_in_words, known_metrics, mean_and_error
from dperm.planning.rules import l2_in_words

USUAL_TABLES = (*HELD_OUT, "objective")
NOT_A_RELEASE = (
    "These numbers are an evaluation on held-out rows, not a private release: no noise was added to them and "
    "they come from many models on the same rows."
)


def show(tables: Sequence[pa.Table], metrics: Sequence[str] = ()) -> None:
    """A table per metric of every study, all usual ones if none is asked for, and what was skipped."""
    screen = console()
    for results in tables:
        study, found = Study.of(results), curves(results)
        split = "published split" if study.folds == 1 else f"{study.folds} folds"
        screen.print(
            f"{study.dataset}: {study.n_rows:,} {study.unit}s, {study.n_features} features; {study.loss} loss, "
            f"l2 = {l2_in_words(study.l2)}, δ = {study.delta:g}, {study.relation}, {split} × {study.repeats}\n"
        )
        for place, metric in enumerate(metrics or known_metrics(found, USUAL_TABLES)):
            screen.print(METRICS[metric].title, style="bold")
            screen.print(_table(found, metric, timed=place == 0))
        for line in _arithmetic_lines(found):
            screen.print(line, style="dim")
        for part in _skipped_lines(study.skipped):
            screen.print(part, style="yellow")
        screen.print()
    screen.print(f"Cells: mean {error_in_words(Study.of(tables[0]))}. {NOT_A_RELEASE}")


def _table(found: Sequence[Curve], metric: str, *, timed: bool) -> Table:
    cells = {curve.label: _means(curve, metric) for curve in found}
    digits = METRICS[metric].decimals(mean for means in cells.values() for mean, _ in means.values())
    places = (digits, METRICS[metric].finer)
    epsilons = sorted({float(epsilon) for curve in found for epsilon in curve.epsilons})
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("mechanism", no_wrap=True)
    for epsilon in epsilons:
        table.add_column(f"ε = {epsilon:g}", justify="right", overflow="fold")
    if timed:
        table.add_column("ms/model", justify="right", min_width=len("ms/model"))
    for i, curve in enumerate(found):
        here = [e in curve.epsilons for e in epsilons]
        shown = [
            with_error(*cells[curve.label].get(e, (math.nan, math.nan)), *places) if ran else "skipped"
            for e, ran in zip(epsilons, here, strict=True)
        ]
        if timed:
            shown.append(f"{1000 * curve.seconds:.1f}")
        last_private = curve.private and i + 1 < len(found) and not found[i + 1].private
        table.add_row(curve.label, *shown, end_section=last_private, style="" if curve.private else "dim")
    return table


def _means(curve: Curve, metric: str) -> dict[float, tuple[float, float]]:
    """Mean and standard error as they are shown, by epsilon, where there are values."""
    factor = METRICS[metric].factor
    return {
        epsilon: mean_and_error(factor * values, runs[:, 0])
        for epsilon, values, runs in zip(
            curve.epsilons.tolist(), getattr(curve, metric), curve.runs, strict=True
        )
        if np.isfinite(values).all()
    }


def _arithmetic_lines(found: Sequence[Curve]) -> Iterator[str]:
    """Which mechanisms kept their plans in the arithmetic of these batches."""
    for kept, words in (
        (True, "Certified but for the seeded noise"),
        (False, "Not certified, by its plan or by passes in float32"),
    ):
        names = [curve.label for curve in found if curve.private and curve.certified is kept]
        if names:
            yield f"{words}: {', '.join(names)}."


def _skipped_lines(skipped: Sequence[Skipped]) -> Iterator[str]:
    """One line per mechanism and reason, with the epsilons it holds for."""
    merged: dict[tuple[str, str], list[float]] = {}
    for part in skipped:
        merged.setdefault((part.name, part.reason), []).append(part.epsilon)
    for (name, reason), epsilons in merged.items():
        yield f"Skipped: {name} at ε = {', '.join(f'{epsilon:g}' for epsilon in epsilons)}: {reason}"
