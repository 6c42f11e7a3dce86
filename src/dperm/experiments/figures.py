"""The privacy-utility figure in the house style: a panel per metric, one line per configuration, one legend."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dperm.errors import InvalidInput
from dperm.experiments.metrics import HELD_OUT, METRICS
from dperm.experiments.results import Curve, Study, curves, separate
from dperm.experiments.series import (
    TIGHT,
    Look,
    display_name,
    error_in_words,
    is_above_minimum,
    known_metrics,
    limit,
    line,
    looks,
    remark,
)
from dperm.planning.rules import l2_in_words
from dperm.render.style import FAINT, GREY, PALETTE
from dperm.render.text import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
PALE = "#B5B5B5"
HOUSE: dict[str, Any] = {
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
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.6,
    "lines.markersize": 4.6,
    "text.parse_math": False,
}
_DASHES: dict[str, Any] = {
    "default": "-",
    "private": "-",
    "paper": (0, (2, 1.5)),
    "oracle": (0, (6, 2)),
    "baseline": (0, (1, 1.5)),
}
_PANEL = (3.9, 3.1)  # inches
_LEFT, _BETWEEN, _RIGHT = 0.62, 0.6, 0.15
_LEGEND_FROM, _SAMPLE = 0.22, 0.36
_TITLE, _AXIS = 0.72, 0.55  # inches above and below a panel
_ENTRY, _REMARK = 15.0, 10.0  # points
_LONGEST = 34  # characters of a label
_OTHERS = "the others, named below"
_ROOM = 0.06  # of the drawn range, above and below it
_SAME_PLACE = 9.0  # points within which two labels would overlap
_NEXT = 6.0  # points from one arrow to the next


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
    with matplotlib.style.context(["default", HOUSE]):
        figure = Figure()
        FigureCanvasAgg(figure)
        rows = [_Row(study, found, looks(found, highlight), metrics) for study, found in studies]
        panels = len(metrics) * (_PANEL[0] + _BETWEEN) - _BETWEEN
        width = _LEFT + panels + _LEGEND_FROM + max(row.legend_width(figure) for row in rows) + _RIGHT
        for row in rows:
            row.write_note(width)
        figure.set_size_inches(width, sum(row.height for row in rows))
        top = figure.get_figheight()
        for row in rows:
            row.draw(figure, top)
            top -= row.height
    return figure


def save(figure: Figure, path: str | os.PathLike[str], format: str = "png") -> None:
    """Write a figure; the same figure gives the same bytes everywhere."""
    import matplotlib.style

    with matplotlib.style.context(["default", HOUSE]):
        figure.savefig(path, format=format, metadata={"Software": None} if format == "png" else None)


class _Row:
    """One study: its panels, the legend beside, the title above and the note below them."""

    def __init__(
        self, study: Study, found: Sequence[Curve], look: Sequence[Look], metrics: Sequence[str]
    ) -> None:
        self.study, self.found, self.looks, self.metrics = study, found, look, metrics
        self.entries = _entries(found, look, metrics)
        needed = sum(_ENTRY + (_REMARK if more else 0.0) for _, more, _ in self.entries)
        self.panel_height = max(_PANEL[1], needed / 72)
        self.note: list[str] = []

    @property
    def height(self) -> float:
        return _TITLE + self.panel_height + _AXIS + len(self.note) * 8 * 1.35 / 72 + 0.18

    def legend_width(self, figure: Figure) -> float:
        """Inches that the longest entry takes."""
        widest = 0.0
        for name, more, look in self.entries:
            for text, size in ((name, 9.5), (more, 7.5)):
                weight = "bold" if look.kind == "default" else "normal"
                drawn = figure.text(0, 0, text, fontsize=size, fontweight=weight)
                widest = max(widest, drawn.get_window_extent().width / figure.dpi)
                drawn.remove()
        return _SAMPLE + widest

    def write_note(self, width: float) -> None:
        """What must be known beside the lines, in so many inches."""
        study = self.study
        split = "published split" if study.folds == 1 else f"{study.folds} folds"
        text = [
            f"Mean over {study.repeats} × {split}; bands: {error_in_words(study)}. δ = {study.delta:g}, "
            f"l2 = {l2_in_words(study.l2)}. An evaluation on held-out rows, not a private release."
        ]
        lines = (one for metric in self.metrics for one in _lines(self.found, self.looks, metric))
        if any(one.beyond.any() for one in lines):
            text[0] += " Arrows: off the scale; the table has the values."
        pale = [curve.label for curve, look in zip(self.found, self.looks, strict=True) if is_pale(look)]
        if pale:
            text.append(f"Pale grey: {', '.join(pale)}.")
        characters = int((width - 0.4) * 72 / (8 * 0.56))
        self.note = [wrapped for one in text for wrapped in textwrap.wrap(one, characters)]

    def draw(self, figure: Figure, top: float) -> None:
        width, height = figure.get_size_inches()
        study, below = self.study, top - _TITLE - self.panel_height
        for place, metric in enumerate(self.metrics):
            left = _LEFT + place * (_PANEL[0] + _BETWEEN)
            box = (left / width, below / height, _PANEL[0] / width, self.panel_height / height)
            _draw_panel(figure.add_axes(box), self.found, self.looks, metric)
        at: dict[str, Any] = {"x": 0.2 / width, "ha": "left", "va": "top"}
        title = f"{study.dataset}: {study.loss} loss, n = {study.n_rows:,}, {study.n_features} features"
        figure.text(**at, y=(top - 0.12) / height, s=title, fontsize=12, fontweight="bold")
        note = "\n".join(self.note)
        figure.text(**at, y=(below - _AXIS) / height, s=note, fontsize=8, color=GREY, linespacing=1.35)
        self._draw_legend(figure, top - _TITLE)

    def _draw_legend(self, figure: Figure, top: float) -> None:
        from matplotlib.lines import Line2D

        width, height = figure.get_size_inches()
        left = _LEFT + len(self.metrics) * (_PANEL[0] + _BETWEEN) - _BETWEEN + _LEGEND_FROM
        for name, more, look in self.entries:
            centre = (top - _ENTRY / 144) / height
            ends = [left / width, (left + _SAMPLE - 0.1) / width]
            figure.add_artist(Line2D(ends, [centre, centre], **{**style(look), "marker": ""}))
            drawn = {**style(look), "linestyle": ""}
            figure.add_artist(Line2D([sum(ends) / 2], [centre], **drawn))
            text: dict[str, Any] = {"x": (left + _SAMPLE) / width}
            weight = "bold" if look.kind == "default" else "normal"
            figure.text(**text, y=centre, s=name, va="center", fontsize=9.5, fontweight=weight)
            top -= _ENTRY / 72
            if more:
                figure.text(**text, y=(top + 1 / 72) / height, s=more, va="top", fontsize=7.5, color=GREY)
                top -= _REMARK / 72


def _entries(
    found: Sequence[Curve], look: Sequence[Look], metrics: Sequence[str]
) -> list[tuple[str, str, Look]]:
    """Name, remark and look of all that have a colour, the best at the largest ε first; equal lines share an entry."""
    named: list[tuple[list[str], str, Look, list[Any]]] = []
    for curve, some in zip(found, look, strict=True):
        if some.colour is None:
            continue
        lines = [line(curve, metric, found) for metric in metrics]
        drawn = [None if one is None else one.mean.tolist() for one in lines]
        same = next((entry for entry in named if entry[3] == drawn), None)
        if same is None:
            named.append(([display_name(curve)], remark(curve), some, drawn))
        else:
            same[0].append(display_name(curve))
    better = METRICS[metrics[0]].better or 1
    named.sort(key=lambda entry: -better * entry[3][0][-1] if entry[3][0] else np.inf)
    entries = [(cut(", ".join(names), _LONGEST), more, some) for names, more, some, _ in named]
    pale = next((some for some in look if is_pale(some)), None)
    return entries if pale is None else [*entries, (_OTHERS, "", pale)]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Drawn:
    """A line in the units that are shown; ``beyond`` says which points are off the scale."""

    curve: Curve
    look: Look
    epsilons: Floats
    mean: Floats
    error: Floats
    beyond: NDArray[np.bool_]


def _draw_panel(axes: Axes, found: Sequence[Curve], looks: Sequence[Look], metric: str) -> None:
    """Draw the lines, a mark at the edge for what is beyond it, and the names of the baselines."""
    above = is_above_minimum(found, metric)
    axes.set_title("Objective, above the minimum (none)" if above else METRICS[metric].title)
    drawn = _lines(found, looks, metric)
    if not drawn:
        axes.text(0.5, 0.5, "nothing to draw", transform=axes.transAxes, ha="center", color=GREY)
        axes.set_axis_off()
        return
    epsilons = np.unique(np.concatenate([curve.epsilons for curve in found]))
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("ε (more privacy to the left)")
    if above or metric == "noise_scale":
        axes.set_yscale("log")
    for one in drawn:
        _draw(axes, one)
    _range(axes, drawn)
    down = METRICS[metric].better > 0
    _arrows(axes, [one for one in drawn if one.look.kind != "baseline"], down)
    _label_baselines(axes, drawn, down)


def _lines(found: Sequence[Curve], looks: Sequence[Look], metric: str) -> list[_Drawn]:
    better, factor = METRICS[metric].better, METRICS[metric].factor
    end = None if is_above_minimum(found, metric) else limit(found, looks, metric)
    lines = []
    for curve, look in zip(found, looks, strict=True):
        points = line(curve, metric, found)
        if points is not None:
            beyond = np.zeros(len(points.mean), bool) if end is None else better * points.mean < better * end
            lines.append(
                _Drawn(
                    curve=curve,
                    look=look,
                    epsilons=points.epsilons,
                    mean=factor * points.mean,
                    error=factor * np.nan_to_num(points.error),
                    beyond=beyond,
                )
            )
    return lines


def _draw(axes: Axes, one: _Drawn) -> None:
    look = style(one.look)
    if one.look.kind == "baseline":
        if not one.beyond.all():
            axes.axhline(one.mean[-1], **look)
        return
    if one.look.colour is not None:
        low = one.mean - one.error
        if axes.get_yscale() == "log":
            low = np.maximum(low, 0.3 * one.mean)  # a logarithm has no room for an error above the mean
        colour = ink(one.look)
        axes.fill_between(one.epsilons, low, one.mean + one.error, color=colour, alpha=0.16, linewidth=0)
        if len(one.mean) == 1:  # a band needs two points
            axes.vlines(one.epsilons, low, one.mean + one.error, color=colour, linewidth=1)
    axes.plot(one.epsilons, one.mean, **look)


def _range(axes: Axes, drawn: Sequence[_Drawn]) -> None:
    """From the least to the largest mean that is on the scale; on a logarithm to whole powers of ten."""
    shown = np.concatenate([one.mean[~one.beyond] for one in drawn])
    low, high = float(shown.min()), float(shown.max())
    if axes.get_yscale() == "log":
        axes.set_ylim(10 ** np.floor(np.log10(low)), 10 ** np.ceil(np.log10(high) + 1e-9))
    else:
        room = _ROOM * (high - low) or 0.02 * abs(high) or 1.0
        axes.set_ylim(low - 1.5 * room, high + 1.5 * room)
        axes.locator_params(axis="y", nbins=6)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")


def _arrows(axes: Axes, drawn: Sequence[_Drawn], down: bool) -> None:
    """A mark on the edge of the panel for every point beyond it, side by side; the grey ones share theirs."""
    from matplotlib.transforms import ScaledTranslation

    named = [one for one in drawn if not is_pale(one.look)]
    pale = [one for one in drawn if is_pale(one.look)]
    marked: dict[float, list[str]] = {}
    for one in sorted(named, key=lambda one: float(one.mean[0]), reverse=True):
        for epsilon in one.epsilons[one.beyond].tolist():
            marked.setdefault(epsilon, []).append(style(one.look)["color"])
    for epsilon in sorted({epsilon for one in pale for epsilon in one.epsilons[one.beyond].tolist()}):
        marked.setdefault(epsilon, []).append(PALE)
    for epsilon, colours in marked.items():
        for place, colour in enumerate(colours):
            across = (place - (len(colours) - 1) / 2) * _NEXT / 72
            moved = axes.get_xaxis_transform() + ScaledTranslation(across, 0, axes.figure.dpi_scale_trans)
            axes.plot(
                [epsilon],
                [0.0 if down else 1.0],
                marker="v" if down else "^",
                color=colour,
                markersize=5.5,
                clip_on=False,
                transform=moved,
                zorder=5,
            )


def _label_baselines(axes: Axes, drawn: Sequence[_Drawn], down: bool) -> None:
    """Names on the dotted lines, at the end where more room is; those of one place share a label."""
    from matplotlib.patheffects import withStroke

    height = axes.get_window_extent().height * 72 / axes.figure.dpi
    to_panel = axes.transData + axes.transAxes.inverted()

    def place(value: float) -> float:
        return float(to_panel.transform((axes.get_xlim()[0], value))[1]) * height

    curves = [one for one in drawn if one.look.kind != "baseline"]
    labels: list[tuple[float, list[str]]] = []
    off: list[str] = []
    for one in drawn:
        if one.look.kind != "baseline":
            continue
        if one.beyond.all():
            off.append(f"{'↓' if down else '↑'} {display_name(one.curve)} {one.mean[-1]:.3g}")
            continue
        at = place(float(one.mean[-1]))
        near = next((names for other, names in labels if abs(other - at) < _SAME_PLACE), None)
        if near is None:
            labels.append((at, [display_name(one.curve)]))
        else:
            near.append(display_name(one.curve))
    halo = [withStroke(linewidth=2.5, foreground="white")]
    text: dict[str, Any] = {"transform": axes.transAxes, "fontsize": 7.5, "color": GREY, "zorder": 6}
    text["path_effects"] = halo
    for at, names in labels:
        room = [
            min((abs(place(float(one.mean[side])) - at - 5) for one in curves), default=1.0)
            for side in (0, -1)
        ]
        left = room[0] >= room[1]
        axes.text(
            0.012 if left else 0.988,
            (at + 1.5) / height,
            f"{', '.join(names)} (not private)",
            ha="left" if left else "right",
            va="bottom",
            **text,
        )
    if off:
        axes.text(
            0.988, 0.02 if down else 0.98, ", ".join(off), ha="right", va="bottom" if down else "top", **text
        )


def is_pale(look: Look) -> bool:
    """Whether a configuration has neither a colour nor a name in the figure."""
    return look.colour is None and look.kind != "baseline"


def ink(look: Look) -> str:
    if look.kind == "baseline":
        return GREY
    return PALE if look.colour is None else PALETTE[look.colour]


def style(look: Look) -> dict[str, Any]:
    """How a configuration's line is drawn."""
    colour = _lighter(ink(look)) if look.kind == "paper" else ink(look)
    found: dict[str, Any] = {"color": colour, "linestyle": _DASHES[look.kind]}
    if look.colour is None:
        marker = {} if look.kind == "baseline" else {"marker": ".", "markersize": 3.0}
        return {**found, "linewidth": 1.2 if look.kind == "baseline" else 0.8, "zorder": 1, **marker}
    found |= {"marker": MARKERS[look.colour], "markerfacecolor": colour if look.kind in TIGHT else "white"}
    if look.kind == "default":
        found |= {"linewidth": 3.0, "markersize": 7.0}
    return {**found, "zorder": {"default": 4.0, "private": 3.0}.get(look.kind, 2.5)}


def _lighter(colour: str) -> str:
    parts = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + 0.4 * (255 - part)):02X}" for part in parts)
