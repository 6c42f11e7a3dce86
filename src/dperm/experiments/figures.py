"""The privacy-utility figure in the house style: a panel per metric, one line per contender, one legend."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dperm.errors import InvalidInput
from dperm.experiments.metrics import HELD_OUT, METRICS
from dperm.experiments.panels import draw_panel, is_cropped
from dperm.experiments.results import Curve, Study, curves, separate
from dperm.experiments.series import (
    Look,
    display_name,
    error_in_words,
    known_metrics,
    line,
    looks,
    remark,
)
from dperm.experiments.style import GREY, HOUSE, is_pale, style
from dperm.planning.rules import l2_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PANEL = (3.9, 3.1)  # inches
_LEFT, _BETWEEN, _RIGHT = 0.62, 0.6, 0.15
_LEGEND_FROM, _SAMPLE = 0.22, 0.36
_TITLE, _AXIS = 0.72, 0.55  # inches above and below a panel
_ENTRY, _REMARK = 15.0, 10.0  # points
_LONGEST = 34  # characters of a label
_OTHERS = "the others, named below"


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


def draw_curves(
    results: pa.Table, path: str | os.PathLike[str], metrics: Sequence[str] | None = None
) -> None:
    """Draw every contender into a PNG, as ``dperm.plot.curves`` does."""
    save(figure_of(results, metrics), path)


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
        if any(is_cropped(self.found, self.looks, metric) for metric in self.metrics):
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
            draw_panel(figure.add_axes(box), self.found, self.looks, metric)
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
    entries = [(_shortened(", ".join(names)), more, some) for names, more, some, _ in named]
    pale = next((some for some in look if is_pale(some)), None)
    return entries if pale is None else [*entries, (_OTHERS, "", pale)]


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
