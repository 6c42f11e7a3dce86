"""Shuffled K-fold splits that depend on the dataset and the repeat alone, and the batches they train in."""

import zlib
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

WIDEST_BATCH = 112
"""Most columns of weights trained side by side: models, or models times classes.

Matrix products with about a hundred columns run at several times the speed per model of narrow ones, and wider
ones gain little more. Models of one batch share one secret permutation of the rows, so a study of many
repeats should not be a single batch.
"""


def text_code(text: str) -> int:
    """A number that stands for a text in a seed."""
    return zlib.crc32(text.encode())


def assign_folds(dataset: str, repeat: int, n_rows: int, folds: int) -> NDArray[np.int64]:
    """The fold in which each row is held out; sizes differ by at most one row.

    Every mechanism, loss, budget and seed sees the same folds, so that they are compared on the same rows.
    """
    order = np.random.default_rng([text_code(dataset), repeat]).permutation(n_rows)
    fold = np.empty(n_rows, np.int64)
    fold[order] = np.arange(n_rows) % folds
    return fold


def training_mask(dataset: str, repeats: range, n_rows: int, folds: int) -> NDArray[np.bool_]:
    """One column per repeat and fold, fold by fold: True where a row is trained on, False where held out."""
    columns = [
        assign_folds(dataset, repeat, n_rows, folds)[:, None] != np.arange(folds) for repeat in repeats
    ]
    return np.hstack(columns)


def group_repeats(repeats: int, folds: int, outputs: int = 1) -> list[range]:
    """The repeats in as few batches of at most :data:`WIDEST_BATCH` columns as can be, evenly."""
    most = max(1, WIDEST_BATCH // (folds * outputs))
    n_groups = -(-repeats // most)
    edges = [repeats * group // n_groups for group in range(n_groups + 1)]
    return [range(first, last) for first, last in pairwise(edges)]
