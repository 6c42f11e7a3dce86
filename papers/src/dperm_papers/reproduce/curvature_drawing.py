"""Figures of curvature: measured beside published, and expected curvature over the noise scale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dperm.experiments.figures import save
from dperm.models.atomic import atomic_path
from dperm_papers.analysis.curvature import Curvature
from dperm_papers.reproduce.published import YU_TABLE2, off

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#5F5F5F"


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)


def draw_table(chosen: dict[str, Curvature], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.4), dpi=160)
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for place, (name, found) in enumerate(chosen.items()):
        there = YU_TABLE2[name]
        for ours, published, colour in (
            (found.average, there.average, _ORANGE),
            (found.minimum, there.minimum, _BLUE),
        ):
            axes.plot(place - 0.08, ours, "o", color=colour, markersize=7)
            axes.plot(place + 0.08, published, "D", color=colour, markerfacecolor="white", markersize=6.5)
            axes.annotate(
                f"{off(ours, published):+.1%}", (place + 0.16, ours), va="center", fontsize=8.5, color=_GREY
            )
    for label, colour in (("average", _ORANGE), ("minimum", _BLUE)):
        axes.plot([], [], "o", color=colour, label=f"{label}, ours")
        axes.plot([], [], "D", color=colour, markerfacecolor="white", label=f"{label}, published")
    axes.set_yscale("log")
    axes.set_xlim(-0.4, len(chosen) - 0.35)
    axes.set_xticks(range(len(chosen)), list(chosen))
    axes.set_ylabel("curvature")
    axes.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.1))
    _tidy(axes)
    _finish(figure, "Curvature of least squares on four sets", "Columns scaled as fits each set best.", path)


def _finish(figure: object, title: str, note: str, path: Path) -> None:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    figure.suptitle(title, x=0.015, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.015, 0.015, f"{note} NOT PRIVATE: measured on rows without noise.", fontsize=8, color=_GREY)
    figure.tight_layout(rect=(0, 0.035, 1, 0.98))
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def draw_expected(found: dict[str, Curvature], path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 7.2), dpi=160)
    FigureCanvasAgg(figure)
    for axes, (name, some) in zip(figure.subplots(2, 2, sharex=True).flat, found.items(), strict=False):
        scales = sorted(some.expected)
        axes.plot(
            scales,
            [some.expected[s] for s in scales],
            "-o",
            color=_BLUE,
            markersize=3.5,
            label="expected, ν(σ)",
        )
        axes.axhline(some.average, color=_ORANGE, linestyle="--", label="average")
        axes.axhline(some.minimum, color=_GREY, linestyle=":", label="minimum")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(name, loc="left", fontsize=11)
        axes.set_xlabel("σ, noise on each coordinate")
        axes.set_ylabel("curvature")
        axes.legend(frameon=False, fontsize=8.5, loc="center right")
        _tidy(axes)
    _finish(
        figure,
        "Expected curvature at zero weights",
        "σ is the noise of the iterate; the paper puts in that of the gradient, without the step size.",
        path,
    )
