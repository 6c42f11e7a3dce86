"""``dperm predict``: use a saved model."""

import csv
import io
from pathlib import Path
from typing import Any

import click

from dperm.cli import completion
from dperm.cli.data import read_records
from dperm.cli.options import data_argument, force_option, import_option, json_option
from dperm.cli.output import check_free, print_json
from dperm.errors import InvalidInput, Unsupported


@click.command(short_help="Use a saved model.")
@click.argument("model", shell_complete=completion.files)
@data_argument()
@click.option(
    "--output",
    "output_path",
    metavar="FILE",
    show_default="standard output",
    shell_complete=completion.files,
    help="CSV or Parquet file to write to.",
)
@click.option("--proba", is_flag=True, help="Also give the probability of each class.")
@force_option
@import_option
@json_option
def predict(model: str, data: str, output_path: str | None, proba: bool, force: bool, as_json: bool) -> None:
    """Predict a label, or a number in the units of the target, for every row of DATA, in its order.

    DATA is a CSV, TSV, Excel or Parquet file, or - for standard input, with the columns of the model's schema; the
    target column may be missing.
    Predictions from a private model cost no further privacy for the people it was trained on.

    \b
    Example:
      dperm predict model.json new_people.csv --proba --output predictions.csv
    """
    from dperm.models import read_model
    from dperm.schema import encode_rows

    if output_path is not None:
        check_free(Path(output_path), force)
        if Path(output_path).suffix.lower() not in (".csv", ".parquet"):
            raise InvalidInput(f"{output_path}: a name ending in .csv or .parquet was expected.")
    estimator, schema = read_model(model)
    if schema is None:
        raise InvalidInput(
            f"{Path(model).name} was saved without a schema, so records cannot be turned into features."
        )
    if proba and not hasattr(estimator, "predict_proba"):
        kind = (
            "predicts a number" if schema.target.range is not None else "was trained with a loss without them"
        )
        raise Unsupported(f"this model {kind}, so it gives no probabilities; leave out --proba.")
    X = encode_rows(read_records(data, schema), schema)
    columns: dict[str, list[Any]] = {"prediction": estimator.predict(X).tolist()}
    if proba:
        found = dict(zip(estimator.classes_.tolist(), estimator.predict_proba(X).T, strict=True))
        for label in estimator.class_order_.tolist():  # as the schema has them
            columns[f"probability of {label}"] = found[label].tolist()
    if output_path is not None:
        _write(columns, Path(output_path))
        click.echo(f"Wrote {len(X):,} predictions to {output_path}.", err=True)
    elif as_json:
        print_json(columns)
    else:
        click.echo(_csv(columns).encode(), nl=False)


def _csv(columns: dict[str, list[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue()


def _write(columns: dict[str, list[Any]], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dperm.models.atomic import atomic_path

    with atomic_path(path) as file:
        if path.suffix.lower() == ".csv":
            file.write_text(_csv(columns), encoding="utf-8")
        else:
            pq.write_table(pa.table(columns), file)
