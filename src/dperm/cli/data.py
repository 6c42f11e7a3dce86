"""What the commands take as DATA: the name of a data set, or a CSV or Parquet file with a schema."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import click
import numpy as np
from numpy.typing import NDArray

from dperm.cli.output import did_you_mean
from dperm.datasets import dataset_names, dataset_rows, dataset_schema, load_dataset
from dperm.datasets.sparse_sets import SUFFIXES, load_sparse, sparse_names
from dperm.errors import InvalidInput
from dperm.person_ids import NumberedIds
from dperm.schema import CodedTable, Schema, encode_rows, encode_target, feature_names, look_at, read_table
from dperm.schema.columns import check_columns
from dperm.schema.encoding import checked_column, person_column
from dperm.schema.schema import Feature, predicting

Made = TypeVar("Made", bound=CodedTable | NDArray[Any] | NumberedIds)


@dataclass(frozen=True, eq=False, kw_only=True)
class Data:
    """Rows of norm at most 1, dense or sparse, their labels, the schema that made them, and the published test part."""

    name: str
    schema: Schema | None = None
    X: Any
    y: NDArray[Any]
    held_out: NDArray[np.bool_] | None = None
    groups: NumberedIds | None = None

    @property
    def n_units(self) -> int:
        """How many rows there are, or persons where the schema names them."""
        return int(self.X.shape[0]) if self.groups is None else len(self.groups.names)

    @property
    def summary(self) -> str:
        return f"{self.name}: {_counted(self.n_units, None, self.groups is not None)}, {self.X.shape[1]} features"


def _counted(number: int | None, max_rows: int | None, by_person: bool) -> str:
    """How many rows or persons there are, as far as that is public. Of persons the number of rows is private."""
    known = f"at most {max_rows:,} " if max_rows is not None else "" if number is None else f"{number:,} "
    return known + ("persons" if by_person else "rows")


def load(
    data: str,
    schema_path: str | None,
    target: str | None,
    spline: int | None = None,
    person: str | None = None,
) -> Data:
    """Read and encode DATA; ``target``, ``spline`` and ``person`` replace what the schema says of them."""
    schema = declared(data, schema_path, target, spline, person)
    table = read_records(data, schema)
    check_target(table.column_names, data, schema_path, target)
    published = is_named(data) and "split" in table.column_names
    return Data(
        name=Path(data).stem,
        schema=schema,
        X=encode_rows(table, schema),
        y=encode_target(table, schema),
        held_out=table["split"].to_numpy() == "test" if published else None,
        groups=None if schema.person is None else checked_column(table, schema.person),
    )


class Later:
    """Rows or labels that tell their shape now and are made when somebody looks at their values."""

    def __init__(
        self,
        shape: tuple[int, ...],
        make: Callable[[], Any],
        feature_names: list[str] | None = None,
        name: str | None = None,
    ) -> None:
        self.shape, self.feature_names, self.name = shape, feature_names, name
        self._make = make

    def read(self) -> Any:
        """Made now, in their own form."""
        return self._make()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.asarray(self._make(), dtype=dtype)


class Announced:
    """DATA of which the public facts are known: the schema, the names of the columns and the number of rows.

    ``X`` and ``y`` are made of the records when they are looked at, which is after a ledger was charged. With
    ``max_rows`` the number of rows is private: it is not shown, and there may be none at all. Where rows are not
    ``labelled`` the target may be missing. The column ``beside`` is read too, and is no feature of the rows. Where
    the schema names persons, ``groups`` are theirs: the column of ids is read to count them, and an id that cannot be
    read is refused with the rows.
    """

    def __init__(
        self,
        data: str,
        schema: Schema,
        max_rows: int | None = None,
        labelled: bool = True,
        beside: Feature | None = None,
    ) -> None:
        self.schema, self._data, self._max_rows = schema, data, max_rows
        more = () if beside is None else (beside,)
        self._read = replace(schema, features=(*schema.features, *more))
        if is_named(data):
            self.n_rows = dataset_rows(data)
        else:
            names, self.n_rows = look_at(data, self.schema)
            wanted = [item.name for item in (*self._read.features, *((schema.target,) if labelled else ()))]
            wanted += [] if schema.person is None else [schema.person]
            if beside is not None and beside.name not in names:
                raise InvalidInput(f"the table has no column named {beside.name!r}.")
            check_columns(dict.fromkeys(names), wanted)
        if self.n_rows == 0 and max_rows is None:
            raise InvalidInput(no_rows(data))
        self.X = Later(
            (self.n_rows, self.schema.n_columns),
            lambda: self._checked(encode_rows(self._table, self.schema)),
            feature_names(self.schema),
        )
        self.y = self.made_of_records(lambda table: encode_target(table, self.schema))

    def made_of_records(self, make: Callable[[Any], NDArray[Any]], name: str | None = None) -> Later:
        """What ``make`` makes of the table, one value for each record, once somebody looks at it."""
        return Later((self.n_rows,), lambda: self._checked(make(self._table)), name=name)

    @cached_property
    def groups(self) -> NumberedIds | None:
        """The person of each row; None where rows are on their own."""
        if self.schema.person is None:
            return None
        named = is_named(self._data)
        table = self._table if named else read_table(self._data, self.schema, only=self.schema.person)
        return self._checked(person_column(table, self.schema.person))

    @property
    def summary(self) -> str:
        number = self.n_rows if self.groups is None else len(self.groups.names)
        what = _counted(number, self._max_rows, self.groups is not None)
        return f"{Path(self._data).stem}: {what}, {self.schema.n_columns} features"

    @cached_property
    def _table(self) -> Any:
        return read_records(self._data, self._read, empty=self._max_rows is not None)

    def _checked(self, made: Made) -> Made:
        if self._max_rows is None and len(made) != self.n_rows:
            raise InvalidInput(
                f"{Path(self._data).name}: {self.n_rows:,} rows were counted and {len(made):,} read. Write the file "
                "anew, one row to a line, and leave it alone while it is read."
            )
        return made


def declared(
    data: str,
    schema_path: str | None,
    target: str | None,
    spline: int | None = None,
    person: str | None = None,
) -> Schema:
    """The schema of DATA.

    ``target`` is the column to predict instead, ``spline`` the number of splines of its numbers, and ``person`` names
    the column with the ids of persons.
    """
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
        schema = predicting(schema, target)
    if schema.target.range is None and len(schema.classes) < 2:
        raise InvalidInput(
            f"the target {schema.target.name!r} must have at least two classes; the schema has {len(schema.classes)}."
        )
    return (schema if person is None else replace(schema, person=person)).with_spline(spline)


def check_target(names: list[str], data: str, schema_path: str | None, target: str | None) -> None:
    """Refuse a --target that the table has not. The names of its columns are not shown: they may be a record."""
    if target is not None and target not in names:
        schema = declared(data, schema_path, None)
        known = [schema.target.name, *(feature.name for feature in schema.features)]
        raise InvalidInput(
            f"the table has no column named {target!r}, which --target asks for.{did_you_mean(target, known)}"
        )


def read_records(data: str, schema: Schema, empty: bool = False) -> Any:
    """The table of DATA, as far as the schema declares it. Unless it may be ``empty`` it holds a row."""
    table = load_dataset(data).table if is_named(data) else read_table(data, schema)
    if table.num_rows == 0 and not empty:
        raise InvalidInput(no_rows(data))
    return table


def model_with_schema(path: str, instead: str = "") -> tuple[Any, Schema]:
    """A saved model and the schema that turns records into its features."""
    from dperm.models import read_model

    estimator, schema = read_model(path)
    if schema is None:
        problem = f"{Path(path).name} was saved without a schema, so records cannot be turned into features."
        raise InvalidInput(f"{problem} {instead}".strip())
    return estimator, schema


def no_rows(data: str) -> str:
    return f"{Path(data).name}: the file holds no rows."


def is_named(data: str) -> bool:
    """Whether DATA names a data set; a file of the same name is reached as ./NAME."""
    if data in dataset_names():
        return True
    if not Path(data).suffix and not Path(data).exists():
        raise InvalidInput(
            f"{data!r} is neither a file nor one of the data sets {', '.join(dataset_names())}."
            f"{did_you_mean(data, dataset_names())}"
        )
    return False


MANY_CELLS = 2**26
"""Cells of a file from which on it is fitted through shards, by the public numbers of its rows and columns."""


class AnnouncedShards:
    """As ``Announced``, of rows that are never in memory at once. The labels are beside them, so y is None."""

    y = None
    groups = None
    """Whose rows they are lies beside them too."""

    def __init__(self, name: str, shards: Any, schema: Schema, max_rows: int | None) -> None:
        self.schema, self.X = schema, shards
        by_person = schema.person is not None  # how many they are is not known yet
        what = _counted(None if by_person else sum(shards.sizes), max_rows, by_person)
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
    large = path.is_dir()
    if path.is_file() and not is_named(data):
        names, rows = look_at(path, schema)
        check_target(names, data, schema_path, target)
        large = rows * len(names) > MANY_CELLS
    if large and not is_named(data):
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


hash_option = click.option(
    "--hash",
    "n_hashed",
    metavar="COLUMNS",
    type=click.IntRange(2),
    show_default="not hashed",
    help="Hash sparse rows or texts to so many columns, as PublicHasher does.",
)


def is_sparse_data(data: str) -> bool:
    """Whether DATA is a named set of text or a LIBSVM file."""
    return data in sparse_names() or Path(data).suffix in SUFFIXES


def load_sparse_data(data: str, n_hashed: int | None, **unfit: object) -> Data:
    """Read DATA and hash it; ``unfit`` are options that belong to tables with a schema."""
    for name, value in unfit.items():
        if value is not None:
            raise InvalidInput(f"--{name} belongs to tables with a schema; {Path(data).name} has none.")
    found = load_sparse(data)
    return Data(name=found.name, X=found.X if n_hashed is None else found.hashed(n_hashed), y=found.y)
