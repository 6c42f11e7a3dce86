"""What every tool is given: a file of encoded rows, labels and folds, or of records for those that bin them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets import load_dataset
from dperm.experiments.splits import assign_folds, text_code
from dperm.models.atomic import atomic_path
from dperm.schema import encode, encode_target, feature_names
from dperm.schema.features import Categorical, Numeric, Target
from dperm.schema.schema import Schema

ENCODED, RECORDS = "encoded", "records"
FOLDS = 5
NUMBER_TARGETS = {"cps": Target(name="earnings", range=(0.0, 75.0), unit="dollars an hour")}
"""Sets of which a number is predicted, and its public range."""

ONE_COLUMN = {"cps": "education"}
"""For a tool that takes one column only: the one that explains most, which is not a private choice."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Table:
    """Rows of norm at most 1, labels 0 and 1 or numbers, and the fold of each row.

    ``files`` has the paths of what tools read; ``public`` what they may be told of it.
    """

    name: str
    task: str
    y: NDArray[Any]
    fold: NDArray[np.int64]
    digest: str
    files: Mapping[str, Path]
    public: Mapping[str, Any] = field(default_factory=dict)


def prepare(name: str, folder: Path, most_rows: int | None = None) -> Table:
    """Write the files of a named data set; the five folds are those of ``dperm compare``.

    Raises
    ------
    DataUnavailable
        When the records of the data set are not at hand.
    """
    found = load_dataset(name)
    table, schema, label = found.table, found.schema, name
    if name in NUMBER_TARGETS:
        schema = replace(schema, target=NUMBER_TARGETS[name])
    if most_rows is not None and most_rows < table.num_rows:
        table = table.take(np.random.default_rng(text_code(name)).permutation(table.num_rows)[:most_rows])
        label = f"{name}, {most_rows:,} rows"
    X, y = encode(table, schema), encode_target(table, schema)
    if schema.target.range is None:
        y = (y == schema.classes[1]).astype(np.int64)
    fold = assign_folds(label, 0, len(y), FOLDS)
    digest = hashlib.sha256(X.tobytes() + y.tobytes() + fold.tobytes()).hexdigest()[:16]
    files = {kind: folder / f"{name}-{digest}-{kind}.npz" for kind in (ENCODED, RECORDS)}
    folder.mkdir(parents=True, exist_ok=True)
    records, public = _records(table, schema)
    for kind, rows in ((ENCODED, X), (RECORDS, records)):
        _write(files[kind], rows, y, fold)
    numbers: dict[str, Any] = {}
    if schema.target.range is not None:
        one = feature_names(schema).index(ONE_COLUMN[name])
        numbers = {"y_range": schema.target.range, "x_range": (-1.0, 1.0), "column": one}
        numbers["column_range"] = _ends(table, schema, ONE_COLUMN[name], one)
    return Table(
        name=label,
        task="classes" if schema.target.range is None else "numbers",
        y=y,
        fold=fold,
        digest=digest,
        files=files,
        public={"records": public, **numbers},
    )


def _write(path: Path, X: NDArray[Any], y: NDArray[Any], fold: NDArray[np.int64]) -> None:
    if not path.is_file():
        with atomic_path(path) as unfinished, unfinished.open("wb") as file:
            np.savez(file, X=X, y=y, fold=fold)


def _records(table: Any, schema: Schema) -> tuple[NDArray[Any], dict[str, Any]]:
    """Numbers cut off at their declared ranges and categories as texts, with their public types.

    Tools that bin numbers take no missing ones, so these become the lower end of the range.
    """
    columns: dict[str, NDArray[Any]] = {}
    types, bounds, categories = [], {}, {}
    for feature in schema.features:
        values = table[feature.name].to_pylist()
        if isinstance(feature, Numeric):
            low, high = feature.range
            given = [low if v is None or v in feature.missing else float(v) for v in values]
            columns[feature.name] = np.clip(np.array(given), low, high)
            types.append("continuous")
            bounds[feature.name] = low, high
        elif isinstance(feature, Categorical):
            columns[feature.name] = np.array([str(value) for value in values])
            types.append("nominal")
            categories[feature.name] = [str(value) for value in feature.categories]
    kinds = np.dtype([(name, column.dtype) for name, column in columns.items()])
    records = np.empty(table.num_rows, kinds)
    for name, column in columns.items():
        records[name] = column
    return records, {"types": types, "bounds": bounds, "categories": categories}


def _ends(table: Any, schema: Schema, name: str, column: int) -> tuple[float, float]:
    """The range of one encoded column, from the declared range of its feature."""
    import pyarrow as pa

    two = table.slice(0, 2)
    place = two.column_names.index(name)
    feature = next(feature for feature in schema.features if feature.name == name)
    assert isinstance(feature, Numeric)
    two = two.set_column(place, name, pa.array(feature.range, two.schema.field(name).type))
    low, high = encode(two, schema)[:, column].tolist()
    return low, high
