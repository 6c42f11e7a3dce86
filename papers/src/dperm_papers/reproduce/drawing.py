"""Line figures of items that are not curves over epsilon of single configurations, in the house style."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.experiments.figures import MARKERS, save
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("--", ":")
_LEGEND_COLUMNS = 2
_APART = 0.09  # of the axis, at least, between two numbers
_WHOLE = 1_000  # from here on a number has no digits after the point


@dataclass(frozen=True, kw_only=True)
class Line:
    """Points with a name; ``band`` has a lower and an upper end for every point."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    band: tuple[tuple[float, float], ...] = ()
    dashed: bool = False


def draw_lines(
    panels: Sequence[tuple[str, Sequence[Line]]],
    path: Path,
    *,
    title: str,
    x_label: str,
    y_label: str,
    note: str,
    log: Sequence[str] = (),
) -> None:
    """A panel for each group of lines, side by side, and one legend below; a name has one look everywhere."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(line.label for _, lines in panels for line in lines))
    rows = -(-len(names) // _LEGEND_COLUMNS)
    width, height = max(8.4, 4.4 * len(panels)), 4.3 + 0.22 * rows
    figure = Figure(figsize=(width, height), dpi=160)
    FigureCanvasAgg(figure)
    handles: dict[str, Any] = {}
    for axes, (name, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(name, loc="left", fontsize=11)
        handles |= _panel(axes, lines, log)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    figure.suptitle(
        title, x=0.12 / width, y=1 - 0.12 / height, ha="left", va="top", fontsize=13, fontweight="bold"
    )
    below = 0.3 + 0.22 * rows  # inches
    figure.legend(
        handles.values(),
        handles.keys(),
        fontsize=8.5,
        frameon=False,
        ncols=_LEGEND_COLUMNS,
        loc="upper left",
        bbox_to_anchor=(0.05 / width, (below + 0.02) / height),
    )
    figure.text(0.12 / width, 0.08 / height, note, fontsize=8.5, color=GREY)
    figure.tight_layout(rect=(0, (below + 0.05) / height, 1, 1 - 0.3 / height))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def _panel(axes: Axes, lines: Sequence[Line], log: Sequence[str]) -> dict[str, Any]:
    """Draw the lines; what stands for each of them in a legend."""
    handles: dict[str, Any] = {}
    for number, line in enumerate(lines):
        colour = GREY if line.dashed else PALETTE[number % len(PALETTE)]
        dashes = _DASHES[number % len(_DASHES)] if line.dashed else "-"
        look: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 1.6}
        if not line.dashed:
            look |= {"marker": MARKERS[number % len(MARKERS)], "markersize": 4.6}
        if line.band:
            low, high = zip(*line.band, strict=True)
            axes.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
        (handles[line.label],) = axes.plot(line.x, line.y, **look)
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    ticks = sorted({value for line in lines for value in line.x})
    axes.set_xticks(ticks, _apart(ticks, "x" in log))
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    return handles


def _apart(ticks: Sequence[float], log: bool) -> list[str]:
    """The numbers beside the ticks, none where it would run into its neighbour."""
    places = np.log(ticks) if log else np.asarray(ticks)
    least = _APART * (places[-1] - places[0])
    texts, last = [], -math.inf
    for place, value in zip(places, ticks, strict=True):
        shown = place - last >= least
        texts.append((f"{value:,.0f}" if value >= _WHOLE else f"{value:g}") if shown else "")
        last = place if shown else last
    return texts
