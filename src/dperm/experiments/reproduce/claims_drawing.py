"""Claimed and real ε of published noise, on one line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dperm.experiments.figures import save
from dperm.experiments.reproduce.claims_code import Mistake
from dperm.experiments.reproduce.claims_printed import AT, Printed
from dperm.experiments.style import HOUSE
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KEPT, BROKEN = PALETTE[0], PALETTE[1]
TICKS = (1, 10, 100, 1_000, 10_000, 100_000)
BEYOND = 6e5
"""Times the claim: where costs without a bound are drawn."""
_NOTE = (
    "Blue: costs no more than is claimed. Orange: more. Hollow: the noise is printed for add-remove, and a row is "
    "replaced."
)


def draw(printed: Sequence[Printed], mistakes: Sequence[Mistake], path: Path) -> None:
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(HOUSE):
        height = 2.1 + 0.21 * (len(printed) + len(mistakes))
        figure = Figure(figsize=(8.6, height))
        FigureCanvasAgg(figure)
        above, below = figure.subplots(2, 1, height_ratios=[len(printed), len(mistakes)])
        _names(above, "the noise that papers print, where ε = 1 is claimed", [one.label for one in printed])
        for place, one in enumerate(printed):
            cost = one.costs[AT]
            if cost is not None:
                _dot(above, place, cost / AT)
            if cost != one.replaced:
                _dot(above, place, one.replaced / AT, hollow=True)
        above.set_xlim(0, 2.05)
        above.set_xlabel("real ε")
        _names(below, "code, and formulas outside their conditions", [one.name for one in mistakes])
        for place, mistake in enumerate(mistakes):
            shown = f"{mistake.shown} for {mistake.claimed:g}"
            _dot(below, place, min(mistake.cost / mistake.claimed, BEYOND), shown)
        below.set_xscale("log")
        below.set_xlim(0.3, 3e7)
        below.set_xticks(TICKS, [f"{tick:,}" for tick in TICKS])
        below.xaxis.minorticks_off()
        below.set_xlabel("real ε over the claimed ε")
        figure.text(0.01, 0.08 / height, _NOTE, fontsize=8, color=GREY)
        figure.suptitle(
            "What published noise really costs", x=0.01, ha="left", fontsize=13, fontweight="bold"
        )
        figure.tight_layout(rect=(0, 0.25 / height, 1, 1 - 0.05 / height))
        with atomic_path(path) as unfinished:
            save(figure, unfinished)


def _names(axes: Axes, title: str, names: Sequence[str]) -> None:
    axes.set_title(title)
    axes.axvline(1.0, color=GREY, linewidth=1.0, linestyle="--", zorder=1)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)


def _dot(axes: Axes, place: int, times: float, shown: str = "", hollow: bool = False) -> None:
    colour = KEPT if times <= 1 else BROKEN
    inside, marker = "white" if hollow else colour, ">" if times == BEYOND else "o"
    axes.plot(times, place, marker, color=colour, markerfacecolor=inside, markersize=6)
    if shown:
        at = (times, place)
        axes.annotate(
            shown, at, (7, 0), textcoords="offset points", va="center_baseline", fontsize=8, color=GREY
        )
