"""The rows that are run on: whole data sets, or public random samples of them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.datasets import load_dataset
from dperm.datasets.sparse_sets import load_sparse, sparse_names
from dperm.experiments.splits import text_code
from dperm.schema import encode, encode_target


@dataclass(frozen=True, eq=False, kw_only=True)
class Records:
    """Encoded rows of norm at most 1, dense or sparse, and their labels.

    ``held_out`` is the published test part, where it is used.
    """

    name: str
    X: Any
    y: NDArray[Any]
    held_out: NDArray[np.bool_] | None = None

    @property
    def majority(self) -> float:
        """The share of the most frequent label."""
        return float(np.unique(self.y, return_counts=True)[1].max() / len(self.y))

    def sample(self, n_rows: int) -> "Records":
        """That many rows, drawn by the name alone; all of them if there are no more."""
        if n_rows >= len(self.y):
            return self
        rows = np.random.default_rng(text_code(self.name)).permutation(len(self.y))[:n_rows]
        return Records(name=f"{self.name}, {n_rows:,} rows", X=self.X[rows], y=self.y[rows])


@lru_cache(maxsize=1)
def load(name: str) -> Records:
    """A named data set, encoded plainly as in the papers. float32, in which all mechanisms for many models compute."""
    if name in sparse_names():
        wide = load_sparse(name)
        return Records(name=name, X=wide.X.astype(np.float32), y=wide.y)
    found = load_dataset(name)
    X = encode(found.table, found.schema.plain()).astype(np.float32)
    return Records(name=name, X=X, y=encode_target(found.table, found.schema))
