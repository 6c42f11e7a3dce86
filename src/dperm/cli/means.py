"""``dperm means``: what a saved model predicts for private rows, on average, by group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dperm.cli import completion
from dperm.cli.by_column import grouping
from dperm.cli.data import Announced
from dperm.cli.options import (
    check_capacity,
    data_argument,
    force_option,
    import_option,
    json_option,
    max_rows_option,
    neighbours_option,
    purse_options,
)
from dperm.cli.output import check_free, hand_out
from dperm.cli.persons import counted_by, unit_option
from dperm.cli.suggest import did_you_mean
from dperm.errors import InvalidInput
from dperm.privacy import Budget


@click.command(short_help="Average predictions for private rows, by group.")
@click.argument("model", shell_complete=completion.files)
@data_argument()
@click.option(
    "--by",
    metavar="COLUMN",
    show_default="none; all rows are one group",
    help="Column that tells the group of a row.",
)
@click.option(
    "--value",
    "values",
    metavar="VALUE",
    multiple=True,
    show_default="categories or bins of the schema",
    help="Value of --by that makes a group. Repeatable.",
)
@click.option(
    "--other",
    metavar="NAME",
    show_default="none; such a row is an error",
    help="Name of a group of all rows with another value.",
)
@click.option(
    "--label",
    metavar="CLASS",
    show_default="the second of two",
    help="Class whose probability is averaged.",
)
@click.option(
    "--bounds",
    type=(float, float),
    metavar="LOW HIGH",
    show_default="0 1, or the target's range",
    help="Predictions outside count as the nearest end, with less noise. Known without the rows.",
)
@click.option("--epsilon", type=float, required=True, help="Privacy budget ε of the means.")
@click.option("--delta", type=float, show_default="that of the model", help="Privacy budget δ of the means.")
@unit_option
@neighbours_option("What is hidden: the content of a row, or also whether it is there.")
@max_rows_option
@purse_options
@click.option(
    "--output",
    "output_path",
    metavar="FILE",
    show_default="none",
    shell_complete=completion.files,
    help="JSON file for the means.",
)
@force_option
@import_option
@json_option
def means(
    model: str,
    data: str,
    by: str | None,
    values: tuple[str, ...],
    other: str | None,
    label: str | None,
    bounds: tuple[float, float] | None,
    epsilon: float,
    delta: float | None,
    unit: str | None,
    neighbours: str,
    max_rows: int | None,
    ledger_path: str | None,
    dataset_name: str | None,
    output_path: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Average what a saved model predicts for private rows, by group, with 95 % intervals that know their noise.

    DATA is a CSV, TSV, Excel or Parquet file with the columns of the model's schema; the target column may be missing.
    The groups are those of a column with categories or bins in the schema, or those that --value declares; none is ever
    taken from the rows. One release of noisy sums is made, and everything shown follows from it. A ledger is charged
    once, before a cell of DATA is read.

    \b
    Examples:
      dperm means model.json new_people.csv --epsilon 0.5
      dperm means model.json patients.csv --by sex --epsilon 0.5
      dperm means model.json patients.csv --by ward --value A --value B \\
          --other elsewhere --epsilon 0.5 --ledger study.ledger
    """
    from dperm.evaluation.means import mean_predictions
    from dperm.ledger import Ledger
    from dperm.models import read_model
    from dperm.models.atomic import check_writable

    check_capacity(neighbours, max_rows)
    if by is None and (values or other is not None):
        raise click.UsageError("--value and --other are about the groups; give --by too.")
    if dataset_name is not None and ledger_path is None:
        raise click.UsageError("--dataset-name is about the ledger; give --ledger too.")
    path = None if output_path is None else Path(output_path)
    if path is not None:
        check_free(path, force)
        check_writable(path)
    estimator, schema = read_model(model)
    if schema is None:
        raise InvalidInput(
            f"{Path(model).name} was saved without a schema, so records cannot be turned into features. Average from "
            "Python with dperm.mean_predictions, or save it with save_model(..., schema=...)."
        )
    budget = Budget(epsilon, estimator.privacy_.budget["delta"] if delta is None else delta)
    budget.check_gaussian()
    groups = None if by is None else grouping(schema, by, values)
    beside = None if groups is None else groups.beside
    rows = Announced(data, counted_by(schema, unit), max_rows, labelled=False, beside=beside)
    column = None if groups is None else rows.made_of_records(groups.of_records, groups.name)
    found = mean_predictions(
        estimator,
        rows.X,
        budget,
        by=column,
        values=None if groups is None else list(groups.values),
        other=other,
        label=None if label is None else _class_named(label, list(schema.classes)),
        bounds=bounds,
        groups=rows.groups,
        unit=unit,
        neighbours=neighbours,
        max_rows=max_rows,
        ledger=None if ledger_path is None else Ledger(ledger_path),
        dataset=dataset_name,
    )
    hand_out(found, path, force, as_json)


def _class_named(text: str, classes: list[Any]) -> Any:
    """The class that is written so."""
    found = [known for known in classes if str(known) == text]
    if not found:
        names = [str(known) for known in classes]
        raise InvalidInput(f"--label {text!r} is no class of the target.{did_you_mean(text, names)}")
    return found[0]
