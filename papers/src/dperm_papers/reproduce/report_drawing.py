"""Pictures of descent in the plane: the lines that were learned, accuracy and price over c squared, the animation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from dperm.experiments.figures import save
from dperm.experiments.series import mean_and_error
from dperm.models.atomic import atomic_path
from dperm_papers.reproduce.published import REPORT_CONSTANTS, TEST_POINTS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

Array = NDArray[np.float64]

_BLUE, _ORANGE, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#5F5F5F"
FRAME, LAST_FRAME = 125, 1125  # milliseconds of the animation
_LINES = ((_GREEN, "-"), (_ORANGE, "--"), (_BLUE, "-."))


class HasEpsilon(Protocol):
    @property
    def epsilon(self) -> float: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class Trajectories:
    """Points, labels, and the weights of each method after some numbers of steps."""

    truth: Array
    rows: Array
    labels: Array
    paths: Mapping[str, list[tuple[int, Array]]]


def draw(
    trajectories: Trajectories,
    accuracy: Mapping[float, Array],
    prices: Mapping[tuple[int, float, int], HasEpsilon],
    path: Path,
) -> None:
    """The learned lines, accuracy over c squared with the published runs, and epsilon over c squared."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14.4, 5.2), dpi=160)
    FigureCanvasAgg(figure)
    plane, right, cost = figure.subplots(1, 3)
    _plane(plane, trajectories)
    plane.set_title("Learned thresholds, n = 200, c² = 1/400", loc="left", fontsize=11)
    for (name, steps), (colour, style) in zip(trajectories.paths.items(), _LINES, strict=True):
        plane.plot(*_line(steps[-1][1]), color=colour, linestyle=style, linewidth=1.8, label=name)
    plane.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.13))

    constants = sorted(accuracy)
    found = [mean_and_error(100 * accuracy[c], np.arange(len(accuracy[c]))) for c in constants]
    mean, error = np.array(found).T
    right.fill_between(
        constants, mean - error, np.minimum(mean + error, 100), color=_BLUE, alpha=0.16, linewidth=0
    )
    right.plot(constants, mean, "-o", color=_BLUE, markersize=4.6, label="ours, mean ± one standard error")
    there = [(c, 100 * correct / TEST_POINTS) for c in constants for correct in REPORT_CONSTANTS[c]]
    right.plot(*zip(*there, strict=True), "x", color=_ORANGE, markersize=6, label="published, three runs")
    right.set_title("Private SGD: accuracy on 5,000 points, %", loc="left", fontsize=11)

    for (batch, words), (colour, style) in zip(
        ((1, "one row a step"), (20, "batches of 20")), _LINES, strict=False
    ):
        points = [(c, prices[100, c, batch].epsilon) for c in constants if prices[100, c, batch].epsilon > 0]
        cost.plot(
            *zip(*points, strict=True), color=colour, linestyle=style, marker="o", markersize=4.6, label=words
        )
    cost.axhline(1.0, color=_GREY, linestyle=":", linewidth=1.6, label="claimed: ε = 1")
    cost.set_yscale("log")
    cost.set_title("ε really paid at δ = 0.1 (left out where it is 0)", loc="left", fontsize=11)
    for axes in (right, cost):
        axes.set_xscale("log")
        axes.set_xlim(constants[0] / 1.5, constants[-1] * 1.5)
        axes.set_xlabel("c² (more noise to the right)")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
        axes.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.13))
    right.set_ylim(0, 103)
    figure.suptitle("Private SGD in the plane", x=0.01, ha="left", fontsize=13, fontweight="bold")
    note = "n = 100 for the curves. Simulations of published programs, not private releases."
    figure.text(0.01, 0.012, note, fontsize=8.5, color=_GREY)
    figure.tight_layout(rect=(0, 0.035, 1, 0.98), w_pad=2.5)
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def animate(trajectories: Trajectories, path: Path) -> None:
    """The lines as they move, at geometrically spaced numbers of steps; a GIF."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from PIL import Image

    figure = Figure(figsize=(8, 8.4), dpi=80)
    canvas = FigureCanvasAgg(figure)
    first, *panels = figure.subplots(2, 2).flat
    _plane(first, trajectories)
    first.set_title("the points and the true line", loc="left", fontsize=11)
    lines: list[Line2D] = []
    for axes, name, (colour, _) in zip(panels, trajectories.paths, _LINES, strict=True):
        _plane(axes, trajectories)
        axes.set_title(name, loc="left", fontsize=11)
        lines += axes.plot([], [], color=colour, linewidth=2.4)
    title = figure.suptitle("", x=0.02, ha="left", fontsize=13, fontweight="bold")
    figure.tight_layout(rect=(0, 0, 1, 0.96))
    steps = [step for step, _ in next(iter(trajectories.paths.values()))]
    frames = []
    for place, step in enumerate(steps):
        for line, weights in zip(lines, trajectories.paths.values(), strict=True):
            line.set_data(*_line(weights[place][1]))
        title.set_text(f"after {step:,} of {steps[-1]:,} steps")
        canvas.draw()
        frames.append(Image.fromarray(np.array(canvas.buffer_rgba())).convert("RGB"))
    shown = [FRAME] * (len(frames) - 1) + [LAST_FRAME]
    with atomic_path(path) as unfinished:
        frames[0].save(
            unfinished, format="GIF", save_all=True, append_images=frames[1:], duration=shown, loop=0
        )


def _plane(axes: Axes, trajectories: Trajectories) -> None:
    above = trajectories.labels > 0
    for mine, marker, colour in ((above, "o", _BLUE), (~above, "^", _ORANGE)):
        axes.plot(
            *trajectories.rows[mine, :2].T, marker, color=colour, alpha=0.45, markersize=4, markeredgewidth=0
        )
    axes.plot(*_line(trajectories.truth), color="black", linewidth=1.2, label="true line")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal", xlabel="x1", ylabel="x2")
    axes.spines[["top", "right"]].set_visible(False)


def _line(weights: Array) -> tuple[Array, Array]:
    """Two points far apart on w1·x1 + w2·x2 + w3 = 0, whatever its slope."""
    normal, away = weights[:2], float(np.linalg.norm(weights[:2]))
    foot = -weights[2] * normal / away**2
    along = np.array([-normal[1], normal[0]]) / away
    ends = np.stack([foot - 3 * along, foot + 3 * along])
    return ends[:, 0], ends[:, 1]
