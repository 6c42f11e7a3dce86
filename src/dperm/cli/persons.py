"""Persons on the command line: whose rows they are, and how the rows of one count."""

from typing import Any

import click

from dperm.cli.options import Command, OneOf, bar
from dperm.datasets import Schema
from dperm.persons import PersonLoss


def person_losses() -> tuple[str, ...]:
    return tuple(loss.value for loss in PersonLoss)


person_option = click.option(
    "--person",
    metavar="COLUMN",
    show_default="the one that the schema names; otherwise every row is a person",
    help="Column with the ids of persons: the guarantee is for a person with all rows.",
)
person_loss_option = click.option(
    "--person-loss",
    type=OneOf(person_losses),
    metavar=bar(person_losses()),
    show_default="mean",
    help="What stands for a person: the mean of the losses of their rows, or the sum over --max-rows-per-person.",
)
max_rows_per_person_option = click.option(
    "--max-rows-per-person",
    type=click.IntRange(1),
    metavar="ROWS",
    show_default="so many that only rounding asks for a bound",
    help="Rows of a person that are kept, the first ones; for sum needed, and the noise grows with it.",
)


def person_options(command: Command) -> Command:
    """Whose rows they are, and how those of one person count."""
    for option in (max_rows_per_person_option, person_loss_option, person_option):
        command = option(command)
    return command


def about_persons(schema: Schema, loss: str | None, most: int | None) -> dict[str, Any]:
    """Settings of an estimator, for what was said of persons."""
    if schema.person is None and (loss is not None or most is not None):
        raise click.UsageError(
            "--person-loss and --max-rows-per-person are about persons: name the column with their ids, --person "
            "COLUMN, or person in the schema."
        )
    settings = {"person_loss": loss, "max_rows_per_person": most}
    return {name: value for name, value in settings.items() if value is not None}
