"""Blocks of a Dask array on the workers of a cluster in this process."""

from functools import cache
from importlib.util import find_spec

from kind_sharded import as_they_are, cut

from dperm.engine import ShardedRows, dask_shards

name = "dask"


def available():
    return all(find_spec(package) for package in ("dask", "distributed"))


@cache
def client():
    """Threads in this process: worker processes have their own tests, of faults and of logs."""
    from distributed import Client

    return Client(
        processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0", set_as_default=True
    )


def native(X, y=None):
    import dask.array as da

    client()
    parts = (tuple(n for n in cut(len(X)) if n),)
    return dask_shards(
        da.from_array(X, chunks=(*parts, -1)), None if y is None else da.from_array(y, chunks=parts)
    )


def rows(X, y, *, row_map, n_rows, mask=None):
    return ShardedRows.of(native(X, y), as_they_are, row_map=row_map, n_rows=n_rows, mask=mask)
