"""Sums over blocks of rows on a device: each block in the precision of its numbers, blocks in float64."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dperm.engine.tensors import load_torch
from dperm.engine.torch_many import add_blocks

_NUMBERS_AT_ONCE = 2**24  # margins: enough to keep a large GPU busy
_ROWS = {4: 256, 8: 1024}  # in a block, by the bytes of a number


def rows_of_block(dtype: Any) -> int:
    return _ROWS[dtype.itemsize]


def cuts(first: int, last: int, width: int, dtype: Any) -> Iterator[tuple[int, int]]:
    """Ranges of rows of whole blocks, but for the last, with ``width`` numbers for each row."""
    block = rows_of_block(dtype)
    step = max(1, _NUMBERS_AT_ONCE // (block * width)) * block
    for start in range(first, last, step):
        yield start, min(start + step, last)


def block_products(X: Any, slopes: Any) -> Iterator[Any]:
    """X^T slopes for each block, many blocks to a tensor of shape (blocks, columns of X, columns of slopes)."""
    block = rows_of_block(X.dtype)
    whole = len(X) // block * block
    for rows, size in ((slice(0, whole), block), (slice(whole, None), len(X) - whole)):
        if len(X[rows]):
            left, right = (part[rows].reshape(-1, size, part.shape[1]) for part in (X, slopes))
            yield load_torch().bmm(left.transpose(1, 2), right)


def add_products(total: Any, X: Any, slopes: Any) -> None:
    """Add X^T slopes to the float64 ``total``."""
    for products in block_products(X, slopes):
        if not add_blocks(total, products):
            total += products.sum(dim=0, dtype=total.dtype)


def gram(total: Any, X: Any) -> None:
    """Add X^T X to the float64 ``total``."""
    add_products(total, X, X)
