"""The rows of a cell in files of a folder: shards for this library, pieces in CSR for scikit-learn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from scipy import sparse

from dperm.data import write_shards
from dperm_papers.scale.cells import Shape
from dperm_papers.scale.rows import Labels, one_hot_pieces, record_entries, record_tables, schema

WARM_ROWS = 50_000
"""Rows of the fit that comes before all that are timed."""

_PARTS = ("data", "indices", "indptr", "y")


def expected_bytes(shape: Shape) -> int:
    """Of the files in either form, on the high side."""
    return 12 * shape.n * record_entries(shape.p)


def write(shape: Shape, folder: Path, *, private: bool, seed: int) -> None:
    """``rows`` and ``warm``: all rows, and a few to warm up on."""
    for name, n in (("rows", shape.n), ("warm", WARM_ROWS)):
        if private:
            write_shards(record_tables(n, shape.p, seed), schema(shape.p), folder / name)
        else:
            _write_pieces(folder / name, n, shape.p, seed)


def _write_pieces(folder: Path, n: int, p: int, seed: int) -> None:
    folder.mkdir(parents=True)
    for place, (X, y) in enumerate(one_hot_pieces(n, p, seed)):
        for name, array in zip(_PARTS, (X.data, X.indices, X.indptr, y), strict=True):
            np.save(folder / f"{place:05d}-{name}.npy", array)


def read_pieces(folder: Path, p: int) -> Iterator[tuple[sparse.csr_array, Labels]]:
    """What was written for scikit-learn, one piece after the other."""
    for path in sorted(folder.glob("*-y.npy")):
        place = path.name.removesuffix("-y.npy")
        data, indices, indptr, y = (np.load(folder / f"{place}-{name}.npy") for name in _PARTS)
        yield sparse.csr_array((data, indices, indptr), shape=(len(y), p)), y


def bytes_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())
