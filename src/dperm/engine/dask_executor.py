"""Tasks on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dperm.engine.executors import Executor, Task
from dperm.errors import InvalidInput


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
