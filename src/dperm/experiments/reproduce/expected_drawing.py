"""The figure of ``plan``: every cell of the study, the curves and their bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from dperm.experiments.figures import save
from dperm.models.atomic import atomic_path
from dperm.planning.outlook import LossCurve

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TITLES = {
    "accuracy": "accuracy, points",
    "auc": "area under the ROC curve, points",
    "r2": "R², points",
}
_TWO, _MORE, _GREY = "#0072B2", "#D55E00", "#5F5F5F"
_TICKS = (0.3, 1, 3, 10, 30, 100)


def draw(rows: Sequence[Mapping[str, str]], curves: Sequence[LossCurve], path: Path) -> None:
    """A panel for each metric, losses in points (hundredths) on the scale of the curve."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.3 * len(curves), 4.4), dpi=160)
    FigureCanvasAgg(figure)
    for axes, curve in zip(figure.subplots(1, len(curves), squeeze=False)[0], curves, strict=True):
        _panel(axes, curve, [row for row in rows if row[curve.metric]])
    figure.suptitle(
        "What the default loses to the model without noise", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    note = (
        "A point is a public table at one number of rows and one ε, mean over the runs. Bands: 8 of 10 tables that "
        "were left out of the fit. Curves: two classes."
    )
    figure.text(0.01, 0.02, note, fontsize=8.5, color=_GREY)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def _panel(axes: Axes, curve: LossCurve, rows: Sequence[Mapping[str, str]]) -> None:
    from matplotlib.ticker import NullLocator

    several = max(int(row["outputs"]) for row in rows) > 1
    for outputs, colour, label in ((1, _TWO, "two classes"), (0, _MORE, "more classes")):
        mine = [row for row in rows if (int(row["outputs"]) == 1) == bool(outputs)]
        axes.plot(
            [float(row["level"]) for row in mine],
            [100 * float(row[curve.metric]) for row in mine],
            "o",
            color=colour,
            alpha=0.35,
            markersize=3,
            markeredgewidth=0,
            label=label if several else None,
        )
    levels = np.geomspace(*curve.studied["level"], 100)
    found = [curve(float(level)) for level in levels]
    low, high = ([100 * getattr(one, name) for one in found] for name in ("low", "high"))
    axes.fill_between(levels, low, high, color=_TWO, alpha=0.13, linewidth=0)
    axes.plot(levels, [100 * one.expected for one in found], color=_TWO, linewidth=2)
    axes.set_xscale("log")
    axes.set_yscale("asinh", linear_width=100 * curve.scale)
    ticks = [0, *(tick for tick in _TICKS if tick >= 99 * curve.scale)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_ylim(-1, 130)
    axes.set_title(f"{_TITLES[curve.metric]}: {curve.sets} tables", loc="left", fontsize=10.5)
    axes.set_xlabel("noise level √p / (n μ)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    if several:
        axes.legend(frameon=False, fontsize=8.5, loc="upper left")
