"""Some of the rows of a source: shards without the rows that nobody is to see."""

from __future__ import annotations

import uuid
from copy import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from dperm.codes import CodedTable
from dperm.engine.executors import Executor
from dperm.engine.shards import ShardSource


class KeptShards(ShardSource):
    """The shards of a source with the rows that ``kept`` says, one truth value for each row of all shards.

    Places are not kept: they depend on how many rows before were left out. Workers get the part of their own shard.
    """

    def __init__(self, source: ShardSource, kept: NDArray[np.bool_]) -> None:
        parts = np.split(kept, np.cumsum(source.sizes)[:-1])
        self._source = source
        self._kept = {shard: np.packbits(part) for shard, part in enumerate(parts)}
        self.sizes = tuple(int(part.sum()) for part in parts)
        self.n_features, self.feature_names = source.n_features, source.feature_names
        self.has_labels, self.classes = source.has_labels, source.classes
        self.key = uuid.uuid4().hex

    def load(self, shard: int) -> tuple[Any, Any]:
        return self._of(shard, self._source.load(shard))

    def labels(self, shard: int) -> Any:
        return np.asarray(self._source.labels(shard))[self._places(shard)]

    def given(self, shard: int, loaded: Any) -> tuple[Any, Any]:
        return self._of(shard, self._source.given(shard, loaded))

    def rest(self, shard: int) -> None:
        self._source.rest(shard)

    def executor(self) -> Executor:
        return self._source.executor()

    def part(self, shard: int) -> Self:
        part = copy(self)
        part._source = self._source.part(shard)
        part._kept = {shard: self._kept[shard]} if shard in self._kept else {}
        return part

    def _of(self, shard: int, loaded: tuple[Any, Any]) -> tuple[Any, Any]:
        (X, y), places = loaded, self._places(shard)
        if len(places) == self._source.sizes[shard]:
            return X, y
        return rows_at(X, places), None if y is None else np.asarray(y)[places]

    def _places(self, shard: int) -> NDArray[np.int64]:
        return np.flatnonzero(np.unpackbits(self._kept[shard], count=self._source.sizes[shard]))


def rows_at(rows: Any, places: NDArray[np.int64]) -> Any:
    """Some rows of a table in memory."""
    if isinstance(rows, CodedTable):
        return rows.take(places)
    if sparse.issparse(rows):
        return rows.tocsr()[places]
    return np.asarray(rows)[places]
