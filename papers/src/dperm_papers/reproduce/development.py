"""The development sets of the defaults: the named data sets, and pairs of a table and a schema in a folder ``more``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets import dataset_names, load_dataset
from dperm.datasets.registry import data_folders
from dperm.errors import InvalidInput
from dperm.experiments.splits import text_code
from dperm.schema import Schema, encode, encode_target, feature_names, read_table
from dperm_papers.reproduce.data import Records

FOLDER = "more"
LARGEST = 260_000
"""Of larger tables a random part is used, drawn by the name alone."""

OWN_LARGEST: Mapping[str, int] = {"hotel_bookings": 20_000}
PUBLISHED_SPLIT = ("mnist",)
"""Sets that are judged on their published test part; all others by folds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DevelopmentSet:
    """A table with its schema; ``held_out`` is the published test part where that is used."""

    name: str
    schema: Schema
    table: Any
    held_out: NDArray[np.bool_] | None = None

    @property
    def kind(self) -> str:
        """ "binary", "classes" or "regression"."""
        if self.schema.target.range is not None:
            return "regression"
        return "binary" if len(self.schema.classes) == 2 else "classes"

    def records(self, *, plain: bool = False) -> Records:
        """Rows as the schema says, or with one plain column for every number; float32."""
        schema = self.schema.plain() if plain else self.schema
        X = encode(self.table, schema).astype(np.float32)
        return Records(name=self.name, X=X, y=encode_target(self.table, schema), held_out=self.held_out)


def development_sets() -> tuple[str, ...]:
    """The names of all sets: those of the library first."""
    return (*dataset_names(), *sorted(_pairs()))


def read(name: str, most_rows: int | None = None, most_work: float | None = None) -> DevelopmentSet:
    """The set of that name, with at most so many rows; ``most_work`` limits rows times columns squared.

    Raises
    ------
    DataUnavailable
        When the records of a named data set are not at hand.
    """
    if name in dataset_names():
        found = load_dataset(name)
        schema, table = found.schema, found.table
    else:
        schema, table = _read_pair(name)
    most = min(most_rows or LARGEST, OWN_LARGEST.get(name, LARGEST))
    if most_work is not None:
        thousands = int(most_work / len(feature_names(schema)) ** 2) // 1_000
        most = min(most, 1_000 * max(1, thousands))
    label = name
    if table.num_rows > most:
        table = table.take(np.random.default_rng(text_code(name)).permutation(table.num_rows)[:most])
        label = f"{name}, {most:,} rows"
    published = table["split"].to_numpy() == "test" if name in PUBLISHED_SPLIT else None
    return DevelopmentSet(name=label, schema=schema, table=table, held_out=published)


def _pairs() -> dict[str, Path]:
    """Tables that have a schema beside them, by name."""
    schemas = [path for folder in data_folders() for path in sorted((folder / FOLDER).glob("*.toml"))]
    tables = {path.stem: path.with_suffix(".parquet") for path in reversed(schemas)}
    return {name: path for name, path in tables.items() if path.is_file()}


def _read_pair(name: str) -> tuple[Schema, Any]:
    pairs = _pairs()
    if name not in pairs:
        raise InvalidInput(
            f"there is no data set {name!r}; choose from {', '.join(development_sets())}, or put {name}.parquet and "
            f"{name}.toml into the folder {FOLDER!r} of the data."
        )
    schema = Schema.from_toml(pairs[name].with_suffix(".toml"))
    return schema, read_table(pairs[name], schema)
