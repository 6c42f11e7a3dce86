"""The figure of the comparison with other tools: AUC over epsilon, and time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.experiments.figures import save
from dperm.experiments.peers.catalogue import HERE, OURS
from dperm.experiments.reproduce.peers_tables import Cells, best_of, lines_of, mean_of
from dperm.experiments.style import MARKERS
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NOTE = (
    "Means over folds on held-out rows; of each other tool the setting that is best on the test rows, an oracle. "
    "Relations and δ differ: the tables say which."
)
_DRAWN = OURS.name
_OURS = {peer.name for peer in HERE}


def draw(cells: Cells, path: Path) -> Path:
    """A panel for each data set of classes, and one of times beside ours."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    classes = [cell for cell in cells if cell["task"] == "classes"]
    datasets = list(dict.fromkeys(cell["dataset"] for cell in classes))
    tools = [tool for tool in dict.fromkeys(cell["tool"] for cell in classes) if tool not in _OURS - {_DRAWN}]
    looks = {
        tool: {"color": PALETTE[k % len(PALETTE)], "marker": MARKERS[k % len(MARKERS)]}
        for k, tool in enumerate(tools)
    }
    figure = Figure(figsize=(4.2 * (len(datasets) + 1), 4.6), dpi=160)
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(datasets) + 1, squeeze=False)[0]
    for axes, dataset in zip(panels, datasets, strict=False):
        _over_epsilon(axes, dataset, [cell for cell in classes if cell["dataset"] == dataset], looks)
    _times(panels[-1], classes, looks)
    figure.suptitle(
        "Other tools on the same rows and folds", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    handles, names = panels[0].get_legend_handles_labels()
    figure.legend(
        handles, names, ncols=4, fontsize=8.5, frameon=False, loc="lower left", bbox_to_anchor=(0, 0.045)
    )
    figure.text(0.01, 0.015, NOTE, fontsize=8, color=GREY)
    figure.tight_layout(rect=(0, 0.15, 1, 0.97))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)
    return path


def _over_epsilon(axes: Axes, dataset: str, cells: Cells, looks: dict[str, dict[str, Any]]) -> None:
    by_tool: dict[str, dict[str, Any]] = {}
    for (tool, setting), mine in lines_of(cells).items():
        by_tool.setdefault(tool, {})[setting] = mine
    epsilons = sorted({cell["epsilon"] for cell in cells if cell["private"]})
    for tool, look in looks.items():
        settings = by_tool.get(tool, {})
        if settings:
            best = [best_of(settings, "auc", epsilon) for epsilon in epsilons]
            values = [
                mean_of(settings[name], "auc", epsilon) for name, epsilon in zip(best, epsilons, strict=True)
            ]
            axes.plot(epsilons, values, label=tool, linewidth=2.4 if tool == _DRAWN else 1.4, **look)
    level = mean_of([cell for cell in cells if not cell["private"]], "auc")
    if not np.isnan(level):
        axes.axhline(level, color=GREY, linestyle=":", label="scikit-learn, not private")
    axes.set_title(f"{dataset}: AUC", loc="left", fontsize=11)
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    axes.set_xlabel("ε (more privacy to the left)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)


def _times(axes: Axes, cells: Cells, looks: dict[str, dict[str, Any]]) -> None:
    """The time of a fit over that of ours just before it, setting by setting."""
    for (tool, _), mine in lines_of(cells).items():
        ratios = [cell["seconds"] / cell["ours_seconds"] for cell in mine if not cell["error"]]
        if ratios and tool in looks and tool != _DRAWN:
            place = list(looks)[::-1].index(tool)
            axes.plot(np.median(ratios), place, linestyle="", **looks[tool])
    axes.axvline(1.0, color=PALETTE[0], linewidth=2.4)
    axes.set_yticks(range(len(looks)), list(looks)[::-1])
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.minorticks_off()
    axes.set_title("time of a fit, over ours", loc="left", fontsize=11)
    axes.set_xlabel("times as long as dperm's default (log scale)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#E2E2E2", linewidth=0.6)
