"""``dperm evaluate`` and ``dperm means``: how good a saved model is on private rows, and what it predicts there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from dperm.cli.data import Announced, model_with_schema
from dperm.cli.options import check_max_rows, counted_by, data_argument, file_argument, release_options
from dperm.cli.output import did_you_mean, free_output, hand_out
from dperm.errors import InvalidInput
from dperm.privacy import Budget
from dperm.schema import Schema
from dperm.schema.columns import NUMBERS, TEXT, arrow_columns, kind_of
from dperm.schema.encoding import level_codes
from dperm.schema.features import Categorical, Hashed, Numeric
from dperm.schema.schema import Feature

if TYPE_CHECKING:
    from dperm.ledger import Ledger

NEITHER = (
    "every metric computed from private rows reveals something of them. Give --epsilon, the budget to spend on the "
    "evaluation, or --local for exact metrics that must not be published."
)
_LOCAL_ALONE = "--local shows exact metrics and spends nothing: leave out {}."


@click.command(short_help="Judge a saved model on private test rows.")
@file_argument("model")
@data_argument()
@click.option(
    "--epsilon", type=float, show_default="none; or --local", help="Privacy budget ε of the evaluation."
)
@click.option(
    "--delta", type=float, show_default="that of the model", help="Privacy budget δ of the evaluation."
)
@click.option(
    "--local",
    is_flag=True,
    help="Exact metrics instead, for the owner of the data alone: NOT private, not to be published.",
)
@click.option(
    "--bins",
    type=int,
    show_default="64, or fewer where noise is large",
    help="Bins of the scores, for AUC and curves.",
)
@click.option(
    "--error-bound",
    type=float,
    show_default="the length of the target's range",
    help="Regression: larger errors count as this one, with less noise. Known without the rows.",
)
@release_options("test row", "JSON file for the evaluation, with all curves; dperm report shows it.")
def evaluate(
    model: str,
    data: str,
    epsilon: float | None,
    delta: float | None,
    local: bool,
    bins: int | None,
    error_bound: float | None,
    unit: str | None,
    neighbours: str,
    max_rows: int | None,
    ledger_path: str | None,
    dataset_name: str | None,
    output_path: str | None,
    force: bool,
    as_json: bool,
) -> None:
    """Judge a saved model on private test rows, every metric with a 95 % interval that accounts for its noise.

    DATA is a CSV or Parquet file with the columns of the model's schema, the target among them, and rows that the model
    was not trained on. One release of noisy counts is made, and everything shown follows from it. A ledger is charged
    once, before a cell of DATA is read; if nobody in DATA was in the training table, give the test rows a dataset of
    their own there. Of a model whose schema names persons each of them counts once, each of k rows as 1/k; their ids
    are read before the charge, to count them.

    \b
    Examples:
      dperm evaluate model.json test.csv --epsilon 0.5
      dperm evaluate model.json test.csv --epsilon 0.5 --delta 1e-6 \\
          --ledger study.ledger --dataset-name test --output evaluation.json
      dperm evaluate model.json test.csv --local
    """
    from dperm.evaluation import evaluate as judge

    if not local and epsilon is None:
        raise click.UsageError(NEITHER)
    if local:
        _check_local(
            epsilon=epsilon, delta=delta, ledger=ledger_path, dataset_name=dataset_name, max_rows=max_rows
        )
    else:
        check_max_rows(neighbours, max_rows)
    path = free_output(output_path, force)
    estimator, schema = model_with_schema(
        model, "Evaluate it from Python with dperm.evaluate, or save it with save_model(..., schema=...)."
    )
    budget = None if epsilon is None else _budget(epsilon, delta, estimator)
    ledger = _ledger(ledger_path, dataset_name)
    rows = Announced(data, counted_by(schema, unit), max_rows)
    found = judge(
        estimator,
        rows.X,
        rows.y,
        budget,
        neighbours=neighbours,
        max_rows=max_rows,
        ledger=ledger,
        dataset=dataset_name,
        groups=rows.groups,
        unit=unit,
        bins=bins,
        error_bound=error_bound,
        local=local,
    )
    hand_out(found, path, force, as_json)


def _check_local(**given: Any) -> None:
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value is not None]
    if wrong:
        raise click.UsageError(_LOCAL_ALONE.format(" and ".join(wrong)))


def _budget(epsilon: float, delta: float | None, estimator: Any) -> Budget:
    """What a release of counts may spend, at the delta of the model unless another is given."""
    budget = Budget(epsilon, estimator.privacy_.budget["delta"] if delta is None else delta)
    budget.check_gaussian()
    return budget


def _ledger(path: str | None, dataset_name: str | None) -> Ledger | None:
    from dperm.ledger import Ledger

    if dataset_name is not None and path is None:
        raise click.UsageError("--dataset-name is about the ledger; give --ledger too.")
    return None if path is None else Ledger(path)


@dataclass(frozen=True)
class Grouping:
    """The column ``name``, the ``values`` that make a group, and what is to be read ``beside`` the schema for it."""

    name: str
    values: tuple[str, ...]
    feature: Numeric | Categorical | None = None
    beside: Feature | None = None

    def of_records(self, table: Any) -> NDArray[Any]:
        """The value of each record in words, None where it has none."""
        column = arrow_columns(table, [self.name])[self.name]
        if self.feature is None:
            return _texts(column)
        levels = np.array([*self.feature.levels, None], object)
        codes = level_codes(self.feature, column)
        return np.asarray(levels[np.where(codes < 0, len(levels) - 1, codes)])


def grouping(schema: Schema, by: str, values: Sequence[str]) -> Grouping:
    """By a feature with categories or bins, all of them or those given; by another column as given."""
    if by == schema.target.name:
        raise InvalidInput(f"--by must name another column than {by!r}, the one that is predicted.")
    feature = next((item for item in schema.features if item.name == by), None)
    if isinstance(feature, Numeric | Categorical) and feature.levels:
        unknown = [value for value in values if value not in feature.levels]
        if unknown:
            raise InvalidInput(
                f"--value {unknown[0]!r} is no category or bin of {by!r} in the schema of the model."
                f"{did_you_mean(unknown[0], feature.levels)}"
            )
        return Grouping(by, tuple(values) or tuple(feature.levels), feature)
    if feature is not None and not isinstance(feature, Hashed):
        raise InvalidInput(
            f"--by {by!r} is a number or a date without bins in the schema; groups need bins there."
        )
    if not values:
        known = [item.name for item in schema.features if isinstance(item, Categorical)]
        raise InvalidInput(
            f"the schema of the model declares no categories or bins for {by!r}: give --value for each value that "
            f"makes a group.{did_you_mean(by, known)}"
        )
    return Grouping(by, tuple(values), None, Hashed(name=by, hashed=2) if feature is None else None)


def _texts(column: Any) -> NDArray[Any]:
    """Whole numbers as text is how the command line writes them."""
    import pyarrow as pa

    if kind_of(column) == NUMBERS and pa.types.is_integer(column.type):
        column = column.cast(pa.string())
    if kind_of(column) not in (None, TEXT):
        raise InvalidInput("the column that --by names must hold text or whole numbers.")
    return np.array(column.to_pylist(), object)


@click.command(short_help="Average predictions for private rows, by group.")
@file_argument("model")
@data_argument()
@click.option(
    "--by",
    metavar="COLUMN",
    show_default="none; all rows are one group",
    help="Column with the group of a row.",
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
@release_options("row", "JSON file for the means.")
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
    """Average what a saved model predicts for private rows, by group, with 95 % intervals that account for their noise.

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

    check_max_rows(neighbours, max_rows)
    if by is None and (values or other is not None):
        raise click.UsageError("--value and --other are about the groups; give --by too.")
    ledger = _ledger(ledger_path, dataset_name)
    path = free_output(output_path, force)
    estimator, schema = model_with_schema(
        model, "Average from Python with dperm.mean_predictions, or save it with save_model(..., schema=...)."
    )
    budget = _budget(epsilon, delta, estimator)
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
        ledger=ledger,
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
