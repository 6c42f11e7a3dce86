"""Options that several commands share, each made once: the same name, type, default and words everywhere."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from dperm.cli import completion
from dperm.cli.grammar import SYNTAX
from dperm.cli.imports import import_at_once
from dperm.cli.output import did_you_mean
from dperm.errors import InvalidInput
from dperm.losses import loss_choices, resolve_loss
from dperm.losses import loss_names as all_loss_names
from dperm.losses.registry import AUTO_LOSS
from dperm.planning.rules import AUTO, parse_l2
from dperm.schema import Schema
from dperm.unit import Neighbours, PersonLoss

Decorator = Callable[[Any], Any]

DEFAULT_MECHANISM = "auto"
GRAMMAR = (
    f"{SYNTAX} gives settings, NAME:paper the noise of the paper's own accounting. See dperm mechanisms."
)


class Ordered(click.Group):
    """A group that lists its commands in their order and asks what an unknown one was meant to be."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, known = args[0], self.list_commands(ctx)
        if not (ctx.resilient_parsing or name.startswith("-") or name in known):
            ctx.fail(f"No such command {name!r}.{did_you_mean(name, known)}")
        return super().resolve_command(ctx, args)


class OneOf(click.types.StringParamType):
    """One of some names, which are asked for when they are needed: a module may have added to them by then."""

    def __init__(self, names: Callable[[], tuple[str, ...]]) -> None:
        self._names = names

    @property
    def choices(self) -> tuple[str, ...]:
        return self._names()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            known = ", ".join(repr(name) for name in self.choices)
            self.fail(f"{value!r} is not one of {known}.{did_you_mean(str(value), self.choices)}", param, ctx)
        return str(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return completion.starting_with(self._names)(ctx, param, incomplete)


class Penalty(click.types.StringParamType):
    """A number, or the word for the mechanism's own rule."""

    name = "l2"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return parse_l2(value if value == AUTO else float(value))
        except ValueError:
            self.fail(f"{value!r} is neither {AUTO!r} nor a number.", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return completion.starting_with(lambda: (AUTO,))(ctx, param, incomplete)


class LossName(OneOf):
    """The name of a loss, by itself or with settings: NAME:SETTING=NUMBER,..."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        name = str(value).partition(":")[0]
        if name not in all_loss_names():
            super().convert(name, param, ctx)
        try:
            if name != AUTO_LOSS or name != value:
                resolve_loss(str(value))
        except InvalidInput as error:
            self.fail(str(error), param, ctx)
        return str(value)


def loss_names() -> tuple[str, ...]:
    """The registered losses, each by its shortest name, and the word for the one that goes with the target."""
    return (AUTO_LOSS, *loss_choices("binary", "classes", "real"))


def relation_names() -> tuple[str, ...]:
    return tuple(relation.value for relation in Neighbours)


def bar(names: tuple[str, ...]) -> str:
    """How help shows a choice."""
    return f"[{'|'.join(names)}]"


def neighbours_option(what: str) -> Decorator:
    return click.option(
        "--neighbours",
        type=OneOf(relation_names),
        metavar=bar(relation_names()),
        default=Neighbours.REPLACE_ONE.value,
        show_default=True,
        help=what,
    )


def check_max_rows(neighbours: str, max_rows: int | None) -> None:
    """--max-rows is given with add-remove, where the number of rows is private, and only there."""
    hidden = Neighbours.parse(neighbours) is Neighbours.ADD_REMOVE
    if hidden and max_rows is None:
        raise click.UsageError(
            "--neighbours add-remove keeps the number of rows private: give --max-rows, a public number that the table "
            "never exceeds."
        )
    if not hidden and max_rows is not None:
        raise click.UsageError(
            "--max-rows belongs to --neighbours add-remove; otherwise the rows are counted."
        )


def spooled(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    """What was given, or, for -, the path of a file with what standard input holds; its first bytes say which format.

    The file is private, and removed when the command ends.
    """
    if value != "-" or ctx.resilient_parsing:
        return value
    from dperm.schema.readers import readers

    if sys.stdin is None or sys.stdin.isatty():
        raise click.UsageError("- stands for standard input, and nothing is piped into it.", ctx)
    folder = Path(tempfile.mkdtemp(prefix="dperm-"))  # which others may not enter
    ctx.call_on_close(lambda: shutil.rmtree(folder, ignore_errors=True))
    source = sys.stdin.buffer
    known = {magic: ending for reader in readers() for magic, ending in reader.magic.items()}
    begun = source.read(max(map(len, known)))
    ending = next((ending for magic, ending in known.items() if begun.startswith(magic)), ".csv")
    path = folder / f"stdin{ending}"
    with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
        file.write(begun)
        shutil.copyfileobj(source, file)
    return str(path)


def file_option(name: str, variable: str, what: str, default: str = "none", **settings: Any) -> Decorator:
    """An option that names a file."""
    return click.option(
        name,
        variable,
        metavar="FILE",
        show_default=None if settings.get("required") else default,
        shell_complete=completion.files,
        help=what,
        **settings,
    )


def file_argument(name: str, **settings: Any) -> Decorator:
    """A file, of a model or a ledger."""
    return click.argument(name, shell_complete=completion.files, **settings)


def data_argument(name: str = "data", **settings: Any) -> Decorator:
    """DATA: a file, the name of a data set, or - for standard input."""
    return click.argument(name, shell_complete=completion.data, callback=spooled, **settings)


target_option = click.option(
    "--target",
    metavar="COLUMN",
    show_default="the one that the schema names",
    help="Column to predict.",
)
SCHEMA_HELP = "TOML file that declares columns, ranges and classes."
schema_option = file_option("--schema", "schema_path", SCHEMA_HELP, "that of the named data set")
spline_option = click.option(
    "--spline",
    type=int,
    metavar="SPLINES",
    show_default="what the schema says; 8 each for up to 20 numbers",
    help="Splines for every number, on its declared range; 0 for one plain column.",
)
LOSS_HELP = (
    f"What to minimise: {', '.join(loss_names())}. auto goes with the target: logistic for classes (softmax for more "
    "than two), squared for numbers. LOSS:SETTING=NUMBER changes a setting."
)
loss_option = click.option(
    "--loss",
    type=LossName(loss_names),
    metavar="LOSS",
    default=AUTO_LOSS,
    show_default=True,
    help=LOSS_HELP,
)
l2_option = click.option(
    "--l2",
    type=Penalty(),
    metavar=f"[{AUTO}|NUMBER]",
    default=AUTO,
    show_default=True,
    help="Weight of ½‖w‖² against the mean loss; auto follows the mechanism, the number of rows and the budget.",
)
max_rows_option = click.option(
    "--max-rows",
    type=click.IntRange(1),
    show_default="none",
    help="For add-remove: a public number of rows, or of persons, that the table never exceeds.",
)
import_option = click.option(
    "--import",
    metavar="MODULE",
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=import_at_once,
    show_default="none",
    shell_complete=completion.files,
    help="Python module or .py file to import first, for what it registers. Repeatable.",
)
mechanism_option = click.option(
    "--mechanism",
    metavar="NAME",
    default=DEFAULT_MECHANISM,
    show_default=True,
    shell_complete=completion.mechanisms,
    help=f"How to train. {GRAMMAR}",
)
html_option = click.option(
    "--html",
    is_flag=True,
    help="Also write report.html into the folder: interactive, one file, works offline.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")
force_option = click.option("--force", is_flag=True, help="Replace an existing file.")


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


def together(*options: Decorator) -> Decorator:
    """Several options as one, in this order."""

    def add(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return add


task_options = together(
    l2_option,
    neighbours_option("What is hidden: the content of a row, or also whether it is there."),
    max_rows_option,
    import_option,
)
"""What every command takes that fits or plans models."""

person_options = together(person_option, person_loss_option, max_rows_per_person_option)
"""Whose rows they are, and how those of one person count."""

ledger_options = together(
    file_option("--ledger", "ledger_path", "Charge this ledger (see dperm ledger)."),
    click.option(
        "--dataset-name", metavar="NAME", show_default="its default one", help="Dataset of the ledger."
    ),
)


def release_options(what: str, output: str) -> Decorator:
    """What every command takes that counts private rows: the unit, the relation, the ledger and the output."""
    return together(
        unit_option,
        neighbours_option(f"What is hidden: the content of a {what}, or also whether it is there."),
        max_rows_option,
        ledger_options,
        file_option("--output", "output_path", output),
        force_option,
        import_option,
        json_option,
    )


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
    neighbours: str, n_rows: int | None, max_rows: int | None, n_persons: int | None, wanted: str
) -> tuple[int, int | None]:
    """The public number of rows, or of persons, that noise follows; and the bound on it where that number is private.

    ``wanted`` is said where no number was given.
    """
    if n_persons is not None:
        if n_rows is not None or max_rows is not None:
            raise click.UsageError("--persons stands in place of --n and of --max-rows; leave these out.")
        hidden = Neighbours.parse(neighbours) is Neighbours.ADD_REMOVE
        return n_persons, n_persons if hidden else None
    check_max_rows(neighbours, max_rows)
    if max_rows is None and n_rows is None:
        raise click.UsageError(wanted)
    if max_rows is not None and n_rows is not None:
        raise click.UsageError("with --neighbours add-remove the noise follows --max-rows; leave out --n.")
    return max_rows or n_rows or 0, max_rows
