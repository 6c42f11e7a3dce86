"""``dperm show``: what a saved model says of each feature."""

import click

from dperm.cli import completion
from dperm.cli.options import OneOf, bar, import_option, json_option
from dperm.cli.output import print_json, say
from dperm.models.terms import AGAINST, MEAN


@click.command(short_help="Show what a saved model says of each feature.")
@click.argument("model", shell_complete=completion.files)
@click.option(
    "--schema",
    "schema_path",
    metavar="FILE",
    show_default="the one in the model",
    shell_complete=completion.files,
    help="TOML file that declares the columns, for a model that was saved without.",
)
@click.option(
    "--against",
    type=OneOf(lambda: AGAINST),
    metavar=bar(AGAINST),
    default=MEAN,
    show_default=True,
    help="What a category is compared with: the mean of all, or the first one.",
)
@import_option
@json_option
def show(model: str, schema_path: str | None, against: str, as_json: bool) -> None:
    """Show the coefficients of a saved model in the units of its table, and how far noise may have moved them.

    A number that bends is shown by its change from one end of its range to the other, with a small curve. Beside each
    change stands the standard deviation of the noise that was added for privacy: it says nothing of how well the rows
    themselves determine the change. A model fitted with inference=True has estimates and intervals instead, which hold
    both. No data is read and nothing is spent.

    \b
    Examples:
      dperm show model.json
      dperm show model.json --against first --json
    """
    from dperm.models.summary import summary

    told = summary(model, schema_path, against=against)
    if as_json:
        print_json(told.to_dict())
    else:
        say(str(told))
