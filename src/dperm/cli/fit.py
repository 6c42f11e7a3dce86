"""``dperm fit``: train one private model and save it."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from dperm.cli import options
from dperm.cli.data import announce
from dperm.cli.grammar import read_method
from dperm.cli.output import check_free, did_you_mean, print_json, say, say_where, still_free
from dperm.estimators.labels import check_class_weight
from dperm.planning.rules import L2
from dperm.privacy import Budget

class_weight_option = click.option(
    "--class-weight",
    "class_weights",
    metavar="LABEL=WEIGHT",
    multiple=True,
    show_default="1 each",
    help="Declared weight of a class, for rare ones. Repeatable; the noise grows with the largest.",
)


@click.command(short_help="Train one private model and save it.")
@options.data_argument()
@options.target_option
@options.schema_option
@options.spline_option
@click.option("--epsilon", type=float, required=True, help="Privacy budget ε; smaller is more private.")
@click.option(
    "--delta", type=float, required=True, help="Privacy budget δ; far below one over the number of rows."
)
@options.mechanism_option
@options.loss_option
@class_weight_option
@options.person_options
@click.option(
    "--inference",
    is_flag=True,
    help="Spend a share of the budget on what intervals of the coefficients are made of.",
)
@options.task_options
@options.ledger_options
@click.option(
    "--expect", metavar="HEAD", show_default="any", help="Head that the history of the ledger must hold."
)
@options.file_option("--output", "output_path", "JSON file for the model.", required=True)
@options.force_option
@options.json_option
def fit(
    data: str,
    target: str | None,
    schema_path: str | None,
    spline: int | None,
    epsilon: float,
    delta: float,
    mechanism: str,
    loss: str,
    class_weights: tuple[str, ...],
    person: str | None,
    person_loss: str | None,
    max_rows_per_person: int | None,
    inference: bool,
    l2: L2,
    neighbours: str,
    max_rows: int | None,
    ledger_path: str | None,
    expect: str | None,
    dataset_name: str | None,
    output_path: str,
    force: bool,
    as_json: bool,
) -> None:
    """Train one model with an (ε, δ) guarantee and save it with its schema and privacy report.

    DATA is a CSV, TSV, Excel or Parquet file, - for standard input, a folder that dperm convert has written, or the
    name of a data set. Its schema decides what is fitted: a classifier for a target with classes, a regression for a
    number with a range.

    Each run spends its budget anew: the budgets of several models on the same people add up. A ledger counts them and
    refuses a run that would exceed its cap. It is charged before a cell of DATA is read, and only if the model can be
    written to --output. Ids of persons alone are read before, to count the persons.

    With person = "COLUMN" in the schema, or --person COLUMN, the guarantee is for a person with all rows of theirs.

    \b
    Examples:
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --output model.json
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --mechanism 'rsgd-ar epochs=10 batch_size=500' --output model.json
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --neighbours add-remove --max-rows 100000 --output model.json
      dperm fit people.csv --schema people.toml --epsilon 1 --delta 1e-8 \\
          --class-weight yes=5 --class-weight no=1 --output model.json
      dperm fit visits.csv --schema visits.toml --person patient_id \\
          --epsilon 1 --delta 1e-8 --output model.json
    """
    from dperm.estimators.linear_classifier import estimator_for
    from dperm.ledger import Ledger
    from dperm.models import save_model
    from dperm.models.atomic import check_writable

    path = Path(output_path)
    check_free(path, force)
    Budget(epsilon, delta)
    method = read_method(mechanism)
    options.check_max_rows(neighbours, max_rows)
    check_writable(path)
    if expect is not None and ledger_path is None:
        raise click.UsageError("--expect is about the ledger; give --ledger too.")
    ledger = None if ledger_path is None else Ledger(ledger_path, expect=expect)
    records = announce(data, schema_path, target, max_rows, spline, person)
    model = estimator_for(
        records.schema.target,
        loss,
        epsilon=epsilon,
        delta=delta,
        mechanism=method,
        l2=l2,
        x_norm=1.0,
        neighbours=neighbours,
        max_rows=max_rows,
        inference=inference,
        ledger=ledger,
        dataset=dataset_name,
        **options.about_persons(records.schema, person_loss, max_rows_per_person),
    )
    weigh_classes(model, class_weights, records.schema.classes)
    click.echo(f"Training on {records.summary}.", err=True)
    model.fit(records.X, records.y, groups=records.groups)
    path = still_free(path, force)
    save_model(model, path, schema=records.schema)
    if as_json:
        print_json({"model": str(path), "privacy": model.privacy_.to_dict()})
    else:
        say(str(model.privacy_))
    say_where(model.ledger_entry_, path)


def weigh_classes(model: Any, texts: Sequence[str], classes: Sequence[Any]) -> None:
    """Set ``class_weight`` on a model, for labels as the schema declares them."""
    if not texts:
        return
    labels = {str(label): label for label in classes}
    if not labels:
        raise click.UsageError("--class-weight is for classes, and the target is a number.")
    weights = dict(_pair(text, labels) for text in texts)
    if len(weights) < len(texts):
        raise click.UsageError("--class-weight names a class twice.")
    check_class_weight(weights)
    model.set_params(class_weight=weights)


def _pair(text: str, labels: dict[str, Any]) -> tuple[Any, float]:
    label, _, number = text.rpartition("=")
    if text == "balanced":
        raise click.UsageError(
            "--class-weight balanced would count the labels of the private rows; declare weights, for example "
            + " ".join(f"--class-weight {known}=1" for known in list(labels)[:2])
            + "."
        )
    if label not in labels:
        raise click.UsageError(
            f"--class-weight wants LABEL=WEIGHT with a label of the schema, {', '.join(labels)}; got {text!r}."
            f"{did_you_mean(label, labels)}"
        )
    with suppress(ValueError):
        return labels[label], float(number)
    raise click.UsageError(f"--class-weight {label}=... wants a number; got {number!r}.")
