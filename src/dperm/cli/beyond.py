"""DATA beyond memory: a folder of shards, or a table that is converted to shards while it is fitted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from dperm.cli.data import Announced, check_target, declared, is_named
from dperm.schema import Schema, look_at

MANY_CELLS = 2**26
"""Cells of a file from which on it is fitted through shards, by the public numbers of its rows and columns."""


class AnnouncedShards:
    """As ``Announced``, of rows that are never in memory at once. The labels are beside them, so y is None."""

    y = None
    groups = None
    """Whose rows they are lies beside them too."""

    def __init__(self, name: str, shards: Any, schema: Schema, max_rows: int | None) -> None:
        self.schema, self.X = schema, shards
        number = f"{sum(shards.sizes):,}" if max_rows is None else f"at most {max_rows:,}"
        what = f"{number} rows"
        if (
            schema.person is not None
        ):  # how many rows they have is private, and how many they are is not known yet
            what = "persons" if max_rows is None else f"{number} persons"
        self.summary = f"{name}: {what}, {shards.n_features} features, in shards"


def announce(
    data: str,
    schema_path: str | None,
    target: str | None,
    max_rows: int | None,
    spline: int | None,
    person: str | None,
) -> Announced | AnnouncedShards:
    """The public facts of DATA, and rows that are read when they are asked for."""
    path = Path(data)
    if path.is_dir() and any(path.glob("*.npy")):
        return _folder(path, (schema_path, target, spline, person), max_rows)
    schema = declared(data, schema_path, target, spline, person)
    if target is not None and not (is_named(data) or path.is_dir()):
        check_target(look_at(path, schema)[0], data, schema_path, target)
    if not is_named(data) and (path.is_dir() or _is_large(path, schema)):
        from dperm.data import open_shards

        return AnnouncedShards(path.stem, open_shards(path, schema), schema, max_rows)
    return Announced(data, schema, max_rows)


def _folder(path: Path, said: tuple[Any, ...], max_rows: int | None) -> AnnouncedShards:
    from dperm.data import FolderShards

    if any(option is not None for option in said):
        raise click.UsageError(
            f"{path.name} is a folder of shards, which have their schema: leave out --schema, --target, "
            "--spline and --person."
        )
    shards = FolderShards(path)
    if shards.schema is None:
        raise click.UsageError(f"{path.name}: these shards have no schema; fit them from Python.")
    return AnnouncedShards(path.stem, shards, shards.schema, max_rows)


def _is_large(path: Path, schema: Schema) -> bool:
    if not path.is_file():
        return False
    names, rows = look_at(path, schema)
    return rows * len(names) > MANY_CELLS
