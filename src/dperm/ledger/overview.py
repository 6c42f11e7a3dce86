"""A ledger as people read it: every charge with what was spent before and after it, as a table and as a figure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from dperm.ledger.history import Anchor, Book
from dperm.ledger.store import FORMAT
from dperm.render.html import Html, notebook_cell, paragraph, safe, table
from dperm.render.style import FAINT, GREY, PALETTE
from dperm.strict_json import header
from dperm.unit import ROW

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNIT = "unit"
BALANCE = {
    "dataset": "dataset",
    "cap ε": "epsilon",
    "δ": "delta",
    "spent ε": "spent",
    "left ε": "remaining",
}
CHARGES = {
    "charge": "id",
    "time": "time",
    "dataset": "dataset",
    "kind": "kind",
    "mechanism": "mechanism",
    "file": "files",
    "ε alone": "epsilon",
    "ε before": "spent_before",
    "ε after": "spent_after",
    "status": "status",
}
_COLOURS = dict(zip(("fit", "search", "evaluate"), PALETTE, strict=False))
_OTHER = PALETTE[3]
_MOST_NAMED = 12
"""Charges of a dataset that get their number written beside them."""


def _charges(book: Book, full: bool) -> Iterator[dict[str, Any]]:
    """All charges in their order: each with its own epsilon, and that of all charges before it and after it.

    All are at the delta of the cap. A void charge whose price has none at a delta that was lowered since has None.
    ``citation`` is what the model that the charge paid for says of it.
    """
    spent = dict.fromkeys(book.caps, 0.0)
    for entry in book.entries:
        told, name = entry.to_dict(), entry.dataset
        cost, before = told.pop("cost"), spent[name]
        if entry.counts:
            spent[name] = book.spent(name, upto=entry.id)
        alone = entry.cost.epsilon(book.cap(name).delta)
        told |= {
            "epsilon": alone if math.isfinite(alone) else None,
            "spent_before": before,
            "spent_after": spent[name],
            "citation": str(Anchor(ledger=book.id, charge=entry.id, head=entry.head)),
        }
        yield told | ({"cost": cost} if full else {})


def document(book: Book, full: bool) -> dict[str, Any]:
    """Everything, ready for JSON; ``full`` adds the price of each charge as the ledger keeps it, which may be long."""
    return {
        **header(FORMAT),
        "id": book.id,
        "head": book.head,
        "neighbours": book.neighbours.value,
        "adaptive_costs": book.adaptive_costs,
        "strict": book.strict,
        "partitions": {
            name: {"names": parts, "fixed_membership": name in book.fixed_membership}
            for name, parts in book.parts.items()
        },
        "datasets": [
            {
                "dataset": name,
                "unit": book.unit(name),
                **asdict(cap),
                "spent": book.spent(name),
                "remaining": book.remaining(name),
            }
            for name, cap in book.caps.items()
        ],
        "charges": list(_charges(book, full)),
    }


def as_html(name: str, document: Mapping[str, Any]) -> str:
    """The balance and the charges of a ledger, from its document."""
    strict = ", strict" if document["strict"] else ""
    balance, charges = (with_units(name, document) for name in ("datasets", "charges"))
    about = (
        f"<b>Ledger {safe(name)}</b>: {safe(document['neighbours'])} neighbours{strict}<br>"
        f"id {safe(document['id'])}<br>head {safe(document['head'])}"
    )
    return notebook_cell(
        paragraph(Html(about)),
        _table(balance, document["datasets"]),
        _table(charges, document["charges"]),
    )


def with_units(name: str, document: Mapping[str, Any]) -> dict[str, str]:
    """The columns of datasets or charges; where one is about persons, all say whom they protect."""
    columns = BALANCE if name == "datasets" else CHARGES
    if all(row["unit"] == ROW for row in document[name]):
        return columns
    first, *rest = columns.items()
    return dict([first, (UNIT, "unit"), *rest])


def in_words(value: object) -> str:
    """A cell of a table as text."""
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return f"{value:.4g}" if isinstance(value, float) else "" if value is None else str(value)


def _table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]) -> Html:
    return table(tuple(columns), ([in_words(row[key]) for key in columns.values()] for row in rows))


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
        mine = [(_time(charge), charge["spent_after"]) for charge in charges if charge["kind"] == kind]
        axes.plot(*zip(*mine, strict=True), "o", color=_COLOURS.get(kind, _OTHER), markersize=5, label=kind)
    for charge in charges if len(charges) <= _MOST_NAMED else ():
        place = (_time(charge), charge["spent_after"])
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
