"""``dperm mechanisms``: what there is to choose from."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby

import click
from rich.table import Table

from dperm.cli import completion
from dperm.cli.grammar import read_grid, settings_of
from dperm.cli.options import import_option, json_option
from dperm.cli.output import console, fitting, plain_table, print_json
from dperm.engine import engine_names
from dperm.mechanisms import resolve
from dperm.mechanisms.registry import Entry, catalogue, model_losses
from dperm.unit import Neighbours

COLUMNS = ("name", "accounting", "losses", "relations", "released", "source")
"""The last ones are left out first where the terminal is too narrow for all."""


@click.command(short_help="List the mechanisms, or the settings of some.")
@click.argument("names", metavar="[NAME]...", nargs=-1, shell_complete=completion.mechanisms)
@click.option("--wide", is_flag=True, help="All columns, also where the terminal is too narrow for them.")
@import_option
@json_option
def mechanisms(names: tuple[str, ...], wide: bool, as_json: bool) -> None:
    """List every mechanism by family: what it covers, what it releases and whose it is.

    With names, tell all about these, and the settings that --mechanism 'NAME SETTING=VALUE ...' takes. On a terminal
    the list has the columns that fit; into a pipe or a file it has all.

    \b
    Examples:
      dperm mechanisms
      dperm mechanisms rsgd-ar dp-gd
    """
    wanted = [read_grid(name)[0].partition(":")[0] for name in names]
    entries = {entry.name: entry for entry in catalogue()}
    if wanted:
        entries = {name: entries[name] for name in wanted}
    if as_json:
        print_json(
            [{**asdict(entry), "settings": settings_of(resolve(entry.name))} for entry in entries.values()]
        )
    elif wanted:
        _show_details(list(entries.values()))
    else:
        _show_list(list(entries.values()), wide)


def _show_list(entries: Sequence[Entry], wide: bool) -> None:
    screen = console()
    table, left_out = fitting(screen, COLUMNS, COLUMNS[1:], lambda columns: _table(entries, columns), wide)
    screen.print(table)
    kinds = [f"{kind}: {', '.join(names)}" for kind, names in _kinds().items()]
    screen.print(
        f"{'. '.join(kinds)}. both: {' and '.join(Neighbours)}. NAME:paper uses the noise of the paper's own "
        "accounting. dperm mechanisms NAME shows its settings."
    )
    screen.print(f"Engines: {', '.join(engine_names())}.")
    if left_out:
        screen.print(f"Not shown at this width: {', '.join(left_out)}; --wide shows all.")


def _table(entries: Sequence[Entry], columns: list[str]) -> Table:
    """One line for each mechanism."""
    table = plain_table(columns)
    for family, members in groupby(entries, key=lambda entry: entry.family):
        table.add_row(family, style="bold")
        for entry in members:
            cells = _cells(entry)
            table.add_row(*(cells[name] for name in columns), style="" if entry.private else "dim")
        table.add_section()
    return table


def _cells(entry: Entry) -> dict[str, str]:
    return {
        "name": f"  {entry.name}",
        "accounting": _accountings(entry),
        "losses": ", ".join(_covered(entry)),
        "relations": "both" if len(entry.relations) == len(Neighbours) else ", ".join(entry.relations),
        "released": entry.released,
        "source": entry.source,
    }


def _covered(entry: Entry) -> list[str]:
    """The kinds of labels all of whose losses are covered, and other losses by name."""
    if len(entry.losses) == len(model_losses()):
        return ["all"]
    shown = []
    for kind, names in _kinds().items():
        mine = [name for name in names if name in entry.losses]
        shown += [kind] if len(names) > 1 and mine == names else mine
    return shown


def _kinds() -> dict[str, list[str]]:
    """The names of the losses by the labels that they are for."""
    found: dict[str, list[str]] = {}
    for loss in model_losses():
        found.setdefault(loss.labels, []).append(loss.name)
    return found


def _accountings(entry: Entry) -> str:
    return ", ".join(entry.accountings) if entry.private else "NOT PRIVATE"


def _show_details(entries: Sequence[Entry]) -> None:
    screen = console()
    for entry in entries:
        screen.print(f"{entry.name}: {entry.title}", style="bold")
        facts = Table.grid(padding=(0, 3))
        settings = settings_of(resolve(entry.name))
        facts.add_row("  family", entry.family)
        facts.add_row("  losses", ", ".join(entry.losses))
        facts.add_row("  relations", ", ".join(entry.relations))
        facts.add_row("  accounting", _accountings(entry))
        facts.add_row("  released", entry.released)
        facts.add_row("  source", entry.source)
        facts.add_row("  settings", "\n".join(f"{key}={_text(value)}" for key, value in settings.items()))
        screen.print(facts)


def _text(value: object) -> str:
    """A setting as the grammar takes it."""
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)
