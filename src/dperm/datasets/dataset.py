"""A table together with its schema and where it came from."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.codes import CodedTable
from dperm.errors import InvalidInput
from dperm.schema.encoding import encode, encode_codes, encode_target
from dperm.schema.schema import Schema
from dperm.schema.values import Category


@dataclass(frozen=True, eq=False, kw_only=True)
class Dataset:
    """A named table of records with a public schema.

    Attributes
    ----------
    name : str
    table : pyarrow.Table
        The records as published, before any encoding.
    schema : Schema
    source, licence : str
        Where the records came from and on what terms.
    """

    name: str
    table: Any = field(repr=False)
    schema: Schema = field(repr=False)
    source: str
    licence: str

    @cached_property
    def X(self) -> NDArray[np.float64]:
        """Encoded rows, each of norm at most 1. Made at the first use, then kept."""
        return encode(self.table, self.schema)

    @cached_property
    def coded(self) -> CodedTable:
        """The same rows as codes and a few floats: a tenth of the size, and faster to train on."""
        return encode_codes(self.table, self.schema)

    @cached_property
    def y(self) -> NDArray[Any]:
        """Labels, one of :attr:`classes` each."""
        return encode_target(self.table, self.schema)

    @property
    def classes(self) -> tuple[Category, ...]:
        """The declared labels; of two, the second is the positive one."""
        return self.schema.classes

    @property
    def n_rows(self) -> int:
        return int(self.table.num_rows)

    def part(self, name: str) -> "Dataset":
        """The rows of one part of a published split, usually ``train`` or ``test``."""
        import pyarrow.compute as pc

        if "split" not in self.table.column_names:
            raise InvalidInput(f"Dataset {self.name!r} was published without a split into parts.")
        rows = self.table.filter(pc.equal(self.table["split"], name))
        if rows.num_rows == 0:
            raise InvalidInput(
                f"Dataset {self.name!r} has no part {name!r}; the usual parts are train and test."
            )
        return replace(self, table=rows)

    def binary(self, negative: Category, positive: Category) -> "Dataset":
        """The rows of two of the declared classes, as a two-class dataset."""
        import pyarrow as pa
        import pyarrow.compute as pc

        target = self.schema.target
        if target.rest or negative == positive or not {negative, positive} <= set(target.classes):
            raise InvalidInput("binary needs two different classes that the schema lists by value.")
        column = self.table[target.name]
        wanted = pc.is_in(column, value_set=pa.array([negative, positive], type=column.type))
        schema = replace(self.schema, target=replace(target, classes=(negative, positive)))
        return replace(self, table=self.table.filter(wanted), schema=schema)
