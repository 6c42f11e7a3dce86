"""The tables of G. Zhang's course report (CS227r, Harvard 2017) on private SGD in the plane.

The report's programs are run again as simulations with numpy's noise. They are no mechanisms of this library and
release nothing; what they promise, and what they really cost, is in the tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from dperm.experiments.figures import save
from dperm.experiments.metrics import with_error
from dperm.experiments.results import mean_and_error
from dperm.models.atomic import atomic_path
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section
from dperm_papers.reproduce.published import REPORT_CONSTANTS, REPORT_TABLES, TEST_POINTS, PublishedAccuracy
from dperm_papers.reproduce.report_simulation import (
    BATCH,
    BEST_OF_GRID,
    CERTIFIED,
    DELTA,
    EPSILON,
    FULL,
    METHODS,
    NON_PRIVATE,
    OBJECTIVE,
    PLAIN,
    PRIVATE,
    QUICK,
    STUDY_ROWS,
    TRUE_LINE,
    TRUTH,
    Prices,
    Run,
    accuracies_of,
    by_constant,
    run_beside,
    run_programs,
    true_price,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

# Pictures of descent in the plane: the lines that were learned, accuracy and price over c squared, the animation.

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


# The report's tables with ours beside them, and what of it holds.

ERROR = "mean ± one standard error of the mean over runs"


def accuracy_section(setting: PublishedAccuracy, runs: Sequence[Run], prices: Prices) -> Section:
    published = dict(zip(METHODS, setting.correct, strict=True))
    row, batch = (prices[setting.n_rows, setting.constant, b] for b in (1, BATCH))
    really = {
        NON_PRIVATE: "none",
        PRIVATE: f"{row} (one row a step), {batch} (batches of {BATCH})",
        OBJECTIVE: "none proved",
        PLAIN: "none",
        **dict.fromkeys(CERTIFIED.values(), f"{EPSILON:g}"),
        BEST_OF_GRID: f"{EPSILON:g} and what the choice costs",
        TRUE_LINE: "-",
    }
    rows = []
    for method, epsilon in really.items():
        right = 100 * accuracies_of(runs, setting, method)
        there = f"{100 * published[method] / TEST_POINTS:.2f}" if method in published else "-"
        rows.append((method, with_error(*mean_and_error(right, np.arange(len(right))), 2), there, epsilon))
    kind = "noisy labels" if setting.noisy_labels else "labels by the line"
    return Section(
        title=f"accuracy, %, {ERROR}: n = {setting.n_rows}, {kind}, c² = {_fraction(setting.constant)}, "
        f"ε claimed {EPSILON:g}, δ = {DELTA:g}",
        columns=("method", "ours", "published", "ε really"),
        rows=tuple(rows),
    )


def threshold_section(runs: Sequence[Run]) -> Section:
    """The lines that were learned with n = 200, scaled to the constant of the true one."""
    rows = []
    for method in (*METHODS, *CERTIFIED.values()):
        for noisy in (False, True):
            mine = [
                run
                for run in runs
                if run.method == method and run.n_rows == 200 and run.noisy_labels == noisy
            ]
            weights = np.array([run.weights for run in mine])
            scaled = weights * (TRUTH[2] / weights[:, 2:])
            middle, spread = np.median(scaled, axis=0), np.subtract(*np.percentile(scaled, [75, 25], axis=0))
            cells = [f"{m:.2f} ({s:.2f})" for m, s in zip(middle[:2], spread[:2], strict=True)]
            rows.append((method, "noisy" if noisy else "by the line", *cells))
    return Section(
        title="learned thresholds, n = 200: w1·x1 + w2·x2 = 1.7, median (interquartile range) over runs; "
        "the true one is 2·x1 + x2 = 1.7",
        columns=("method", "labels", "w1", "w2"),
        rows=tuple(rows),
    )


def constant_section(runs: Sequence[Run], prices: Prices) -> Section:
    rows = []
    for constant, right in by_constant(runs).items():
        there = 100 * np.array(REPORT_CONSTANTS[constant]) / TEST_POINTS
        rows.append(
            (
                _fraction(constant),
                with_error(*mean_and_error(100 * right, np.arange(len(right))), 1, 1),
                f"{there.mean():.1f}",
                " ".join(f"{value:.1f}" for value in there),
                str(prices[STUDY_ROWS, constant, 1]),
                str(prices[STUDY_ROWS, constant, BATCH]),
            )
        )
    return Section(
        title=f"private SGD over c², n = 100, accuracy in %, {ERROR}; ε claimed {EPSILON:g} and δ = {DELTA:g} "
        "throughout",
        columns=(
            "c²",
            "ours",
            "published mean",
            "its three runs",
            "ε, one row a step",
            f"ε, batches of {BATCH}",
        ),
        rows=tuple(rows),
    )


def checks(runs: Sequence[Run], prices: Prices) -> list[Check]:
    checks = []
    for setting in REPORT_TABLES:
        plain, private = (accuracies_of(runs, setting, m) for m in (NON_PRIVATE, PRIVATE))
        published = np.array(setting.correct) / TEST_POINTS
        name = f"n = {setting.n_rows}, c² = {_fraction(setting.constant)}" + (
            ", noisy labels" if setting.noisy_labels else ""
        )
        bare = accuracies_of(runs, setting, PLAIN)
        checks.append(
            Check(
                claim=f"{name}: private SGD is below SGD without regulariser, which it lacks too "
                f"({100 * private.mean():.1f} against {100 * bare.mean():.1f} %)",
                holds=bool(bare.mean() > private.mean()),
            )
        )
        checks.append(
            Check(
                claim=f"{name}: private SGD is below SGD on average, as published ({100 * private.mean():.1f} against "
                f"{100 * plain.mean():.1f} %)",
                holds=bool(plain.mean() > private.mean()),
            )
        )
        low, high = private.min(), private.max()
        checks.append(
            Check(
                claim=f"{name}: the published run of private SGD ({100 * published[1]:.1f} %) lies within ours "
                f"({100 * low:.1f} to {100 * high:.1f} %)",
                holds=bool(low <= published[1] <= high),
            )
        )
    accuracy = by_constant(runs)
    first, last = min(accuracy), max(accuracy)
    checks.append(
        Check(
            claim=f"accuracy falls with c²: {100 * accuracy[first].mean():.0f} % at {_fraction(first)}, "
            f"{100 * accuracy[last].mean():.0f} % at {_fraction(last)}",
            holds=bool(accuracy[first].mean() > accuracy[last].mean() + 0.1),
        )
    )
    for batch, words in ((1, "one row a step"), (BATCH, f"batches of {BATCH}")):
        price = prices[200, 1 / 400, batch]
        checks.append(
            Check(
                claim=f"the setting of the report's tables (n = 200, c² = 1/400) has the ε = {EPSILON:g} it claims, "
                f"{words} (ε = {price})",
                holds=price.epsilon <= EPSILON,
            )
        )
    return checks


def _fraction(constant: float) -> str:
    return f"{constant:g}" if constant >= 1 else f"1/{round(1 / constant)}"


PAPER = "G. Zhang, Differentially private stochastic gradient descent, report of CS227r (Harvard 2017)"


def _report_tables(bench: Bench) -> Report:
    size = QUICK if bench.quick else FULL
    progress = bench.progress("descent, certified fits, accounting")
    progress(0, 4)
    runs: list[Run] = []
    for done, n_rows in enumerate(sorted({setting.n_rows for setting in REPORT_TABLES})):
        runs += run_programs(n_rows, size, bench.seed)
        progress(done + 1, 4)
    trajectories = _trajectories(runs)
    for setting in REPORT_TABLES:
        runs += run_beside(setting, [run for run in runs if run.fits(setting, NON_PRIVATE)], bench.seed)
    progress(3, 4)
    keys = {(run.n_rows, run.constant) for run in runs}
    prices = {(n, c, b): true_price(n, c, b, size.draws) for n, c in sorted(keys) for b in (1, BATCH)}
    progress(4, 4)
    files = [bench.folder / name for name in ("results.parquet", "figure.png", "learning.gif")]
    with atomic_path(files[0]) as unfinished:
        pq.write_table(pa.Table.from_pylist([run.row for run in runs]), unfinished)
    draw(trajectories, by_constant(runs), prices, files[1])
    animate(trajectories, files[2])
    return Report(
        sections=(
            *(accuracy_section(setting, runs, prices) for setting in REPORT_TABLES),
            threshold_section(runs),
            constant_section(runs, prices),
        ),
        checks=tuple(checks(runs, prices)),
        files=tuple(files),
    )


def _trajectories(runs: Sequence[Run]) -> Trajectories:
    """The first run of the first table."""
    first = {m: next(run for run in runs if run.fits(REPORT_TABLES[0], m)) for m in METHODS}
    some = first[PRIVATE]
    return Trajectories(
        truth=TRUTH, rows=some.points, labels=some.labels, paths={m: run.path for m, run in first.items()}
    )


ITEMS = {
    "report-tables": Item(
        name="report-tables",
        title="Private SGD in the plane: accuracy, learned thresholds, the constant c², and the ε really paid",
        paper=PAPER,
        run=_report_tables,
        published="Published accuracies, of one run or three, are in the tables; of the thresholds we have no numbers.",
        differs=(
            "Private SGD and 'objective perturbation' are simulations of the report's programs: step 0.2, "
            "batches of 20 without repetition, n² steps from (0, 1, -0.5), no projection, no regulariser in "
            "the private one. They are shown because they were published, not because they are private.",
            "ε really is for replace-one and gradients of norm up to √3, which rows (x1, x2, 1) have; the "
            "report's noise takes the norm to be 1. It drops the factor n² from noise and gradient alike, "
            "which changes nothing, and c² = 32 of Bassily, Smith & Thakurta for 1/400, which changes "
            "everything. δ = 0.1 is no protection by itself: a mechanism that publishes each row with "
            "probability 0.1 has it.",
            "Exact values come from privacy-loss distributions. Where ε is above 20 (≈) it is a Monte Carlo "
            "estimate from the same pair of distributions, since their composition on a grid takes minutes; "
            "its error is about 1 or 2 %.",
            "Whether the program for batches added its noise to the mean gradient, as here, or to each row, we "
            "do not know; for one row a step, as the report writes, the two are the same.",
            "'Objective perturbation' draws its noise anew at every step, from a direction that is not "
            "uniform, without the slack term: no theorem covers it, so it has no ε. 'objective, certified' is "
            "the mechanism meant.",
            "Noise at c² = 1/400 costs less than the regulariser of the non-private program does: where "
            "private SGD is ahead of SGD here, it is behind SGD without a regulariser. The published order "
            "rests on one run a method.",
            "The report's study of c² starts each c² at the weights of the one before; ours starts afresh.",
            "How the report made its labels noisy is not known: here the score gets normal noise of scale "
            "0.34, with which the true line is about as accurate as the report's best method. That the levels "
            "of this table agree is no evidence.",
        ),
    ),
}
