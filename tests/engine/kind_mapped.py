"""Rows in a NumPy memory map, for the laws of every engine."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from dperm.engine import MappedRows
from dperm.row_map import RowMap

name = "mapped"


def memory_map(X: Any) -> np.memmap:
    """The same numbers in a file that is gone when the map is: the system keeps what is mapped."""
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "X.npy"), np.ascontiguousarray(X))
        return np.load(Path(folder, "X.npy"), mmap_mode="r")


native = memory_map


def rows(X: Any, y: Any, *, row_map: RowMap, n_rows: int, mask: Any = None) -> MappedRows:
    return MappedRows.of(memory_map(X), y, row_map=row_map, n_rows=n_rows, mask=mask)
