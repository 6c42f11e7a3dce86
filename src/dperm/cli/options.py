"""Options that several commands share."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from dperm.mechanisms import mechanism_names

target_option = click.option(
    "--target", metavar="COLUMN", help="Column to predict, if not the one that the schema names."
)
schema_option = click.option(
    "--schema", "schema_path", metavar="FILE", help="TOML file that declares columns, ranges and classes."
)
loss_option = click.option(
    "--loss",
    type=click.Choice(["logistic", "svm"]),
    default="logistic",
    show_default=True,
    help="Logistic regression or linear SVM.",
)
l2_option = click.option(
    "--l2", type=float, default=1e-3, show_default=True, help="Weight of ½‖w‖² against the mean loss."
)
html_option = click.option(
    "--html",
    is_flag=True,
    help="Also write report.html into the folder: interactive, one file, works offline.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of text.")

Command = TypeVar("Command", bound=Callable[..., Any])
_NAMES = ", ".join(mechanism_names())


def mechanism_option(default: str) -> Callable[[Command], Command]:
    return click.option(
        "--mechanism",
        metavar="NAME",
        default=default,
        show_default=True,
        help=f"How to train: {_NAMES}. NAME:paper uses the noise of the paper's own accounting.",
    )
