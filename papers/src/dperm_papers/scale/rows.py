"""Rows of a logistic model with known coefficients, made from a seed a piece at a time, as a fit takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from dperm.data import write_shards
from dperm.schema import CodedTable, Schema, encode_codes
from dperm_papers.scale.cells import CODED, DENSE, SPARSE, Shape

AT_ONCE = 250_000
ENTRIES = 50
"""Of a sparse row, before those that fall on the same column are added up."""

LABELS = ("no", "yes")
_LEVELS = (12, 5, 20, 8, 3, 16)
_DRAWS = 256

Labels = NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Made:
    """Rows and labels, the bytes that the rows take as they are given, and their entries that are not left out."""

    X: Any
    y: Labels
    n_bytes: int
    entries: int


def in_memory(shape: Shape, *, private: bool, seed: int) -> Made:
    """The rows as this library takes them, or as scikit-learn does: coded ones are one-hot in CSR for the latter."""
    if shape.kind == DENSE:
        return _dense(shape.n, shape.p, seed)
    if shape.kind == SPARSE:
        return _joined([_zipf(shape.p, seed, *part) for part in _parts(shape.n)])
    if shape.kind == CODED and private:
        return _coded(shape.n, shape.p, seed)
    return _joined(list(one_hot_pieces(shape.n, shape.p, seed)))


def _parts(n: int) -> Iterator[tuple[int, int]]:
    """Number and rows of every piece."""
    for place, first in enumerate(range(0, n, AT_ONCE)):
        yield place, min(AT_ONCE, n - first)


def _drawn(margin: NDArray[Any], rng: np.random.Generator) -> Labels:
    return (margin + rng.logistic(size=len(margin)) > 0).astype(np.int64)


def _dense(n: int, p: int, seed: int) -> Made:
    """Gaussian rows of norm about one."""
    X, y = np.empty((n, p), np.float32), np.empty(n, np.int64)
    coefficients = np.random.default_rng(seed).normal(size=p).astype(np.float32)
    for place, size in _parts(n):
        rng = np.random.default_rng([seed, place])
        block = X[place * AT_ONCE : place * AT_ONCE + size]
        rng.standard_normal(dtype=np.float32, out=block)
        block /= np.float32(np.sqrt(p))
        y[place * AT_ONCE : place * AT_ONCE + size] = _drawn(3 * (block @ coefficients), rng)
    return Made(X=X, y=y, n_bytes=X.nbytes, entries=X.size)


def _zipf(p: int, seed: int, place: int, size: int) -> tuple[sparse.csr_array, Labels]:
    """Columns by Zipf's law, as words are, and rows of norm below one."""
    public, rng = np.random.default_rng(seed), np.random.default_rng([seed, place])
    weight = 1 / (np.arange(p) + 20.0)
    column = public.permutation(p).astype(np.int32)
    coefficients = 6 * public.normal(size=p)
    drawn = np.searchsorted(np.cumsum(weight / weight.sum()), rng.random(size * ENTRIES)).clip(max=p - 1)
    data = (rng.random(size * ENTRIES, np.float32) / np.float32(np.sqrt(ENTRIES))).astype(np.float32)
    starts = np.arange(0, size * ENTRIES + 1, ENTRIES, dtype=np.int32)
    X = sparse.csr_array((data, column[drawn], starts), shape=(size, p))
    X.sum_duplicates()
    return X, _drawn(X @ coefficients, rng)


def _joined(pieces: list[tuple[sparse.csr_array, Labels]]) -> Made:
    X = sparse.vstack([X for X, _ in pieces], format="csr", dtype=np.float32)
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    return Made(X=X, y=np.concatenate([y for _, y in pieces]), n_bytes=n_bytes, entries=X.nnz)


def schema(p: int) -> Schema:
    """Categories of 2 to 20 levels and a number for every eighth column: ``p`` columns once they are encoded."""
    levels, numbers = _columns(p)
    features: dict[str, Any] = {f"c{k}": {"categories": _names(size)} for k, size in enumerate(levels)}
    features |= {f"x{k}": {"range": [-4, 4]} for k in range(numbers)}
    return Schema.parse(
        {"target": {"name": "label", "classes": list(LABELS)}, "rows": {"spline": 0}, "features": features}
    )


def _columns(p: int) -> tuple[list[int], int]:
    """Levels of every category and the number of numbers."""
    numbers = max(2, p // 8)
    levels: list[int] = []
    left = p - numbers
    while left > 0:
        size = min(_LEVELS[len(levels) % len(_LEVELS)], left)
        levels.append(left if left - size == 1 else size)  # no category of one level
        left -= levels[-1]
    return levels, numbers


def _names(size: int) -> list[str]:
    return [f"level {level}" for level in range(size)]


@dataclass(frozen=True, eq=False, kw_only=True)
class _Records:
    """Codes of every category, numbers and labels."""

    codes: list[NDArray[np.int8]]
    numbers: list[NDArray[np.float32]]
    y: Labels


def _records(n: int, p: int, seed: int) -> Iterator[_Records]:
    """Uneven categories and Gaussian numbers, a piece at a time."""
    levels, numbers = _columns(p)
    public = np.random.default_rng(seed)
    chances = [public.dirichlet(np.full(size, 2.0)) for size in levels]
    tables = [np.searchsorted(np.cumsum(some)[:-1], (np.arange(_DRAWS) + 0.5) / _DRAWS) for some in chances]
    pull = [public.normal(size=size) / np.sqrt(len(levels)) for size in levels]
    slopes = public.normal(size=numbers) / 3
    for place, size in _parts(n):
        rng = np.random.default_rng([seed, place])
        codes = [some.astype(np.int8)[rng.integers(0, _DRAWS, size, np.uint8)] for some in tables]
        values = [rng.standard_normal(size, np.float32) for _ in range(numbers)]
        margin = sum(one[code] for one, code in zip(pull, codes, strict=True))
        margin = margin + sum(slope * value for slope, value in zip(slopes, values, strict=True))
        yield _Records(codes=codes, numbers=values, y=_drawn(margin, rng))


def record_tables(n: int, p: int, seed: int) -> Iterator[pa.Table]:
    """The records by the names of the schema."""
    levels, _ = _columns(p)
    for records in _records(n, p, seed):
        columns: dict[str, Any] = {
            f"c{k}": pa.DictionaryArray.from_arrays(codes, pa.array(_names(size)))
            for k, (codes, size) in enumerate(zip(records.codes, levels, strict=True))
        }
        columns |= {f"x{k}": values for k, values in enumerate(records.numbers)}
        columns["label"] = pa.DictionaryArray.from_arrays(records.y.astype(np.int8), pa.array(LABELS))
        yield pa.table(columns)


def _coded(n: int, p: int, seed: int) -> Made:
    declared = schema(p)
    parts, labels = [], []
    for table in record_tables(n, p, seed):
        parts.append(encode_codes(table, declared))
        labels.append(table["label"].combine_chunks().indices.to_numpy().astype(np.int64))
    X = CodedTable.concatenate(parts)
    return Made(X=X, y=np.concatenate(labels), n_bytes=X.nbytes, entries=n * record_entries(p))


def record_entries(p: int) -> int:
    """Entries of a one-hot row of a record: one for every category and number."""
    levels, numbers = _columns(p)
    return len(levels) + numbers


def one_hot_pieces(n: int, p: int, seed: int) -> Iterator[tuple[sparse.csr_array, Labels]]:
    """The same records as scikit-learn's encoders give them: a one for every category, and the numbers."""
    levels, numbers = _columns(p)
    width = len(levels) + numbers
    first = np.concatenate([[0], np.cumsum(levels)])
    for records in _records(n, p, seed):
        size = len(records.y)
        column, data = np.empty((size, width), np.int32), np.ones((size, width), np.float32)
        for k, codes in enumerate(records.codes):
            column[:, k] = first[k] + codes
        for k, values in enumerate(records.numbers):
            column[:, len(levels) + k] = first[-1] + k
            data[:, len(levels) + k] = values
        starts = np.arange(0, size * width + 1, width, dtype=np.int32)
        yield sparse.csr_array((data.ravel(), column.ravel(), starts), shape=(size, p)), records.y


# The rows of a cell in files of a folder: shards for this library, pieces in CSR for scikit-learn.

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
