"""The figure of the front page: accuracy over ε of the default, of the model without privacy, and once of RSGD-AR.

``python tools/front_figure.py`` draws docs/_static/front-PANEL-THEME.svg from docs/data: the bundled census table
(demo.parquet, what ``make demo`` writes), and the mean over the tables with two classes of ``dperm reproduce defaults``
(defaults.parquet). The digest of both files goes into the pictures, so that a test can tell whether they were drawn
from them.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from dperm.experiments.results import Study, curves, mean_and_error
from dperm_papers.pages.cells import Number
from dperm_papers.pages.files import read

DATA = Path(__file__).resolve().parents[1] / "docs" / "data"
STATIC = DATA.parent / "_static"
DEFAULT, RIVAL, NONE = "dperm, the default", "RSGD-AR (2019), by our rule", "not private"
IN_DEMO = {DEFAULT: "auto", RIVAL: "rsgd-ar", NONE: "none"}
IN_STUDY = {DEFAULT: "default", NONE: "none"}
FILES = ("demo.parquet", "defaults.parquet")


@dataclass(frozen=True)
class Line:
    epsilons: tuple[float, ...]
    accuracy: tuple[float, ...]  # in %
    error: tuple[float, ...] = ()


@dataclass(frozen=True)
class Theme:
    ink: str
    dim: str
    grid: str
    colours: Mapping[str, str]


THEMES = {
    "light": Theme("#1b1b1b", "#5f5f5f", "#e4e4e4", {DEFAULT: "#0067A8", RIVAL: "#C4540A", NONE: "#5f5f5f"}),
    "dark": Theme("#e6e6e6", "#a9a9a9", "#3a3d40", {DEFAULT: "#6CB8F2", RIVAL: "#F09A5B", NONE: "#a9a9a9"}),
}
MARKERS = {DEFAULT: "o", RIVAL: "s", NONE: ""}


def on_adult(folder: Path = DATA) -> tuple[dict[str, Line], str]:
    results = pq.read_table(folder / "demo.parquet")
    study = Study.of(results)
    found = {curve.label: curve for curve in curves(results)}
    lines = {}
    for shown, label in IN_DEMO.items():
        curve = found[label]
        means = [
            mean_and_error(100 * values, runs[:, 0])
            for values, runs in zip(curve.accuracy, curve.runs, strict=True)
        ]
        lines[shown] = Line(
            tuple(curve.epsilons.tolist()),
            tuple(mean for mean, _ in means),
            tuple(error for _, error in means),
        )
    return lines, f"A census table, {study.n_rows:,} people"


def on_all(folder: Path = DATA) -> tuple[dict[str, Line], str]:
    ((name, table),) = (
        found
        for found in read(folder / "defaults.parquet").tables.items()
        if found[0].startswith("mean-over-")
    )
    epsilons = tuple(float(heading.removeprefix("ε = ")) for heading in table.headings[1:])
    rows = {str(row[0]): row[1:] for row in table.rows}
    lines = {
        shown: Line(epsilons, tuple(cell.number for cell in rows[label] if isinstance(cell, Number)))
        for shown, label in IN_STUDY.items()
    }
    return lines, f"Mean over {name.split('-')[2]} public tables"


PANELS = {"adult": on_adult, "all": on_all}


def digest(folder: Path = DATA) -> str:
    found = hashlib.sha256()
    for name in FILES:
        found.update((folder / name).read_bytes())
    return found.hexdigest()


def draw(found: tuple[dict[str, Line], str], theme: Theme, path: Path) -> None:
    house: dict[str, Any] = {
        "font.size": 10.5,
        "text.color": theme.ink,
        "axes.labelcolor": theme.dim,
        "axes.edgecolor": theme.dim,
        "xtick.color": theme.dim,
        "ytick.color": theme.dim,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "svg.hashsalt": "dperm",
    }
    with style.context(["default", house]):
        figure = Figure(figsize=(4.8, 3.7))
        FigureCanvasSVG(figure)
        figure.patch.set_alpha(0)
        axes = figure.subplots()
        _panel(axes, *found, theme)
        figure.tight_layout()
        metadata = {"Date": None, "Description": f"drawn from docs/data: {digest()}"}
        figure.savefig(path, format="svg", transparent=True, metadata=metadata)


def _panel(axes: Axes, lines: Mapping[str, Line], title: str, theme: Theme) -> None:
    axes.set_title(title, loc="left", fontsize=11.5, fontweight="bold", color=theme.ink)
    axes.grid(axis="y", color=theme.grid, linewidth=0.7)
    axes.set_axisbelow(True)
    axes.patch.set_alpha(0)
    for name, line in lines.items():
        colour = theme.colours[name]
        private = name != NONE
        if line.error and private:
            low = np.array(line.accuracy) - line.error
            axes.fill_between(
                line.epsilons, low, np.array(line.accuracy) + line.error, color=colour, alpha=0.2, linewidth=0
            )
        axes.plot(
            line.epsilons,
            line.accuracy,
            color=colour,
            marker=MARKERS[name],
            linestyle="-" if private else "--",
            linewidth=2.6 if name == DEFAULT else 1.8,
            markersize=6,
        )
        _name(axes, name, line, colour)
    epsilons = lines[DEFAULT].epsilons
    axes.set_xscale("log")
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    axes.xaxis.minorticks_off()
    axes.margins(y=0.12)
    axes.set_xlabel("ε: more privacy to the left")
    axes.set_ylabel("accuracy on held-out rows, %")


def _name(axes: Axes, name: str, line: Line, colour: str) -> None:
    """The name beside its line, where the lines are apart: near the left for both private ones."""
    if name == NONE:
        axes.annotate(
            name, (line.epsilons[0], line.accuracy[0]), (0, 5), textcoords="offset points", color=colour
        )
        return
    place = 1
    offset = (8, -14) if name == DEFAULT else (8, -13)
    weight = "bold" if name == DEFAULT else "normal"
    axes.annotate(
        name,
        (line.epsilons[place], line.accuracy[place]),
        offset,
        textcoords="offset points",
        color=colour,
        fontweight=weight,
    )


if __name__ == "__main__":
    for panel, found in PANELS.items():
        for name, theme in THEMES.items():
            draw(found(), theme, STATIC / f"front-{panel}-{name}.svg")
