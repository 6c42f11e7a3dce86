"""Tables of runs that are kept in files named by what was run."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from dperm import __version__
from dperm.experiments.spec import canonical_json
from dperm.models.atomic import atomic_path


def cached(
    folder: Path, name: str, key: Mapping[str, Any], make: Callable[[], Sequence[dict[str, Any]]], fresh: bool
) -> pa.Table:
    """The rows that ``make`` gives, from a file if it was called before for the same key and version."""
    digest = hashlib.sha256(canonical_json({**key, "version": __version__}).encode()).hexdigest()
    path = folder / f"{name}-{digest[:16]}.parquet"
    if path.is_file() and not fresh:
        return pq.read_table(path)
    table = pa.Table.from_pylist(list(make()))
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_path(path) as unfinished:
        pq.write_table(table, unfinished)
    return table
