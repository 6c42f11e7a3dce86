"""``dperm ledger``: one budget over many fits."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich import box
from rich.table import Table

from dperm.cli.options import json_option
from dperm.cli.output import check_free, console, print_json
from dperm.errors import InvalidInput
from dperm.neighbours import Neighbours

if TYPE_CHECKING:
    from dperm.ledger import Ledger


@click.group(short_help="One budget over many fits, kept in a file.")
def ledger() -> None:
    """Keep count of what all fits on the same people cost together.

    \b
    Example:
      dperm ledger create budget.db --epsilon 2 --delta 1e-7
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 --ledger budget.db --output model.json
      dperm ledger show budget.db
    """


@ledger.command(short_help="Make a new ledger.")
@click.argument("file")
@click.option("--epsilon", type=float, required=True, help="Cap on ε of all fits together.")
@click.option("--delta", type=float, required=True, help="The δ at which the cap holds.")
@click.option(
    "--neighbours",
    type=click.Choice([relation.value for relation in Neighbours]),
    default=Neighbours.REPLACE_ONE.value,
    show_default=True,
    help="What every guarantee in the ledger hides.",
)
def create(file: str, epsilon: float, delta: float, neighbours: str) -> None:
    """Make a new ledger with a cap. The cap can be lowered later, never raised."""
    from dperm.ledger import Ledger

    if Path(file).exists():
        raise InvalidInput(f"{file} exists already; look at it with: dperm ledger show {file}")
    made = Ledger(file, epsilon=epsilon, delta=delta, neighbours=neighbours)
    click.echo(
        f"Created {file}: at most ε = {epsilon:g} at δ = {delta:g}, {made.neighbours.value} neighbours."
    )


@ledger.command(short_help="What is spent and what is left.")
@click.argument("file")
@json_option
def show(file: str, as_json: bool) -> None:
    """Show what is spent and what is left of every dataset, and each charge."""
    found = _existing(file)
    if as_json:
        print_json(found.to_dict())
        return
    document = found.to_dict()
    balance = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("dataset", "cap ε", "δ", "spent ε", "left ε"):
        balance.add_column(heading, no_wrap=True)
    for row in document["datasets"]:
        numbers = (f"{row[name]:.4g}" for name in ("epsilon", "delta", "spent", "remaining"))
        balance.add_row(row["dataset"], *numbers)
    charges = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("charge", "time", "dataset", "partition", "label", "mechanism", "ε alone", "status"):
        charges.add_column(heading, no_wrap=True)
    caps = {row["dataset"]: row["delta"] for row in document["datasets"]}
    for entry in found.entries():
        alone = f"{entry.cost.epsilon(caps[entry.dataset]):.4g}"
        where = (entry.dataset, entry.partition or "", entry.label, entry.mechanism)
        charges.add_row(str(entry.id), entry.time, *where, alone, entry.status)
    screen = console()
    wide = screen.options.update(width=1000, max_width=1000)
    screen.width = max(screen.width, screen.measure(charges, options=wide).maximum)  # never cut
    screen.print(balance)
    screen.print(charges)
    screen.print(
        f"{found.neighbours.value} neighbours. left: one more release with Gaussian noise, at the same δ."
    )


@ledger.command(short_help="Write everything to a JSON file.")
@click.argument("file")
@click.option("--output", "output_path", metavar="FILE", required=True, help="JSON file to write.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
def export(file: str, output_path: str, force: bool) -> None:
    """Write caps, totals and every charge to a JSON file."""
    found, path = _existing(file), Path(output_path)
    check_free(path, force)
    found.export(path)
    click.echo(f"Saved to {path}.", err=True)


def _existing(file: str) -> "Ledger":
    from dperm.ledger import Ledger

    if not Path(file).is_file():
        raise InvalidInput(f"{file} is not a file; make a ledger with: dperm ledger create {file}")
    return Ledger(file)
