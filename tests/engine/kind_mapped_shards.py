"""Memory maps in shards, for the laws of every engine."""

from typing import Any

import kind_mapped

from dperm.engine import ShardedRows
from dperm.engine.shards.sources import ArrayShards
from dperm.row_map import RowMap

name = "mapped-shards"
slow = True


def rows(X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> ShardedRows:
    n = len(X)
    sizes = [n // 3, n - n // 3] if n > 2 else [n]
    return ShardedRows.of(
        ArrayShards(kind_mapped.memory_map(X), sizes), y, row_map=row_map, n_rows=n_rows, mask=mask
    )
