"""``dperm convert``: a table of any size, written once to a folder of shards that ``dperm fit`` reads."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.progress import TextColumn

from dperm.cli import completion, options
from dperm.cli.output import print_json, progress_bars

if TYPE_CHECKING:
    from dperm.data import FolderShards


@click.command(short_help="Write a large table to shards, once.")
@options.data_argument("source")
@options.target_option
@options.schema_option
@options.spline_option
@options.person_option
@click.option(
    "--out",
    "folder",
    metavar="FOLDER",
    show_default="none, with --check",
    shell_complete=completion.folders,
    help="New or empty folder for the shards.",
)
@click.option(
    "--rows-per-shard",
    type=click.IntRange(1),
    metavar="ROWS",
    show_default="32 MB",
    help="How many rows a shard holds.",
)
@click.option("--check", is_flag=True, help="Compare every byte of the shards with its checksum.")
@options.json_option
def convert(
    source: str,
    target: str | None,
    schema_path: str | None,
    spline: int | None,
    person: str | None,
    folder: str | None,
    rows_per_shard: int | None,
    check: bool,
    as_json: bool,
) -> None:
    """Convert SOURCE to a folder of shards, in memory that does not grow with the number of rows.

    SOURCE is a CSV, TSV, Excel or Parquet file, - for standard input, a folder of Parquet files, or the name of a data
    set. dperm fit and PrivateLogisticRegression().fit take the folder in place of the table. An interrupted run goes
    on where it was when it is started again. Shards hold every row: keep them as you keep the table.

    With --check alone SOURCE is a folder of shards, and nothing is written.

    \b
    Examples:
      dperm convert people.parquet --schema people.toml --out people.shards
      dperm fit people.shards --epsilon 1 --delta 1e-8 --output model.json
      dperm convert people.shards --check
    """
    from dperm.data import FolderShards, write_shards

    if folder is None:
        if not check:
            raise click.UsageError(
                "--out is needed: the folder to write to. Or give --check for a folder of shards."
            )
        _show(FolderShards(source, check=True), source, True, as_json)
        return
    from dperm.cli.data import declared, is_named
    from dperm.datasets import load_dataset

    schema = declared(source, schema_path, target, spline, person)
    table: Any = load_dataset(source).table if is_named(source) else source
    with progress_bars(TextColumn("{task.completed:,.0f} rows")) as bars:
        task = bars.add_task("Converting", total=None)

        def progress(done: int, total: int | None) -> None:
            bars.update(task, completed=done, total=total)

        written = write_shards(table, schema, folder, rows_per_shard=rows_per_shard, progress=progress)
    _show(FolderShards(folder, check=True) if check else written, folder, check, as_json)


def _show(shards: FolderShards, folder: str, checked: bool, as_json: bool) -> None:
    rows, features = shards.shape
    facts = {
        "folder": str(Path(folder)),
        "rows": rows,
        "features": features,
        "shards": len(shards.sizes),
        "checked": checked,
    }
    if as_json:
        print_json(facts)
        return
    count = f"{len(shards.sizes)} shard{'' if len(shards.sizes) == 1 else 's'}"
    state = "every checksum agrees" if checked else "as sensitive as the source"
    click.echo(f"{Path(folder).name}: {rows:,} rows, {features} features in {count}; {state}.")
