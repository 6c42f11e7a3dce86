"""Tables that are no folder of shards yet, and what ``fit`` takes beside tables in memory."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import Any

from dperm.data.folder import FolderShards
from dperm.data.kinds import Kind
from dperm.data.writing import read_as, rows_of_a_shard, write_feed
from dperm.engine.registry import register_adapter
from dperm.engine.shards.sources import ShardSource
from dperm.errors import InvalidInput
from dperm.schema import Schema, look_at


class ConvertedShards(ShardSource):
    """The rows of a table beyond memory. The first that are asked for make all of them be converted.

    The shards lie in a private folder among the system's temporary files, until ``close`` or the end of the process.
    To fit more than once, convert once: ``write_shards``.
    """

    keeps_places = True

    persons_are_apart = False

    def __init__(
        self, table: Any, schema: Schema | None, y: str | None = None, person: str | None = None
    ) -> None:
        kind, self._feed = read_as(table, schema, y, None, person)
        self._kind: Kind = kind
        self._size = rows_of_a_shard(kind, None)
        total = self._feed.total
        if total is None and isinstance(table, str | Path) and Path(table).is_file():
            total = look_at(table, schema)[1]
        if total is None:
            raise InvalidInput(
                "nothing says how many rows there are before they are read; write them to a folder first: write_shards."
            )
        full, rest = divmod(total, self._size)
        self.sizes = (*[self._size] * full, *([rest] if rest else []))
        self.n_features, self.feature_names = kind.n_features, kind.feature_names
        self.classes, self.has_labels, self.person = kind.classes, kind.has_labels, kind.person
        self.schema = schema
        self._folder = Path(tempfile.mkdtemp(prefix="dperm-shards-"))
        self.key = self._folder.name
        self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._shards: FolderShards | None = None

    def load(self, shard: int) -> tuple[Any, Any]:
        return self._converted().load(shard)

    def labels(self, shard: int) -> Any:
        return self._converted().labels(shard)

    def persons(self, shard: int) -> Any:
        return self._converted().persons(shard)

    def rest(self, shard: int) -> None:
        if self._shards is not None:
            self._shards.rest(shard)

    def close(self) -> None:
        self._shards = None
        self._remove()

    def _converted(self) -> FolderShards:
        if self._shards is None:
            if not self._remove.alive:
                raise InvalidInput("these rows were closed; open them again.")
            found = write_feed(self._kind, self._feed, self._size, self._folder)
            if found.sizes != self.sizes:
                raise InvalidInput(
                    "the table has not the number of rows that was told before; leave it alone meanwhile."
                )
            self._shards = found
        return self._shards

    def __reduce__(self) -> tuple[Any, ...]:
        return FolderShards, (str(self._converted().folder),)


def open_shards(
    source: Any,
    schema: Schema | str | os.PathLike[str] | dict[str, Any] | None = None,
    *,
    check: bool = False,
) -> ShardSource:
    """Rows beyond memory, for ``fit``.

    Parameters
    ----------
    source
        Without a schema, a folder that ``write_shards`` or ``dperm convert`` has written. With one, a table that says
        how many rows it has: a PyArrow dataset or table, a file that ``read_table`` reads, a folder of Parquet files.
        It is converted, when a fit reads it, to a private temporary folder.
    schema : Schema, path or dictionary, optional
    check : bool
        Whether to read every byte of a folder of shards and compare it with its checksum. The sizes of the files are
        compared in any case.
    """
    if schema is None:
        return FolderShards(source, check=check)
    return ConvertedShards(source, Schema.parse(schema))


def folder_shards(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    """X is the path of a folder that ``write_shards`` has written; it knows the persons of its rows, or none."""
    if not isinstance(X, str | os.PathLike):
        return None
    if not os.path.isdir(X):  # what text it is, is not told: it may be a record
        raise InvalidInput(
            "X is text, which stands for a folder of shards, and there is no such folder. Give the path of a folder "
            "that dperm convert or dperm.data.write_shards wrote, or a table of numbers."
        )
    shards = FolderShards(X)
    if isinstance(y, str):
        raise InvalidInput("a folder of shards knows its labels; leave y out.")
    return shards


def is_dataset(X: Any) -> bool:
    """Whether X is a PyArrow dataset; nothing is imported to find out."""
    known = sys.modules.get("pyarrow.dataset")
    return known is not None and isinstance(X, known.Dataset)


def dataset_shards(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    """X is a PyArrow dataset of numbers, y the name of the column with the labels, ``person`` of that with ids."""
    if not is_dataset(X):
        return None
    if not isinstance(y, str):
        raise InvalidInput(
            "a PyArrow dataset is fitted with y the name of its column of labels, if all other columns are numbers; "
            "with a schema, put a PublicEncoder before the model or fit open_shards(dataset, schema)."
        )
    return ConvertedShards(X, None, y, person)


register_adapter(folder_shards, opens=("builtins.str", "__fspath__"))
register_adapter(dataset_shards, opens=("pyarrow.Dataset",))
