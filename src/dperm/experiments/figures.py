"""The privacy-utility figure in the house style: one line per contender over epsilon."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.metrics import HELD_OUT, METRICS
from dperm.experiments.results import Curve, Study, curves, separate
from dperm.experiments.series import (
    TIGHT,
    Line,
    Look,
    display_name,
    error_in_words,
    is_above_minimum,
    known_metrics,
    line,
    looks,
    remark,
)
from dperm.planning.penalty import l2_in_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette without its yellow, and wine; markers tell the lines apart in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#882255")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_DASHES: dict[str, Any] = {
    "default": "-",
    "private": "-",
    "paper": (0, (2, 1.5)),
    "oracle": (0, (6, 2)),
    "baseline": (0, (1, 1.5)),
}
_GREY = "#5F5F5F"
_PALE = "#B5B5B5"
_HOUSE: dict[str, Any] = {
    "figure.dpi": 160,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "axes.edgecolor": "#808080",
    "grid.color": "#E2E2E2",
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.6,
    "text.parse_math": False,
}
_PANEL = (4.5, 3.3)  # inches
_LEFT, _BETWEEN, _RIGHT, _LABELS_FROM = 0.7, 0.75, 0.15, 0.28
_TITLE, _AXIS = 0.72, 0.55  # inches above and below a panel
_LABEL_GAP, _REMARK_GAP = 13.0, 10.0  # points
_LONGEST = 34  # characters of a label


def figure_of(
    results: pa.Table, metrics: Sequence[str] | None = None, highlight: Sequence[str] = ()
) -> Figure:
    """The figure: a row of panels for every study, a panel for every metric; without any, for the usual ones.

    The look does not depend on the reader's settings of matplotlib.
    """
    import matplotlib.style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    studies = [(Study.of(part), curves(part)) for part in separate(results)]
    if not any(found for _, found in studies):
        raise InvalidInput("there are no results to draw; every mechanism was skipped.")
    studies = [(study, found) for study, found in studies if found]
    if metrics is None:
        metrics = known_metrics([curve for _, found in studies for curve in found], HELD_OUT)
    with matplotlib.style.context(["default", _HOUSE]):
        figure = Figure()
        FigureCanvasAgg(figure)
        widths = [_label_width(figure, found) for _, found in studies]
        column = _PANEL[0] + _LABELS_FROM + max(widths)
        width = _LEFT + len(metrics) * column + (len(metrics) - 1) * _BETWEEN + _RIGHT
        rows = [_Row(study, found, looks(found, highlight), width) for study, found in studies]
        height = sum(row.height for row in rows)
        figure.set_size_inches(width, height)
        top = height
        for row in rows:
            for place, metric in enumerate(metrics):
                left = _LEFT + place * (column + _BETWEEN)
                below = top - _TITLE - row.panel_height
                box = (left / width, below / height, _PANEL[0] / width, row.panel_height / height)
                _panel(figure.add_axes(box), row.found, row.looks, metric)
            at: dict[str, Any] = {"x": 0.2 / width, "ha": "left"}
            figure.text(**at, y=(top - 0.12) / height, s=row.title, va="top", fontsize=12, fontweight="bold")
            note = (top - _TITLE - row.panel_height - _AXIS) / height
            figure.text(**at, y=note, s=row.note, va="top", fontsize=8, color=_GREY, linespacing=1.35)
            top -= row.height
    return figure


def save(figure: Figure, path: str | os.PathLike[str], format: str = "png") -> None:
    """Write a figure; the same figure gives the same bytes everywhere."""
    import matplotlib.style

    with matplotlib.style.context(["default", _HOUSE]):
        figure.savefig(path, format=format, metadata={"Software": None} if format == "png" else None)


def draw_curves(
    results: pa.Table, path: str | os.PathLike[str], metrics: Sequence[str] | None = None
) -> None:
    """Draw every contender into a PNG, as ``dperm.plot.curves`` does."""
    save(figure_of(results, metrics), path)


class _Row:
    """One study: its panels, the title above and the note below them."""

    def __init__(self, study: Study, found: Sequence[Curve], look: Sequence[Look], width: float) -> None:
        self.found, self.looks = found, look
        labels = sum(_label_height(curve) for curve, some in zip(found, look, strict=True) if _is_named(some))
        self.panel_height = max(_PANEL[1], labels / 72)  # room for every label beside the axes
        self.title = f"{study.dataset}: {study.loss} loss, n = {study.n_rows:,}, {study.n_features} features"
        split = "published split" if study.folds == 1 else f"{study.folds} folds"
        text = [
            f"Mean over {study.repeats} × {split}; bands: {error_in_words(study)}. δ = {study.delta:g}, "
            f"l2 = {l2_in_words(study.l2)}. An evaluation on held-out rows, not a private release."
        ]
        pale = [curve.label for curve, some in zip(found, look, strict=True) if not _is_named(some)]
        if pale:
            text.append(f"Pale grey: {', '.join(pale)}.")
        characters = int((width - 0.4) * 72 / (8 * 0.56))
        lines = [wrapped for one in text for wrapped in textwrap.wrap(one, characters)]
        self.note = "\n".join(lines)
        self.height = _TITLE + self.panel_height + _AXIS + len(lines) * 8 * 1.35 / 72 + 0.18


def _is_named(look: Look) -> bool:
    return look.colour is not None or look.kind == "baseline"


def _label_height(curve: Curve) -> float:
    return _LABEL_GAP + (_REMARK_GAP if remark(curve) else 0.0)


def _name(curve: Curve) -> str:
    name = display_name(curve)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _label_width(figure: Figure, found: Sequence[Curve]) -> float:
    """Inches that the longest label takes."""
    widest = 0.0
    for curve in found:
        for text, size in ((_name(curve), 9.5), (remark(curve), 7.5)):
            drawn = figure.text(0, 0, text, fontsize=size)
            widest = max(widest, drawn.get_window_extent().width / figure.dpi)
            drawn.remove()
    return widest


def _ink(look: Look) -> str:
    if look.kind == "baseline":
        return _GREY
    return _PALE if look.colour is None else _COLOURS[look.colour]


def _lighter(colour: str) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + 0.4 * (255 - part)):02X}" for part in parts)


def _style(look: Look) -> dict[str, Any]:
    ink = _lighter(_ink(look)) if look.kind == "paper" else _ink(look)
    style: dict[str, Any] = {"color": ink, "linestyle": _DASHES[look.kind]}
    if look.colour is None:
        return {
            **style,
            "linewidth": 1.0,
            "zorder": 1,
            **({} if look.kind == "baseline" else {"marker": "."}),
        }
    tight = look.kind in TIGHT
    style |= {"marker": _MARKERS[look.colour], "markerfacecolor": ink if tight else "white"}
    if look.kind == "default":
        style |= {"linewidth": 3.0, "markersize": 7.0}
    return {**style, "zorder": {"default": 4.0, "private": 3.0}.get(look.kind, 2.5)}


def _panel(axes: Axes, found: Sequence[Curve], look: Sequence[Look], metric: str) -> None:
    factor = METRICS[metric].factor
    drawn = [
        (curve, some, points)
        for curve, some in zip(found, look, strict=True)
        if (points := line(curve, metric, found)) is not None
    ]
    above = is_above_minimum(found, metric)
    axes.set_title(METRICS[metric].title + (", above the minimum (none)" if above else ""))
    if not drawn:
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", color=_GREY)
        axes.set_axis_off()
        return
    if above or metric == "noise_scale" or _is_wide([points for _, _, points in drawn], metric):
        axes.set_yscale("log")
    ends = []
    for curve, some, points in drawn:
        mean, error = factor * points.mean, factor * points.error
        style = _style(some)
        if some.kind == "baseline":
            axes.axhline(mean[-1], **{**style, "linewidth": 1.2})
        else:
            if some.colour is not None:
                _band(axes, points.epsilons, mean, error, _ink(some))
            axes.plot(points.epsilons, mean, **style)
        if _is_named(some):
            ends.append((float(mean[-1]), curve, some, style))
    _axes(axes, np.unique(np.concatenate([curve.epsilons for curve in found])))
    _label_ends(axes, ends)


def _is_wide(drawn: Sequence[Line], metric: str) -> bool:
    means = np.concatenate([points.mean for points in drawn])
    return METRICS[metric].better < 0 and means.min() > 0 and bool(means.max() > 20 * means.min())


def _band(
    axes: Axes,
    epsilons: NDArray[np.float64],
    mean: NDArray[np.float64],
    error: NDArray[np.float64],
    colour: str,
) -> None:
    error = np.nan_to_num(error)
    low = mean - error
    if axes.get_yscale() == "log":
        low = np.maximum(low, 0.3 * mean)  # a logarithm has no room for an error above the mean
    axes.fill_between(epsilons, low, mean + error, color=colour, alpha=0.16, linewidth=0)
    if len(mean) == 1:  # a band needs two points
        axes.vlines(epsilons, low, mean + error, color=colour, linewidth=1)


def _axes(axes: Axes, epsilons: NDArray[np.float64]) -> None:
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    low, high = axes.get_ylim()
    if axes.get_yscale() == "log":  # to whole powers of ten, so that there are two ticks at least
        low, high = 10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high))
    axes.set_ylim(low, high)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xlabel("ε (more privacy to the left)")


def _label_ends(axes: Axes, ends: Sequence[tuple[float, Curve, Look, dict[str, Any]]]) -> None:
    """Markers and names in a column right of the lines, pushed apart, each with a thin line to its end."""
    from matplotlib.transforms import blended_transform_factory

    box = axes.get_window_extent()
    points = 72 / axes.figure.dpi
    height, inch = box.height * points, axes.figure.dpi / box.width  # of the panel in points; in panel widths
    to_axes = axes.transData + axes.transAxes.inverted()
    wanted = np.array([to_axes.transform((1.0, value))[1] * height for value, _, _, _ in ends])
    sizes = np.array([_label_height(curve) for _, curve, _, _ in ends])
    placed = spread(wanted, gap=sizes, low=0.0, high=height)
    in_panel = blended_transform_factory(axes.transAxes, axes.transAxes)
    for (_, curve, look, style), at, target in zip(ends, placed / height, wanted / height, strict=True):
        free: dict[str, Any] = {"clip_on": False, "transform": in_panel}
        axes.plot(
            [1.0, 1 + 0.13 * inch, 1 + 0.2 * inch],
            [target, at, at],
            color=style["color"],
            linewidth=0.6,
            **free,
        )
        axes.plot([1 + 0.17 * inch], [at], **{**style, "linestyle": ""}, **free)
        name, more = _name(curve), remark(curve)
        text: dict[str, Any] = {"transform": in_panel, "fontsize": 9.5}
        weight = "bold" if look.kind == "default" else "normal"
        axes.text(
            1 + _LABELS_FROM * inch, at, name, va="bottom" if more else "center", fontweight=weight, **text
        )
        if more:
            axes.text(1 + _LABELS_FROM * inch, at, more, va="top", **{**text, "fontsize": 7.5}, color=_GREY)


def spread(
    wanted: NDArray[np.float64], *, gap: float | NDArray[np.float64], low: float, high: float
) -> NDArray[np.float64]:
    """Positions close to ``wanted``, in its order and apart, inside [low, high] if they fit.

    ``gap`` is the room of each: two neighbours are half the sum of theirs apart, or more.
    """
    order = np.argsort(wanted, kind="stable")
    room = np.broadcast_to(np.asarray(gap, dtype=np.float64), wanted.shape)[order]
    steps = np.concatenate([[0.0], np.cumsum((room[1:] + room[:-1]) / 2)])[: len(wanted)]
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
