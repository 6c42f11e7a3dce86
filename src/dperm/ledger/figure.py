"""The spending of a ledger over time, each dataset under its cap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dperm.render.style import FAINT, GREY, PALETTE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLOURS = dict(zip(("fit", "search", "evaluate"), PALETTE, strict=False))
_OTHER = PALETTE[3]
_MOST_NAMED = 12
"""Charges of a dataset that get their number written beside them."""


def spending_figure(document: Mapping[str, Any]) -> Figure:
    """A panel for each dataset, from the document of a ledger: a step at every charge that counts."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    datasets = document["datasets"]
    height = 0.9 + 2.5 * len(datasets)
    figure = Figure(figsize=(7.6, height), dpi=160)
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(datasets), squeeze=False, sharex=True)[:, 0]
    times = [_time(charge) for charge in document["charges"]] or [datetime.now(UTC)]
    span = max(max(times) - min(times), timedelta(hours=1))
    ends = (min(times) - span / 12, max(times) + span / 12)
    for axes, dataset in zip(panels, datasets, strict=True):
        counted = [
            charge
            for charge in document["charges"]
            if charge["dataset"] == dataset["dataset"] and charge["status"] != "void"
        ]
        _panel(axes, dataset, counted, ends)
    figure.suptitle("Spent of each budget", x=0.02, ha="left", fontweight="bold")
    note = f"ledger {document['id']}, {document['neighbours']} neighbours; numbers are those of the charges, times UTC"
    figure.text(0.02, 0.12 / height, note, fontsize=7.5, color=GREY)
    figure.tight_layout(rect=(0, 0.3 / height, 1, 1))
    return figure


def _time(charge: Mapping[str, Any]) -> datetime:
    return datetime.fromisoformat(charge["time"]).astimezone(UTC)


def _panel(
    axes: Axes,
    dataset: Mapping[str, Any],
    charges: Sequence[Mapping[str, Any]],
    ends: tuple[datetime, datetime],
) -> None:
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    start, end = ends
    times = [_time(charge) for charge in charges]
    after = [charge["spent_after"] for charge in charges]
    axes.step(
        date2num([start, *times, end]),
        [0.0, *after, after[-1] if after else 0.0],
        where="post",
        color=GREY,
        linewidth=1.3,
    )
    kinds = [*dict.fromkeys(charge["kind"] for charge in charges)]
    for kind in kinds:
        mine = [
            (when, charge["spent_after"])
            for when, charge in zip(times, charges, strict=True)
            if charge["kind"] == kind
        ]
        axes.plot(*zip(*mine, strict=True), "o", color=_COLOURS.get(kind, _OTHER), markersize=5, label=kind)
    for when, charge in zip(times, charges, strict=True) if len(charges) <= _MOST_NAMED else ():
        place = (when, charge["spent_after"])
        axes.annotate(str(charge["id"]), place, (4, -9), textcoords="offset points", fontsize=8)
    cap = dataset["epsilon"]
    axes.axhline(cap, color="#000000", linewidth=1.1, linestyle="--")
    axes.annotate(
        f"cap {cap:g}", (1, cap), (-2, 3), xycoords=("axes fraction", "data"),
        textcoords="offset points", ha="right", fontsize=8,
    )  # fmt: skip
    persons = "" if dataset["unit"] == "row" else f", for one {dataset['unit']}"
    axes.set_title(
        f"{dataset['dataset']}{persons}: {dataset['spent']:.4g} of {cap:g} spent at δ = {dataset['delta']:g}",
        loc="left",
        fontsize=10,
    )
    axes.set_ylabel("ε of all charges")
    axes.set_ylim(0, 1.15 * max(cap, *after, 0.0) if after else 1.15 * cap)
    axes.set_xlim(*date2num([start, end]))
    locator = AutoDateLocator(maxticks=7)
    axes.xaxis.set_major_locator(locator)
    axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, linewidth=0.6)
    axes.set_axisbelow(True)
    if kinds:
        axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=len(kinds))
