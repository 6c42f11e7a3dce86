"""A ledger on a terminal: the balance of every dataset, and a line for each charge."""

from collections.abc import Mapping
from typing import Any

import click
from rich import box
from rich.table import Table

from dperm.cli.output import console, fitting
from dperm.ledger.overview import CHARGES, UNIT, in_words, with_units

COLUMNS = {
    **CHARGES,
    UNIT: "unit",
    "partition": "partition",
    "label": "label",
    "sha256": "sha256",
    "head": "head",
}
OPTIONAL = ("file", "time", "ε before", "dataset", "partition", "label", "sha256", "head")
SHORT = 12
"""Digits of a digest in a table."""


def show_ledger(document: Mapping[str, Any]) -> None:
    """Print the balance, then the charges in as many columns as there is room for."""
    screen = console()
    of_datasets, of_charges = (with_units(name, document) for name in ("datasets", "charges"))
    balance = _table(list(of_datasets))
    for row in document["datasets"]:
        balance.add_row(*(in_words(row[key]) for key in of_datasets.values()))
    screen.print(balance)
    entries = [_cells(charge) for charge in document["charges"]]
    extra = [
        name for name in COLUMNS if name not in (*CHARGES, UNIT) and any(cells[name] for cells in entries)
    ]
    used = [*of_charges, *extra]

    def charges(columns: list[str]) -> Table:
        made = _table(columns)
        for cells in entries:
            made.add_row(*(cells[name] for name in columns))
        return made

    table, left_out = fitting(screen, used, [name for name in OPTIONAL if name in used], charges)
    screen.print(table)
    if left_out:
        screen.print(f"Not shown at this width: {', '.join(left_out)}; --json shows all.")
    strict = ", strict" if document["strict"] else ""
    screen.print(
        f"{document['neighbours']} neighbours{strict}. left: one more release with Gaussian noise, at the same δ."
    )
    screen.print(f"ledger {document['id']}\nhead   {document['head']}")


def show_charge(charge: Mapping[str, Any]) -> None:
    """Print all that is known of one charge."""
    rows = {name: in_words(charge[key]) for name, key in COLUMNS.items() if name != "head"}
    rows["cited as"] = charge["citation"]
    for name, text in rows.items():
        click.echo(f"{name:<10}{text or '-'}")


def _cells(charge: Mapping[str, Any]) -> dict[str, str]:
    cells = {name: in_words(charge[key]) for name, key in COLUMNS.items()}
    short = {name: cells[name][:SHORT] for name in ("sha256", "head")}
    return cells | short | {"time": cells["time"][:16].replace("T", " ")}


def _table(columns: list[str]) -> Table:
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in columns:
        made.add_column(heading, no_wrap=True)
    return made
