"""Sets of text and LIBSVM files as DATA of a comparison."""

from pathlib import Path

import click

from dperm.cli.data import Data
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


def is_sparse_data(data: str) -> bool:
    """Whether DATA is a named set of text or a LIBSVM file."""
    return data in sparse_names() or Path(data).suffix in SUFFIXES


def load_sparse_data(data: str, n_hashed: int | None, **unfit: object) -> Data:
    """Read DATA and hash it; ``unfit`` are options that belong to tables with a schema."""
    for name, value in unfit.items():
        if value is not None:
            raise InvalidInput(f"--{name} belongs to tables with a schema; {Path(data).name} has none.")
    found = load_sparse(data)
    return Data(name=found.name, X=found.X if n_hashed is None else found.hashed(n_hashed), y=found.y)
