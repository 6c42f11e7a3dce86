"""The figure of the study of intervals: coverage and width over the budget."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.experiments.figures import save
from dperm.experiments.reproduce.intervals_tables import (
    ERM_COVERAGE,
    ERM_WIDTH,
    REPRO_COVERAGE,
    REPRO_WIDTH,
    Cell,
    Rows,
    cells_of,
)
from dperm.experiments.reproduce.intervals_trials import LINEAR, LOGISTIC
from dperm.experiments.style import MARKERS
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
