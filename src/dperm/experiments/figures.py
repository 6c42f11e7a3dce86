"""The privacy-utility figure: accuracy and objective over epsilon, one line per mechanism."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.results import Curve, Study, curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's palette without its yellow, darkest first; markers and dashes tell the lines apart in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
_GREY = "#666666"
_DPI = 160
_BAND = (10, 90)


def draw_curves(results: pa.Table, path: str | os.PathLike[str]) -> None:
    """Draw the mean of every mechanism with the band from the 10th to the 90th percentile of its runs.

    Parameters
    ----------
    results : pyarrow.Table
        As ``compare`` returns it, or read back from a file.
    path : path
        The PNG to write, at 160 dots per inch.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    study, lines = Study.of(results), curves(results)
    if not lines:
        raise InvalidInput("there are no results to draw; every mechanism was skipped.")
    figure = Figure(figsize=(13, 5.2), dpi=_DPI)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.055, right=0.885, bottom=0.17, top=0.84, wspace=0.42)
    _panel(left, lines, "accuracy", "accuracy on held-out rows, %", 100.0)
    _panel(right, lines, "objective", "regularised mean loss on training rows", 1.0)
    figure.suptitle(
        f"{study.dataset}: {study.loss} loss, n = {study.n_rows:,}, {study.n_features} features",
        x=0.055,
        ha="left",
        fontsize=13,
        fontweight="bold",
    )
    figure.text(
        0.055,
        0.03,
        f"δ = {study.delta:g}, l2 = {study.l2:g}. Lines: mean over {study.repeats} repeats of {study.folds} "
        f"folds; bands: {_BAND[0]}th to {_BAND[1]}th percentile of these runs. "
        "An evaluation on held-out rows, not a private release.",
        fontsize=8.5,
        color=_GREY,
    )
    figure.savefig(path, format="png")


def _panel(axes: Axes, lines: Sequence[Curve], quantity: str, title: str, factor: float) -> None:
    ends = []
    styles = zip(_COLOURS * 9, _MARKERS * 9, _DASHES * 9, strict=True)
    for curve in lines:
        runs: list[NDArray[np.float64]] = [factor * values for values in getattr(curve, quantity)]
        mean = np.array([values.mean() for values in runs])
        if not curve.private:
            axes.axhline(mean[-1], color=_GREY, linestyle="--", linewidth=1, zorder=1)
            ends.append((mean[-1], curve.label, _GREY))
            continue
        colour, marker, dash = next(styles)
        low, high = np.array([np.percentile(values, _BAND) for values in runs]).T
        axes.fill_between(curve.epsilons, low, high, color=colour, alpha=0.13, linewidth=0)
        axes.plot(
            curve.epsilons, mean, color=colour, marker=marker, linestyle=dash, markersize=5, linewidth=1.6
        )
        ends.append((mean[-1], curve.label, colour))
    axes.set_xscale("log")
    every = np.unique(np.concatenate([curve.epsilons for curve in lines]))
    axes.set_xticks(every, [f"{epsilon:g}" for epsilon in every])
    axes.minorticks_off()
    axes.set_xlabel("ε (more privacy to the left)")
    axes.set_title(title, loc="left", fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    values = np.array([value for value, _, _ in ends])
    if quantity == "objective" and axes.get_ylim()[1] > 5 * values.min():
        axes.set_yscale("log")
    _label_ends(axes, ends)


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Names in a column right of the lines, pushed apart so that none covers another."""
    height = axes.get_window_extent().height * 72 / _DPI
    to_points = axes.transData + axes.transAxes.inverted()
    wanted = np.array([to_points.transform((1.0, value))[1] * height for value, _, _ in ends])
    placed = spread(wanted, gap=12.0, low=0.0, high=height)
    for (_, label, colour), at, target in zip(ends, placed, wanted, strict=True):
        axes.annotate(
            label,
            xy=(1.0, target / height),
            xytext=(1.07, at / height),
            xycoords="axes fraction",
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=colour,
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.6, "shrinkA": 1, "shrinkB": 0},
            annotation_clip=False,
        )


def spread(wanted: NDArray[np.float64], *, gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Positions close to ``wanted``, in its order, ``gap`` apart or more, inside [low, high] if they fit."""
    order = np.argsort(wanted, kind="stable")
    steps = gap * np.arange(len(wanted))
    # Without the steps the positions only need to be in order: isotonic regression, then clipping.
    level = _isotonic(wanted[order] - steps)
    level = np.clip(level, low, max(low, high - steps[-1])) if len(level) else level
    placed = np.empty_like(wanted)
    placed[order] = level + steps
    return placed


def _isotonic(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Closest non-decreasing sequence, by pooling neighbours that are out of order."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = float(value), 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools[-1][1]
            pools.pop()
        pools.append((total, count))
    return np.repeat([total / count for total, count in pools], [count for _, count in pools])
