"""Dask arrays, frames and lists of delayed blocks as shards, and tasks on the workers of a Dask cluster."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from dperm.engine.registry import register_adapter
from dperm.engine.shards.sources import Executor, LocalExecutor, ShardSource, Task
from dperm.errors import InvalidInput
from dperm.person_ids import numbered


class DaskExecutor(Executor):
    """One Dask task for each thread of a worker, with the shards that it keeps open; on another if it is lost.

    No actors and no scattered data: both are lost with their worker. A worker that comes later loads what it is asked
    for by itself.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the one that is active.
    blocks : sequence of Delayed, optional
        Rows and labels of each shard, where they are computed by Dask. Each is computed once, when the first task needs
        it, and kept by the cluster as long as this object lives; if its worker is lost, Dask computes it again.
    """

    def __init__(self, client: Any = None, blocks: Sequence[Any] = ()) -> None:
        from distributed import default_client

        self._client = default_client() if client is None else client
        self._blocks = blocks
        self._held: list[Any] = []
        self._homes: list[str] = []
        self._threads_of: dict[str, int] = {}

    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        from distributed import as_completed

        self._place(max(shards) + 1)
        asked = [self._submitted(task, home, group) for home, group in self._groups(shards)]
        for future, answers in as_completed(asked, with_results=True, raise_errors=False):
            if future.status != "finished":
                raise _lost(future)
            yield from zip(answers[0], answers[1], strict=True)

    def _groups(self, shards: Sequence[int]) -> list[tuple[str, list[int]]]:
        """Shards by the worker that has them, in as many groups as it has threads."""
        at_home: dict[str, list[int]] = {}
        for shard in shards:
            at_home.setdefault(self._homes[shard], []).append(shard)
        groups = []
        for home, mine in at_home.items():
            threads = min(self._threads_of.get(home, 1), len(mine))
            groups += [(home, mine[i::threads]) for i in range(threads)]
        return groups

    def _submitted(self, task: Task, home: str, shards: list[int]) -> Any:
        tasks = [task.part(shard) for shard in shards]
        given = [self._held[shard] if shard < len(self._held) else None for shard in shards]
        return self._client.submit(
            _call, tasks, shards, *given, pure=False, workers=[home], allow_other_workers=True
        )

    def _place(self, count: int) -> None:
        """Give every shard a worker that is there: the one that has computed its block, or one after the other."""
        if self._blocks and not self._held:
            from distributed import wait

            self._held = self._client.compute(list(self._blocks))
            wait(self._held)
            for future in self._held:
                if future.status != "finished":
                    raise _lost(future)
            holders = self._client.who_has(self._held)
            self._homes = [next(iter(holders[future.key]), "") for future in self._held]
        self._threads_of = self._client.nthreads()
        workers = sorted(self._threads_of)
        if not workers:
            raise InvalidInput("the Dask cluster has no workers.")
        self._homes += [""] * (count - len(self._homes))
        for shard, home in enumerate(self._homes):
            if home not in self._threads_of:
                self._homes[shard] = workers[shard % len(workers)]


def _call(tasks: list[Task], shards: list[int], *given: Any) -> tuple[list[int], list[Any]]:
    return shards, [task(shard, block) for task, shard, block in zip(tasks, shards, given, strict=True)]


def _lost(future: Any) -> InvalidInput:
    """An error of Dask, or of the graph that computes a block, without its text: that may quote a record."""
    error = future.exception()
    return InvalidInput(
        f"Dask could not compute a shard: {type(error).__name__}. See that every block can be computed by itself, and "
        "that workers have the memory for it."
    )


class DaskShards(ShardSource):
    """Blocks that Dask computes; what is sent to a worker names them and holds none of their graphs."""

    def __init__(
        self,
        blocks: Sequence[Any],
        sizes: Sequence[int] | Callable[[], Sequence[int]],
        n_features: int | Callable[[], int],
        has_labels: bool,
        feature_names: Sequence[str] | None = None,
        person: str | None = None,
    ) -> None:
        self._blocks: Sequence[Any] = blocks
        self._sizes = sizes if callable(sizes) else tuple(int(n) for n in sizes)
        self._n_features, self.has_labels = n_features, has_labels
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.key, self.person = uuid.uuid4().hex, person

    @property
    def sizes(self) -> tuple[int, ...]:  # type: ignore[override]
        """Computed by Dask when they are first asked for, where they were not known."""
        if callable(self._sizes):
            self._sizes = tuple(int(n) for n in self._sizes())
        return self._sizes

    @property
    def n_features(self) -> int:  # type: ignore[override]
        if callable(self._n_features):
            self._n_features = self._n_features()
        return self._n_features

    @property
    def sizes_are_known(self) -> bool:  # type: ignore[override]
        return not callable(self._sizes) and not callable(self._n_features)

    def load(self, shard: int) -> tuple[Any, Any]:
        return self.given(shard, self._computed(shard))

    def persons(self, shard: int) -> Any:
        return super().persons(shard) if self.person is None else self._computed(shard)[2]

    def _computed(self, shard: int) -> tuple[Any, ...]:
        import dask

        return dask.compute(self._blocks[shard], scheduler="threads")[0]  # type: ignore[no-any-return]

    def executor(self) -> Executor:
        """The active Dask client's workers, or this process where there is none."""
        try:
            from distributed import default_client

            client = default_client()
        except (ImportError, ValueError):
            return LocalExecutor()

        return DaskExecutor(client, self._blocks)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_blocks": (), "_sizes": self.sizes, "_n_features": self.n_features}


def dask_shards(
    X: Any,
    y: Any = None,
    *,
    sizes: Sequence[int] | None = None,
    n_features: int | None = None,
    person: str | None = None,
) -> ShardSource:
    """Shards of a Dask array, a Dask frame or a list of delayed blocks.

    Parameters
    ----------
    X : dask array, dask DataFrame, or list of Delayed
        An array has known chunks. Each delayed block is a table of rows.
    y : dask array or Series, list of Delayed, name of a column, or an array
        An array that this process holds is not part of the shards.
    sizes, n_features
        Of delayed blocks, where they are known; otherwise blocks, like the parts of a frame, are computed to ask them.
    person : str, optional
        The column of a frame with the ids of persons, which is then no feature.
    """
    source = _source(X, y, sizes, n_features, person)
    assert source.sizes  # computed now, before anyone pays for a fit
    return source


def _adapted(X: Any, y: Any, person: str | None = None) -> ShardSource | None:
    listed = isinstance(X, list | tuple) and len(X) > 0 and _from_dask(X[0])
    return _source(X, y, person=person) if listed or _from_dask(X) else None


register_adapter(_adapted, opens=("dask", "dask_expr", "builtins.list", "builtins.tuple"))


def _source(
    X: Any,
    y: Any,
    sizes: Sequence[int] | None = None,
    n_features: int | None = None,
    person: str | None = None,
) -> ShardSource:
    if person is not None and (isinstance(X, list | tuple) or _is_array(X)):
        raise InvalidInput(
            "arrays and delayed blocks have no columns with names: give groups, an id for each row."
        )
    if isinstance(X, list | tuple):
        return _of_delayed(list(X), y, sizes, n_features)
    return _of_array(X, y) if _is_array(X) else _of_frame(X, y, sizes, person)


def _from_dask(X: Any) -> bool:
    return type(X).__module__.partition(".")[0] in ("dask", "dask_expr")


def _is_array(X: Any) -> bool:
    return type(X).__module__.startswith("dask.array")


def _of_array(X: Any, y: Any) -> ShardSource:
    if X.ndim != 2:
        raise InvalidInput(f"X must have two dimensions, rows and features; got {X.ndim}.")
    if any(math.isnan(n) for n in (*X.chunks[0], X.shape[1])):
        raise InvalidInput(
            "the chunks of X have unknown sizes; call X.compute_chunk_sizes() first, which reads X once."
        )
    rows = X.rechunk({1: -1})
    blocks = rows.to_delayed().ravel().tolist()
    targets = _labels_of(y, blocks, rows.chunks[0])
    return DaskShards(_joined(blocks, targets), rows.chunks[0], X.shape[1], targets is not None)


def _labels_of(y: Any, blocks: list[Any], sizes: Sequence[int]) -> list[Any] | None:
    """A block of labels for each block of rows, or None where y is not Dask's."""
    if isinstance(y, list | tuple) and len(y) > 0 and _from_dask(y[0]):
        if len(y) != len(blocks):
            raise InvalidInput(
                f"X has {len(blocks)} blocks and y {len(y)}; give one block of labels for each."
            )
        return list(y)
    if not _from_dask(y):
        return None
    if not _is_array(y):
        y = y.to_dask_array(lengths=list(sizes)) if hasattr(y, "to_dask_array") else y
    if y.ndim != 1:
        raise InvalidInput("y must have one dimension: a label for each row.")
    if any(math.isnan(n) for n in y.chunks[0]):
        raise InvalidInput("the chunks of y have unknown sizes; call y.compute_chunk_sizes() first.")
    if y.shape[0] != sum(sizes):
        raise InvalidInput(f"X has {sum(sizes)} rows and y {y.shape[0]}.")
    return y.rechunk((tuple(sizes),)).to_delayed().ravel().tolist()  # type: ignore[no-any-return]


def _of_frame(X: Any, y: Any, counts: Sequence[int] | None, person: str | None) -> ShardSource:
    if not hasattr(X, "columns") or not hasattr(X, "to_delayed"):
        raise InvalidInput(f"no shards can be made of a {type(X).__name__}; give a Dask array or DataFrame.")
    apart = [name for name in (y, person) if isinstance(name, str)]
    names = [name for name in X.columns if name not in apart]
    for what, name in (("y", y), ("groups", person)):
        if isinstance(name, str) and name not in X.columns:
            raise InvalidInput(f"{what} names no column of X.")
    if person is not None:
        numbered(X._meta[person])  # its type is public, and refused where it cannot hold ids
    other = [name for name in names if getattr(X.dtypes[name], "kind", "O") not in "biuf"]
    if other:
        raise InvalidInput(f"{len(other)} of {len(names)} columns hold no numbers; encode them first.")
    import dask

    parts = X.to_delayed()
    sizes = partial(_lengths, parts) if counts is None else counts
    ids = None if person is None else [dask.delayed(_ids)(part, person) for part in parts]
    tables = [dask.delayed(_table)(part, names) for part in parts]
    labels: list[Any] | None
    if isinstance(y, str):
        labels = [dask.delayed(_column)(part, y) for part in parts]
    else:
        targets = y.to_delayed() if type(y).__module__.startswith(("dask.dataframe", "dask_expr")) else y
        known: Any = () if isinstance(targets, list | tuple) else sizes
        labels = _labels_of(targets, tables, known() if callable(known) else known)
    told_names = [str(name) for name in names]
    blocks = _joined(tables, labels, ids)
    return DaskShards(blocks, sizes, len(names), labels is not None, told_names, person)


def _of_delayed(
    blocks: list[Any], y: Any, sizes: Sequence[int] | None, n_features: int | None
) -> ShardSource:
    labels = _labels_of(y, blocks, sizes or ())
    return DaskShards(
        _joined(blocks, labels),
        partial(_lengths, blocks) if sizes is None else sizes,
        partial(_width, blocks) if n_features is None else n_features,
        labels is not None,
    )


def _width(blocks: Sequence[Any]) -> int:
    import dask

    (shape,) = dask.compute(dask.delayed(np.shape)(blocks[0]))
    if len(shape) != 2:
        raise InvalidInput("every block must be a table of rows and columns.")
    return int(shape[1])


def _lengths(blocks: Sequence[Any]) -> Sequence[int]:
    import dask

    return dask.compute(*(dask.delayed(len)(block) for block in blocks))  # type: ignore[no-any-return]


def _joined(blocks: list[Any], *apart: list[Any] | None) -> list[Any]:
    """Rows with their labels and, where there are some, the ids of their persons."""
    import dask

    block_of = dask.delayed(_block)
    return [
        block_of(block, *(None if others is None else others[i] for others in apart))
        for i, block in enumerate(blocks)
    ]


def _block(X: Any, y: Any = None, *ids: Any) -> tuple[Any, ...]:
    rows = X.to_numpy() if hasattr(X, "to_numpy") else X
    return rows, None if y is None else np.asarray(y), *ids


def _table(part: Any, names: list[Any]) -> Any:
    return part[names].to_numpy(dtype=np.float64)


def _column(part: Any, name: str) -> Any:
    return part[name].to_numpy()


def _ids(part: Any, name: str) -> Any:
    """As they are: an array of them may be of another type, in which some are no longer told apart."""
    return part[name]
