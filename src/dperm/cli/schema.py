"""``dperm schema``: draft the schema of a table, and find mistakes in it before anything is spent."""

from __future__ import annotations

from pathlib import Path

import click

from dperm.cli.options import Ordered, data_argument, file_option, force_option, json_option, target_option
from dperm.cli.output import check_free, print_json, say


@click.group(cls=Ordered, short_help="Draft a schema, or check one against the data.")
def schema() -> None:
    """Draft the schema of a table, and find mistakes in it before anything is spent.

    \b
    Examples:
      dperm schema init people.csv --target repaid --output people.toml
      dperm schema check people.csv --schema people.toml
    """


@schema.command(short_help="Write a draft from the names of the columns.")
@data_argument("file")
@click.option("--target", metavar="COLUMN", show_default="TODO", help="Column to predict.")
@file_option(
    "--from-codebook",
    "codebook",
    "CSV file with a row for each column: name, type, min, max, categories, missing, unit.",
)
@file_option("--output", "output_path", "TOML file to write to.", "standard output")
@force_option
def init(file: str, target: str | None, codebook: str | None, output_path: str | None, force: bool) -> None:
    """Write a draft of the schema of FILE: the names of its columns, and TODO where a person has to decide.

    Only names and storage types are looked at, never a value, so nothing is spent. A draft is refused by the other
    commands until every TODO is filled in, from a questionnaire or from knowledge of the subject. A code book does
    most of it.

    \b
    Examples:
      dperm schema init people.csv --target repaid --output people.toml
      dperm schema init people.csv --target repaid \\
          --from-codebook codebook.csv --output people.toml
    """
    from dperm.models.atomic import atomic_path
    from dperm.schema.drafts import draft_schema, read_codebook
    from dperm.schema.readers import column_types

    if output_path is not None:
        check_free(Path(output_path), force)
    columns = column_types(file)
    text = draft_schema(columns, target, None if codebook is None else read_codebook(codebook))
    if output_path is None:
        click.echo(text.encode(), nl=False)
        return
    with atomic_path(Path(output_path)) as draft:
        draft.write_text(text, encoding="utf-8")
    left = sum("TODO" in line for line in text.splitlines() if line and not line.startswith("#"))
    rest = f"{left} TODO{'s' if left > 1 else ''} to fill in" if left else "nothing is left to fill in"
    click.echo(f"Wrote {output_path}: {len(columns)} columns, {rest}.", err=True)


@schema.command(short_help="Compare a schema with the data; NOT PRIVATE.")
@data_argument("file")
@file_option("--schema", "schema_path", "TOML file that declares columns, ranges and classes.", required=True)
@target_option
@click.option("--strict", is_flag=True, help="Exit with 1 if something looks wrong.")
@json_option
@click.pass_context
def check(
    ctx: click.Context, file: str, schema_path: str, target: str | None, strict: bool, as_json: bool
) -> None:
    """Find mistakes in a schema: how many values of FILE it does not fit. THE REPORT IS NOT PRIVATE.

    It is for the owner of the data and stays beside them. It tells counts, never values: what lies outside a range, is
    no declared category, is missing or cannot be read, and constant columns, rows that are shortened, the balance
    of the classes. Mend spelling, units and types by it. A range or category that is chosen by it tells about the rows
    and no ledger counts that.

    \b
    Examples:
      dperm schema check people.csv --schema people.toml
      dperm schema check people.csv --schema people.toml --strict --json
    """
    from dataclasses import replace

    from dperm.cli.data import is_named
    from dperm.datasets import load_dataset
    from dperm.schema import Schema, check_schema, look_at, read_table

    declared = Schema.from_toml(schema_path)
    if target is not None:
        declared = replace(declared, target=replace(declared.target, name=target))
    if is_named(file):
        table = load_dataset(file).table
        names = list(table.column_names)
    else:
        names = look_at(file, declared)[0]
        table = read_table(file, declared, as_text=True)
    found = check_schema(table, declared, names=names)
    if as_json:
        print_json({"file": Path(file).name, "schema": Path(schema_path).name, **found.to_dict()})
    else:
        say(f"{Path(file).name} against {Path(schema_path).name}\n\n{found}")
    if strict and found.looks_wrong:
        ctx.exit(1)
