"""``dperm predict``, ``dperm show`` and ``dperm export``: what a saved model is good for."""

import csv
import io
from pathlib import Path
from typing import Any

import click

from dperm.cli import completion
from dperm.cli.data import model_with_schema, read_records
from dperm.cli.options import (
    OneOf,
    bar,
    data_argument,
    file_argument,
    file_option,
    force_option,
    import_option,
    json_option,
)
from dperm.cli.output import check_free, print_json, say
from dperm.errors import InvalidInput, Unsupported
from dperm.models.terms import AGAINST, MEAN


@click.command(short_help="Use a saved model.")
@file_argument("model")
@data_argument()
@file_option("--output", "output_path", "CSV or Parquet file to write to.", "standard output")
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
    from dperm.schema import encode_rows

    if output_path is not None:
        check_free(Path(output_path), force)
        if Path(output_path).suffix.lower() not in (".csv", ".parquet"):
            raise InvalidInput(f"{output_path}: a name ending in .csv or .parquet was expected.")
    estimator, schema = model_with_schema(model)
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


@click.command(short_help="Show what a saved model says of each feature.")
@file_argument("model")
@file_option(
    "--schema",
    "schema_path",
    "TOML file that declares the columns, for a model that was saved without.",
    "the one in the model",
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

    shown = summary(model, schema_path, against=against)
    if as_json:
        print_json(shown.to_dict())
    else:
        say(str(shown))


@click.command(short_help="Write a saved model as ONNX.")
@file_argument("model")
@click.argument("output", metavar="FILE.onnx", shell_complete=completion.files)
@click.option(
    "--raw", is_flag=True, help="Take the columns of the schema instead of encoded rows, one input each."
)
@force_option
@import_option
def export(model: str, output: str, raw: bool, force: bool) -> None:
    """Write a saved model to an ONNX file, which other software can predict with.

    The graph gives label and probabilities (of a regression variable, of a linear SVM label and scores), and takes
    encoded rows as one float32 matrix X. With --raw it takes the columns of the schema: numbers as float64 with NaN
    where one is missing, dates as days since 1970-01-01, text, or truth values. The metadata name ε, δ and the
    digest of the certificate. It costs no privacy. It needs the package onnx: pip install 'dperm[onnx]'.

    \b
    Examples:
      dperm export model.json model.onnx
      dperm export model.json model.onnx --raw
    """
    from dperm.models.onnx import export_onnx

    if Path(output).suffix.lower() != ".onnx":
        raise InvalidInput(f"{output}: a name ending in .onnx was expected.")
    check_free(Path(output), force)
    export_onnx(model, output, raw=raw)
    click.echo(f"Wrote {output}.", err=True)
