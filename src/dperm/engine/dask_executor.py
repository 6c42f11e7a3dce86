"""Tasks on the workers of a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from dperm.engine.executors import Executor, Task
from dperm.errors import InvalidInput


class DaskExecutor(Executor):
    """One Dask task for each shard, on the worker that keeps the shard open; on any other when that one is lost.

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

    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        from distributed import as_completed

        self._place(max(shards) + 1)
        asked = {self._submitted(task.part(shard), shard): shard for shard in shards}
        for future, answer in as_completed(asked, with_results=True, raise_errors=False):
            if future.status != "finished":
                raise _lost(future)
            yield asked[future], answer

    def _submitted(self, task: Task, shard: int) -> Any:
        given = self._held[shard : shard + 1]
        home = {"workers": [self._homes[shard]], "allow_other_workers": True}
        return self._client.submit(_call, task, shard, *given, pure=False, **home)

    def _place(self, count: int) -> None:
        """Give every shard a worker: the one that has computed its block, or one after the other."""
        if self._blocks and not self._held:
            from distributed import wait

            self._held = self._client.compute(list(self._blocks))
            wait(self._held)
            for future in self._held:
                if future.status != "finished":
                    raise _lost(future)
            holders = self._client.who_has(self._held)
            self._homes = [next(iter(holders[future.key]), "") for future in self._held]
        if len(self._homes) < count:
            workers = sorted(self._client.scheduler_info(n_workers=-1)["workers"])
            if not workers:
                raise InvalidInput("the Dask cluster has no workers.")
            self._homes += [workers[shard % len(workers)] for shard in range(len(self._homes), count)]


def _call(task: Task, shard: int, given: Any = None) -> Any:
    return task(shard, given)


def _lost(future: Any) -> InvalidInput:
    """An error of Dask, or of the graph that computes a block, without its text: that may quote a record."""
    error = future.exception()
    return InvalidInput(
        f"Dask could not compute a shard: {type(error).__name__}. See that every block can be computed by itself, and "
        "that workers have the memory for it."
    )
