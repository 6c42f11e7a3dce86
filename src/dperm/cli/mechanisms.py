"""``dperm mechanisms``: what there is to choose from."""

from dataclasses import asdict
from itertools import groupby

import click
from rich import box
from rich.table import Table

from dperm.cli.options import json_option
from dperm.cli.output import console, print_json
from dperm.mechanisms.catalogue import Entry, catalogue, model_losses
from dperm.neighbours import Neighbours


@click.command(short_help="List the mechanisms, one line each.")
@json_option
def mechanisms(as_json: bool) -> None:
    """List every mechanism by family: what it covers, what it releases and whose it is.

    \b
    Example:
      dperm mechanisms
    """
    entries = catalogue()
    if as_json:
        print_json([asdict(entry) for entry in entries])
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "losses", "relations", "released", "accounting", "source"):
        table.add_column(heading, no_wrap=True)
    for family, members in groupby(entries, key=lambda entry: entry.family):
        table.add_row(family, style="bold")
        for entry in members:
            table.add_row(*_cells(entry), style="" if entry.private else "dim")
        table.add_section()
    screen = console()
    wide = screen.options.update(width=1000, max_width=1000)
    screen.width = max(screen.width, screen.measure(table, options=wide).maximum)  # one line each, never cut
    screen.print(table)
    screen.print(
        f"all: {', '.join(loss.name for loss in model_losses())}. both: {' and '.join(Neighbours)}. "
        "NAME:paper uses the noise of the paper's own accounting."
    )


def _cells(entry: Entry) -> tuple[str, ...]:
    return (
        f"  {entry.name}",
        "all" if len(entry.losses) == len(model_losses()) else ", ".join(entry.losses),
        "both" if len(entry.relations) == len(Neighbours) else ", ".join(entry.relations),
        entry.released,
        ", ".join(entry.accountings) if entry.private else "NOT PRIVATE",
        entry.source,
    )
