"""``dperm evaluate``: how good a saved model is, on private test rows."""

from __future__ import annotations

from typing import Any

import click

from dperm.cli import completion
from dperm.cli.data import Announced, model_with_schema
from dperm.cli.options import (
    check_max_rows,
    counted_by,
    data_argument,
    file_option,
    force_option,
    import_option,
    json_option,
    ledger_options,
    max_rows_option,
    neighbours_option,
    unit_option,
)
from dperm.cli.output import free_output, hand_out
from dperm.privacy import Budget

NEITHER = (
    "every metric computed from private rows reveals something of them. Give --epsilon, the budget to spend on the "
    "evaluation, or --local for exact metrics that must not be published."
)
_LOCAL_ALONE = "--local shows exact metrics and spends nothing: leave out {}."


@click.command(short_help="Judge a saved model on private test rows.")
@click.argument("model", shell_complete=completion.files)
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
@unit_option
@neighbours_option("What is hidden: the content of a test row, or also whether it is there.")
@max_rows_option
@ledger_options
@file_option(
    "--output", "output_path", "JSON file for the evaluation, with all curves; dperm report shows it."
)
@force_option
@import_option
@json_option
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
    from dperm.ledger import Ledger

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
    budget = None
    if epsilon is not None:
        budget = Budget(epsilon, estimator.privacy_.budget["delta"] if delta is None else delta)
        budget.check_gaussian()
    if dataset_name is not None and ledger_path is None:
        raise click.UsageError("--dataset-name is about the ledger; give --ledger too.")
    rows = Announced(data, counted_by(schema, unit), max_rows)
    found = judge(
        estimator,
        rows.X,
        rows.y,
        budget,
        neighbours=neighbours,
        max_rows=max_rows,
        ledger=None if ledger_path is None else Ledger(ledger_path),
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
