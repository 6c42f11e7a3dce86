"""Line figures of items that are not curves over epsilon of single contenders, in the house style."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dperm.estimators.atomic import atomic_path
from dperm.experiments.figures import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without its yellow; markers tell the lines apart in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_GREY = "#5F5F5F"


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
    """A panel for each group of lines, side by side, each with its own legend below."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2 * len(panels), 5.2), dpi=160)
    FigureCanvasAgg(figure)
    for axes, (name, lines) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        axes.set_title(name, loc="left", fontsize=11)
        _panel(axes, lines, log)
        axes.set_xlabel(x_label)
        axes.set_ylabel(y_label)
    figure.suptitle(title, x=0.01, ha="left", fontsize=13, fontweight="bold", parse_math=False)
    figure.text(0.01, 0.012, note, fontsize=8.5, color=_GREY)
    figure.tight_layout(rect=(0, 0.04, 1, 0.97))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def _panel(axes: Axes, lines: Sequence[Line], log: Sequence[str]) -> None:
    for number, line in enumerate(lines):
        colour = _GREY if line.dashed else _COLOURS[number % len(_COLOURS)]
        look: dict[str, Any] = {"color": colour, "linestyle": "--" if line.dashed else "-", "linewidth": 1.6}
        if line.band:
            low, high = zip(*line.band, strict=True)
            axes.fill_between(line.x, low, high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(
            line.x, line.y, label=line.label, marker=_MARKERS[number % len(_MARKERS)], markersize=4.6, **look
        )
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    ticks = sorted({value for line in lines for value in line.x})
    axes.set_xticks(ticks, [f"{value:,g}" for value in ticks])
    axes.xaxis.minorticks_off()
    axes.yaxis.set_major_formatter("{x:g}")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8.5, frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.14))
