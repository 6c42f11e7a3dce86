"""A ledger as a plain HTML table, for a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dperm.ledger.units import ROW
from dperm.render.html import Html, notebook_cell, paragraph, safe, table

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
