"""Options that several commands share, each made once: the same name, type, default and words everywhere."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dperm.cli import completion
from dperm.cli.grammar import SYNTAX
from dperm.cli.imports import import_at_once
from dperm.cli.stdin import spooled
from dperm.cli.suggest import did_you_mean
from dperm.errors import InvalidInput
from dperm.losses import loss_choices, resolve_loss
from dperm.losses import loss_names as all_loss_names
from dperm.losses.registry import AUTO_LOSS
from dperm.neighbours import Neighbours
from dperm.planning.penalty import AUTO, parse_l2

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Any], Any]

DEFAULT_MECHANISM = "auto"
GRAMMAR = (
    f"{SYNTAX} gives settings, NAME:paper the noise of the paper's own accounting. See dperm mechanisms."
)


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


def check_capacity(neighbours: str, max_rows: int | None) -> None:
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


def data_argument(name: str = "data", **settings: Any) -> Decorator:
    """DATA: a file, the name of a data set, or - for standard input."""
    return click.argument(name, shell_complete=completion.data, callback=spooled, **settings)


target_option = click.option(
    "--target",
    metavar="COLUMN",
    show_default="the one that the schema names",
    help="Column to predict.",
)
schema_option = click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    show_default="that of the named data set",
    shell_complete=completion.files,
    help="TOML file that declares columns, ranges and classes.",
)
spline_option = click.option(
    "--spline",
    type=int,
    metavar="HATS",
    show_default="what the schema says; 8 each for up to 20 numbers",
    help="Hats for every number, on its declared range; 0 for one plain column.",
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


def task_options(command: Command) -> Command:
    """What every command takes that fits models or prices them: l2, the relation, the capacity, and imports."""
    what = "What is hidden: the content of a row, or also whether it is there."
    for option in (import_option, max_rows_option, neighbours_option(what), l2_option):
        command = option(command)
    return command


def purse_options(command: Command) -> Command:
    """Who pays for figures about rows: a ledger, and which of its datasets."""
    name = click.option(
        "--dataset-name", metavar="NAME", show_default="its default one", help="Dataset of the ledger."
    )
    ledger = click.option(
        "--ledger",
        "ledger_path",
        metavar="FILE",
        show_default="none",
        shell_complete=completion.files,
        help="Charge this ledger (see dperm ledger).",
    )
    return ledger(name(command))
