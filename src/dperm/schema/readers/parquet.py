"""Parquet files."""

from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from dperm.errors import InvalidInput
from dperm.schema.readers.base import ROWS_AT_ONCE, Reader, from_row
from dperm.schema.schema import Schema


class ParquetReader(Reader):
    """A Parquet file, whose columns have types of their own."""

    endings = (".parquet",)
    magic: ClassVar = {b"PAR1": ".parquet"}

    def column_types(self) -> dict[str, Any]:
        types: dict[str, Any] = self._of_file(
            lambda parquet: {field.name: field.type for field in parquet.schema_arrow}
        )
        return types

    def count(self) -> int:
        return int(self._of_file(lambda parquet: parquet.metadata.num_rows))

    def read(self, schema: Schema | None = None, *, as_text: bool = False, only: str | None = None) -> Any:
        def take(parquet: Any) -> Any:
            names = None if schema is None else self.wanted(parquet.schema_arrow.names, schema, only)
            return parquet.read(columns=names)

        return self._of_file(take)

    def batches(self, schema: Schema | None, skip: int, person: str | None) -> Iterator[Any]:
        """Row groups that are left out whole are not read."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.file, pre_buffer=False) as parquet:
                self.check_names(parquet.schema_arrow.names)
                names = None if schema is None else self.wanted(parquet.schema_arrow.names, schema)
                for group in range(parquet.num_row_groups):
                    rows = parquet.metadata.row_group(group).num_rows
                    if skip >= rows:
                        skip -= rows
                        continue
                    batches = parquet.iter_batches(ROWS_AT_ONCE, row_groups=[group], columns=names)
                    yield from from_row(batches, skip)
                    skip = 0
            return
        except (pa.ArrowException, OSError, UnicodeDecodeError):
            pass
        raise self._unreadable()

    def _of_file(self, take: Callable[[Any], Any]) -> Any:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.file) as parquet:
                self.check_names(parquet.schema_arrow.names)
                return take(parquet)
        except (pa.ArrowException, OSError, UnicodeDecodeError):  # the last for a column name
            pass  # its message may quote a cell, so it is left behind before another error is made
        raise self._unreadable()

    def _unreadable(self) -> InvalidInput:
        return InvalidInput(f"{self.file.name}: this is not a readable Parquet file.")
