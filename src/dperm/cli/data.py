"""What the commands take as DATA: the name of a data set, or a CSV or Parquet file with a schema."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dperm.datasets import (
    Schema,
    dataset_names,
    dataset_schema,
    encode,
    encode_target,
    load_dataset,
    read_table,
)
from dperm.errors import InvalidInput


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """Encoded rows of norm at most 1, their labels, the schema that made them, and the published test part."""

    name: str
    schema: Schema
    X: NDArray[np.float64]
    y: NDArray[Any]
    held_out: NDArray[np.bool_] | None = None

    @property
    def summary(self) -> str:
        return f"{self.name}: {self.X.shape[0]:,} rows, {self.X.shape[1]} features"


def load(data: str, schema_path: str | None, target: str | None) -> Data:
    """Read and encode DATA; ``target`` replaces the name of the target column in the schema."""
    if schema_path is not None:
        schema = Schema.from_toml(schema_path)
    elif is_named(data):
        schema = dataset_schema(data)
    else:
        raise click.UsageError(
            f"{Path(data).name} is a file, so --schema is needed: a TOML file that declares the columns with "
            "their ranges or categories, and the target. Nothing is learned from the rows themselves."
        )
    if target is not None:
        schema = replace(schema, target=replace(schema.target, name=target))
    if len(schema.classes) < 2:
        raise InvalidInput(
            f"the target {schema.target.name!r} must have at least two classes; the schema has {len(schema.classes)}."
        )
    table = read_records(data, schema)
    published = is_named(data) and "split" in table.column_names
    return Data(
        name=Path(data).stem,
        schema=schema,
        X=encode(table, schema),
        y=encode_target(table, schema),
        held_out=table["split"].to_numpy() == "test" if published else None,
    )


def read_records(data: str, schema: Schema) -> Any:
    """The table of DATA, as far as the schema declares it. The number of its rows is public, and not 0."""
    table = load_dataset(data).table if is_named(data) else read_table(data, schema)
    if table.num_rows == 0:
        raise InvalidInput(f"{Path(data).name}: the file holds no rows.")
    return table


def is_named(data: str) -> bool:
    """Whether DATA names a data set; a file of the same name is reached as ./NAME."""
    if data in dataset_names():
        return True
    if not Path(data).suffix and not Path(data).exists():
        raise InvalidInput(
            f"{data!r} is neither a file nor one of the data sets {', '.join(dataset_names())}."
        )
    return False
