"""What published noise really costs: as the papers print it, and as their code had it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dperm.experiments.figures import HOUSE, save
from dperm.mechanisms import NSGD
from dperm.models.atomic import atomic_path
from dperm.render.style import GREY, PALETTE
from dperm.unit import Neighbours
from dperm_papers.reproduce import rsgd
from dperm_papers.reproduce.claims_prices import (
    AT,
    CHOICE,
    EPSILONS,
    SETTING,
    Mistake,
    Printed,
    every_mistake,
    every_printed,
    right_sign,
    seen,
)
from dperm_papers.reproduce.item import Bench, Check, Item, Report, Section

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Claimed and real ε of published noise, on one line each.

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


DRAWS = {True: 60, False: 400}
"""Simulated losses for the prices of the course report, by whether the size is quick."""


def _run(bench: Bench) -> Report:
    progress = bench.progress("prices")
    progress(0, 2)
    printed = every_printed()
    progress(1, 2)
    mistakes = every_mistake(DRAWS[bench.quick])
    progress(2, 2)
    return report_on(printed, mistakes, bench.folder)


def report_on(printed: Sequence[Printed], mistakes: Sequence[Mistake], folder: Path) -> Report:
    figure = folder / "figure.png"
    draw(printed, mistakes, figure)
    return Report(
        sections=(printed_section(printed), mistakes_section(mistakes)),
        checks=(*promises(printed), *claims(mistakes), *controls()),
        files=(figure,),
    )


def printed_section(printed: Sequence[Printed]) -> Section:
    return Section(
        title="printed noise: the ε that it costs where so much is claimed, and how much more noise it is than needed",
        columns=(
            "method",
            "printed for",
            *(f"claimed {epsilon:g}" for epsilon in EPSILONS),
            f"claimed {AT:g}, row replaced",
            "noise over needed",
        ),
        rows=tuple(
            (
                one.label,
                one.relation.value,
                *("not reached" if cost is None else f"{cost:.3f}" for cost in one.costs.values()),
                f"{one.replaced:.3f}",
                f"{one.surplus:.2f}",
            )
            for one in printed
        ),
    )


def mistakes_section(mistakes: Sequence[Mistake]) -> Section:
    return Section(
        title="code and conditions: what is claimed, and what it costs",
        columns=("what was done", "in", "claimed ε", "δ", "costs ε", "caught by"),
        rows=tuple(
            (one.name, one.where, f"{one.claimed:.3g}", _power(one.delta), one.shown, one.caught_by)
            for one in mistakes
        ),
    )


def _power(delta: float) -> str:
    return f"{delta:g}".replace("e-0", "e-")


def promises(printed: Sequence[Printed]) -> list[Check]:
    """Whether printed noise is enough: for the relation that it is printed for, and when a row is replaced."""
    found = [
        Check(
            claim=f"{one.label}: the printed noise keeps its promise under {one.relation.value}",
            holds=one.keeps_its_promise,
        )
        for one in printed
    ]
    found += [
        Check(claim=f"{one.label}: some noise reaches every ε [none reaches {_listed(missing)}]", holds=False)
        for one in printed
        if (missing := [claim for claim, cost in one.costs.items() if cost is None])
    ]
    found += [
        Check(
            claim=f"{one.label}: it keeps it when a row is replaced, too [claimed {AT:g}, costs {one.replaced:.2f}]",
            holds=one.replaced <= AT,
        )
        for one in printed
        if one.relation is Neighbours.ADD_REMOVE
    ]
    return found


def _listed(epsilons: Sequence[float]) -> str:
    return " and ".join(f"{epsilon:g}" for epsilon in epsilons)


def claims(mistakes: Sequence[Mistake]) -> list[Check]:
    return [
        Check(
            claim=f"{one.name}: costs no more than is claimed [{one.claimed:.3g}, costs {one.shown}]",
            holds=one.kept,
        )
        for one in mistakes
    ]


def controls() -> list[Check]:
    """The same calculations without the mistake must find none."""
    plain, subtracted = seen(NSGD), right_sign(CHOICE)
    return [
        Check(
            claim=f"Control: plain gradients on the same two tables show no more than is claimed [1, show {plain:.2f}]",
            holds=plain <= AT,
        ),
        Check(
            claim="Control: the exponential mechanism in its place costs no more than is claimed "
            f"[{CHOICE.epsilon:g}, costs {subtracted:.2f}]",
            holds=subtracted <= CHOICE.epsilon,
        ),
    ]


ITEMS = {
    "claims": Item(
        name="claims",
        title="What published noise really costs, as printed and as the code had it",
        paper="Chen, Lee & Kifer (2019), Yu et al. (2020), a course report, lecture notes, and methods that they use",
        run=_run,
        published="The claimed ε is the published figure.",
        differs=(
            f"One public setting for all: {SETTING.n_rows:,} rows, logistic loss, l2 = {SETTING.l2:g} and "
            f"δ = {_power(rsgd.DELTA)} unless the table says otherwise, and the default settings of every mechanism. "
            "No data are read.",
            "Costs are upper bounds that are proved; those above a claim are attained up to a few per cent. ≥ marks "
            "what two tables show, ≈ an estimate. Of DP-AGD with a row replaced only the gradients are counted.",
            "Code is modelled by one mistake at a time on top of the printed noise. Mistakes that have no price, such "
            "as a bound taken from the rows, are not in the table.",
        ),
    ),
}
