"""Sets of text and LIBSVM files as DATA of a comparison."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from dperm.datasets.sparse_sets import SUFFIXES, load_sparse, sparse_names
from dperm.errors import InvalidInput

hash_option = click.option(
    "--hash",
    "n_hashed",
    metavar="COLUMNS",
    type=click.IntRange(2),
    show_default="not hashed",
    help="Hash sparse rows or texts to so many columns, as PublicHasher does.",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class SparseData:
    """Rows of norm at most 1 and their labels, as ``Data`` has them."""

    name: str
    X: Any
    y: NDArray[Any]
    held_out: NDArray[np.bool_] | None = None

    @property
    def summary(self) -> str:
        return f"{self.name}: {self.X.shape[0]:,} rows, {self.X.shape[1]} features"


def is_sparse_data(data: str) -> bool:
    """Whether DATA is a named set of text or a LIBSVM file."""
    return data in sparse_names() or Path(data).suffix in SUFFIXES


def load_sparse_data(data: str, n_hashed: int | None, **unfit: object) -> SparseData:
    """Read DATA and hash it; ``unfit`` are options that belong to tables with a schema."""
    for name, value in unfit.items():
        if value is not None:
            raise InvalidInput(f"--{name} belongs to tables with a schema; {Path(data).name} has none.")
    found = load_sparse(data)
    return SparseData(name=found.name, X=found.X if n_hashed is None else found.hashed(n_hashed), y=found.y)
