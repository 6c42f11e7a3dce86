"""Both tables of utility bounds as curves over epsilon, rows and coefficients. Orders of growth, not predictions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from dperm.experiments.figures import save
from dperm.models.atomic import atomic_path
from dperm_papers.analysis.bounds import BOUNDS, Setting, utility_bounds
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABEL = "constants dropped; not predictions"
CASES = {"convex": "convex", "strongly_convex": "strongly convex"}
LOWER = "lower bound"
ASSUME_NU = ("dp-gd", "dp-sgd")
"""Their bounds hold where the expected curvature is nu, and not for every convex problem as the lower bound does."""
ASIDE = {"convex": ", those that assume ν aside,", "strongly_convex": ""}

# nu is an assumption for the picture: twenty times the strong convexity.
REFERENCE = Setting(n_rows=50_000, dimension=50, epsilon=1.0, strong_convexity=1e-3, expected_curvature=2e-2)
AXES: Mapping[str, tuple[float, ...]] = {
    "epsilon": (0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0),
    "n_rows": (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    "dimension": (1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000),
}
WORDS = {"epsilon": "ε", "n_rows": "rows, n", "dimension": "coefficients, p"}
POWERS = {"epsilon": (1.0, 2.0), "n_rows": (50_000, 100_000), "dimension": (50, 100)}

Curves = dict[str, list[tuple[float, float]]]


def at(axis: str, value: float) -> Setting:
    """The reference with one quantity changed."""
    if axis == "epsilon":
        return replace(REFERENCE, epsilon=value)
    return (
        replace(REFERENCE, n_rows=int(value))
        if axis == "n_rows"
        else replace(REFERENCE, dimension=int(value))
    )


def curves(case: str, axis: str) -> Curves:
    """The bound of every method that has one, as points."""
    found: Curves = {}
    for value in AXES[axis]:
        for name, bound in _values(case, at(axis, value)).items():
            found.setdefault(name, []).append((float(value), bound))
    return found


def _values(case: str, setting: Setting) -> dict[str, float]:
    table: Mapping[str, float | None] = getattr(utility_bounds(setting), case)
    return {name: value for name, value in table.items() if value is not None}


def power(case: str, axis: str, name: str) -> float:
    """d log(bound) / d log(axis) between the reference and twice that."""
    low, high = POWERS[axis]
    there, here = (_values(case, at(axis, value))[name] for value in (high, low))
    return math.log(there / here) / math.log(high / low)


def _bounds(bench: Bench) -> Report:
    figure, path = bench.folder / "figure.png", bench.folder / "bounds.parquet"
    rows = [
        {"case": CASES[case], "axis": axis, "value": value, "method": name, "bound": bound, "label": LABEL}
        for case in CASES
        for axis in AXES
        for name, points in curves(case, axis).items()
        for value, bound in points
    ]
    with atomic_path(path) as unfinished:
        pq.write_table(pa.Table.from_pylist(rows), unfinished)
    _draw(figure)
    return Report(
        sections=tuple(_section(case) for case in CASES), checks=tuple(_checks()), files=(path, figure)
    )


def _section(case: str) -> Section:
    values = _values(case, REFERENCE)
    rows = [
        (
            name,
            f"{value:.2g}",
            *(f"{power(case, axis, name):+.2f}" for axis in AXES),
            BOUNDS[name].source,
            BOUNDS[name].note or "-",
        )
        for name, value in sorted(values.items(), key=lambda item: item[1])
    ]
    return Section(
        title=f"excess risk, {CASES[case]} ({LABEL}): value at the reference, and the power with which it grows",
        columns=(
            "method",
            "value",
            *(f"in {WORDS[axis].split(', ')[-1]}" for axis in AXES),
            "source",
            "note",
        ),
        rows=tuple(rows),
    )


def _checks() -> list[Check]:
    checks = []
    for case, words in CASES.items():
        below = sorted(
            {
                name
                for axis in AXES
                for value in AXES[axis]
                for found in (_values(case, at(axis, value)),)
                for name, bound in found.items()
                if bound < found[LOWER] * (1 - 1e-12) and not (case == "convex" and name in ASSUME_NU)
            }
        )
        named = f" (below it somewhere: {', '.join(below)})" if below else ""
        checks.append(
            Check(
                claim=f"{words}: no bound{ASIDE[case]} is below the lower bound on these axes{named}",
                holds=not below,
            )
        )
    strong = _values("strongly_convex", REFERENCE)
    checks.append(
        Check(
            claim="strongly convex: DP-GD of Yu et al. is below GD of Jayaraman et al. and output perturbation at the "
            "reference, as it must be for ν far above μ",
            holds=strong["dp-gd"] < min(strong["gd"], strong["output-gd"]),
        )
    )
    checks.append(
        Check(
            claim="strongly convex: DP-SGD of Yu et al. is below SGD of Bassily et al. at the reference, likewise",
            holds=strong["dp-sgd"] < strong["psgd"],
        )
    )
    return checks


# Okabe and Ito's palette without its yellow, and wine; a method has its colour in all panels.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#999933")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_GREY = "#5F5F5F"


def together(found: Curves) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """Methods with the same curve as one, so that no line hides another."""
    groups: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for name, points in found.items():
        same = next((names for names, other in groups.items() if _equal(points, other)), ())
        groups.pop(same, None)
        groups[(*same, name)] = points
    return groups


def _equal(one: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> bool:
    return all(math.isclose(a[1], b[1], rel_tol=1e-9) for a, b in zip(one, other, strict=True))


def _draw(path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 10.4), dpi=140)
    FigureCanvasAgg(figure)
    grid = figure.subplots(2, 3, sharey="row")
    for row, (case, words) in zip(grid, CASES.items(), strict=True):
        for axes, axis in zip(row, AXES, strict=True):
            _panel(axes, case, axis)
            axes.set_title(f"{words}, over {WORDS[axis]}", loc="left", fontsize=11)
        row[0].set_ylabel("bound on the excess risk")
    figure.suptitle(
        f"Utility bounds of the literature: {LABEL}", x=0.01, ha="left", fontsize=13, fontweight="bold"
    )
    s = REFERENCE
    note = (
        f"Unless on the axis: n = {s.n_rows:,}, p = {s.dimension}, ε = {s.epsilon:g}; strong convexity "
        f"{s.strong_convexity:g}, smoothness {s.smoothness:g}, expected curvature {s.nu:g} (assumed). "
        "ln(1/δ) left out as in the tables. Only slopes and how lines move against each other have a meaning."
    )
    figure.text(0.01, 0.01, note, fontsize=8.5, color=_GREY)
    figure.tight_layout(rect=(0, 0.025, 1, 0.985), h_pad=2, w_pad=2)
    with atomic_path(path) as unfinished:
        save(figure, unfinished)


def _panel(axes: Axes, case: str, axis: str) -> None:
    order = [name for name in BOUNDS if name != LOWER]
    for names, points in together(curves(case, axis)).items():
        first = next((name for name in names if name != LOWER), LOWER)
        number = order.index(first) if first in order else 0
        only_lower = names == (LOWER,)
        axes.plot(
            *zip(*points, strict=True),
            color="black" if only_lower else _COLOURS[number],
            linestyle="--" if LOWER in names else "-",
            marker="" if only_lower else _MARKERS[number],
            markersize=4.6,
            linewidth=1.6,
            label=" = ".join(names),
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(WORDS[axis])
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#E2E2E2", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=8, frameon=False, ncols=2, loc="upper left", bbox_to_anchor=(0, -0.13))


ITEMS = {
    "bounds": Item(
        name="bounds",
        title=f"Both utility-bound tables as curves over ε, n and p ({LABEL})",
        paper="The bounds of Yu, Zhang, Chen, Yin & Liu (IJCAI 2020) beside those of the papers named in the tables",
        run=_bounds,
        published="The tables are formulas: what is published is the powers, not numbers.",
        differs=(
            "Levels mean nothing: every constant is dropped, and ln(1/δ) with them. Powers are exact for the "
            "formulas; they are not whole numbers where a logarithm of n stands beside, or where a minimum "
            "changes sides.",
            "The bound of Feldman et al., as printed in lecture notes, has one ε too many: above ε = 1 it "
            "falls below the lower bound, which no bound may.",
            "DP-GD and DP-SGD of Yu et al. go below the convex lower bound. That is no contradiction: they "
            "assume an expected curvature, and the lower bound is for the worst convex problem, which has "
            "none.",
            "The expected curvature of 0.02 is assumed. Measured on data it is not public, and the bound with "
            "it neither.",
        ),
    ),
}
