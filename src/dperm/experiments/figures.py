"""The privacy-utility figure: accuracy and objective over epsilon, one line per mechanism."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.results import Curve, Study, curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Runs = list[NDArray[np.float64]]

# Okabe and Ito's palette without its yellow; markers and dashes tell the lines apart in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES: tuple[Any, ...] = ("-", "--", ":", "-.", (0, (3, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (2, 2)))
_FILLS = ("full", "none", "left", "bottom")
_GREY = "#666666"
_BAND = (10, 90)
_DPI = 160
_LABEL_GAP = 13.0  # points
_SMALLEST_EXCESS = 1e-7  # float32 rows do not resolve less


def draw_curves(results: pa.Table, path: str | os.PathLike[str]) -> None:
    """Draw the mean of every mechanism with the band from the 10th to the 90th percentile of its runs.

    Left: accuracy. Right: the objective, or if the exact minimiser ``none`` was part of the comparison, by
    how much the objective exceeds its objective on the same rows.

    Parameters
    ----------
    results : pyarrow.Table
        As ``compare`` returns it, or read back from a file.
    path : path
        The PNG to write.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    study, found = Study.of(results), curves(results)
    if not found:
        raise InvalidInput("there are no results to draw; every mechanism was skipped.")
    height = max(5.2, len(found) * _LABEL_GAP / 72 / 0.6)  # room for every label beside the axes
    figure = Figure(figsize=(13, height), dpi=_DPI)
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    figure.subplots_adjust(left=0.04, right=0.88, bottom=0.175, top=0.83, wspace=0.4)
    left.set_title("Accuracy on held-out rows, %", loc="left", fontsize=11)
    _panel(left, found, lambda curve: [100 * runs for runs in curve.accuracy])
    minimiser = next((curve for curve in found if curve.label == "none"), None)
    if minimiser is None or len(found) == 1:
        right.set_title("Objective on training rows", loc="left", fontsize=11)
        _panel(right, found, lambda curve: curve.objective)
    else:
        right.set_title("Objective on training rows, above the minimum (none)", loc="left", fontsize=11)
        right.set_yscale("log")
        least = minimiser.objective[0]  # a baseline is the same at every epsilon
        others = [curve for curve in found if curve is not minimiser]
        _panel(right, others, lambda curve: [_excess(runs, least) for runs in curve.objective])
    title = f"{study.dataset}: {study.loss} loss, n = {study.n_rows:,}, {study.n_features} features"
    figure.suptitle(title, x=0.04, y=0.97, ha="left", fontsize=13, fontweight="bold", parse_math=False)
    note = (
        f"δ = {study.delta:g}, l2 = {study.l2:g}. Lines: mean over the folds of all repeats "
        f"({study.repeats} × {study.folds} runs); bands: {_BAND[0]}th to {_BAND[1]}th percentile. "
        "An evaluation on held-out rows, not a private release."
    )
    figure.text(0.04, 0.03, note, fontsize=9, color=_GREY)
    figure.savefig(path, format="png")


def _excess(runs: NDArray[np.float64], least: NDArray[np.float64]) -> NDArray[np.float64]:
    """Objectives above the least ones on the same rows: both come repeat by repeat and fold by fold."""
    reference = least if len(least) == len(runs) else least.mean()
    return np.maximum(runs - reference, _SMALLEST_EXCESS)


def _look(number: int) -> tuple[dict[str, Any], Any]:
    """Colour, marker and dashes of the number-th mechanism; after each round of colours the others move on."""
    turn, colour = divmod(number, len(_COLOURS))
    marker, dashes = (colour + 3 * turn) % len(_MARKERS), (colour + 2 * turn) % len(_DASHES)
    look = {"color": _COLOURS[colour], "marker": _MARKERS[marker], "fillstyle": _FILLS[turn % len(_FILLS)]}
    return {**look, "markersize": 5}, _DASHES[dashes]


def _panel(axes: Axes, found: Sequence[Curve], values: Callable[[Curve], Runs]) -> None:
    private = [curve for curve in found if curve.private]
    ends: list[tuple[float, str, dict[str, Any]]] = []
    for curve in found:
        runs = values(curve)
        mean = np.array([some.mean() for some in runs])
        if not curve.private:
            axes.axhline(mean[-1], color=_GREY, linestyle="--", linewidth=1, zorder=1)
            ends.append((mean[-1], curve.label, {"color": _GREY}))
            continue
        look, dashes = _look(private.index(curve))
        low, high = np.array([np.percentile(some, _BAND) for some in runs]).T
        axes.fill_between(curve.epsilons, low, high, color=look["color"], alpha=0.1, linewidth=0)
        if len(mean) == 1:  # a band needs two points
            axes.vlines(curve.epsilons, low, high, color=look["color"], linewidth=1)
        axes.plot(curve.epsilons, mean, linestyle=dashes, linewidth=1.6, **look)
        ends.append((mean[-1], curve.label, look))
    every = np.unique(np.concatenate([curve.epsilons for curve in found]))
    axes.set_xscale("log")
    axes.set_xticks(every, [f"{epsilon:g}" for epsilon in every])
    axes.xaxis.minorticks_off()
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":  # to whole powers of ten, so that there are two ticks at least
        low, high = 10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high))
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xlabel("ε (more privacy to the left)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    _label_ends(axes, ends)


def _label_ends(axes: Axes, ends: Sequence[tuple[float, str, dict[str, Any]]]) -> None:
    """Markers and names in a column right of the lines, pushed apart, each with a thin line to its end."""
    height = axes.get_window_extent().height * 72 / _DPI
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = np.array([to_axes.transform((1.0, value))[1] * height for value, _, _ in ends])
    placed = spread(wanted, gap=_LABEL_GAP, low=0.0, high=height) / height
    for (_, label, look), at, target in zip(ends, placed, wanted / height, strict=True):
        beside: dict[str, Any] = {"clip_on": False, "transform": axes.transAxes}
        axes.plot([1.0, 1.05, 1.065], [target, at, at], color=look["color"], linewidth=0.6, **beside)
        axes.plot([1.05], [at], **look, **beside)
        axes.text(1.07, at, label, transform=axes.transAxes, va="center", fontsize=9.5)


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
