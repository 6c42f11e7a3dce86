"""Persons on the command line: whose rows they are, and how the rows of one count."""

from dataclasses import replace
from typing import Any

import click

from dperm.cli.options import Command, OneOf, bar
from dperm.datasets import Schema
from dperm.unit import PersonLoss


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


persons_option = click.option(
    "--persons",
    "n_persons",
    type=click.IntRange(1),
    show_default="none: every row is a person",
    help="Number of persons, in place of that of rows; with add-remove a public number that is never exceeded.",
)


unit_option = click.option(
    "--unit",
    type=click.Choice(("row", "person")),
    show_default="a person where the schema names persons, else a row",
    help="Whom the guarantee is for. For a model of persons 'row' says that single rows are meant.",
)


def person_options(command: Command) -> Command:
    """Whose rows they are, and how those of one person count."""
    for option in (max_rows_per_person_option, person_loss_option, person_option):
        command = option(command)
    return command


def counted_by(schema: Schema, unit: str | None) -> Schema:
    """The schema of rows to be counted: where rows are meant, one that names no persons."""
    return replace(schema, person=None) if unit == "row" else schema


def about_persons(schema: Schema, loss: str | None, most: int | None) -> dict[str, Any]:
    """Settings of an estimator, for what was said of persons."""
    if schema.person is None and (loss is not None or most is not None):
        raise click.UsageError(
            "--person-loss and --max-rows-per-person are about persons: name the column with their ids, --person "
            "COLUMN, or person in the schema."
        )
    settings = {"person_loss": loss, "max_rows_per_person": most}
    return {name: value for name, value in settings.items() if value is not None}


def units(
    n_rows: int | None, max_rows: int | None, n_persons: int | None, hidden: bool
) -> tuple[int | None, int | None]:
    """--n and --max-rows, of rows or, with --persons, of persons."""
    if n_persons is None:
        return n_rows, max_rows
    if n_rows is not None or max_rows is not None:
        raise click.UsageError("--persons stands in place of --n and of --max-rows; leave these out.")
    return (None, n_persons) if hidden else (n_persons, None)
