"""Who runs a task on every shard. An executor decides where and when, never what.

To write one, implement ``run``: call ``task(shard)`` for every shard, wherever that is best, and yield what comes back
with the shard's number, in any order. A task can be pickled, is pure and may be run again; it never raises and returns
what can be pickled. ``task.part(shard)`` is the same task with what one shard needs alone, which is shorter to send.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol


class Task(Protocol):
    """What an executor runs: a pure function of a shard's number."""

    def __call__(self, shard: int, given: Any = None) -> Any:
        """``given``: the rows and labels of the shard, where the executor has them at hand."""

    def part(self, shard: int) -> Task: ...


class Executor(ABC):
    """Runs a task on shards.

    Guarantee
    ---------
    None is needed of it: an answer that comes twice, for a shard that nobody asked for, or not at all, is refused by
    the engine.
    """

    threads: int | None = 1
    """Threads of one task; None for as many as there are processors."""

    @abstractmethod
    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        """The number of each shard and what ``task(shard)`` returned, in any order."""


class LocalExecutor(Executor):
    """In this process: one shard after the other on all threads, or several side by side with one thread each."""

    def __init__(self, side_by_side: int = 1) -> None:
        self._side_by_side = side_by_side
        self.threads = None if side_by_side == 1 else 1

    def run(self, task: Task, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        if self._side_by_side == 1:
            for shard in shards:
                yield shard, task(shard)
            return
        with ThreadPoolExecutor(self._side_by_side) as pool:
            yield from zip(shards, pool.map(task, shards), strict=True)
