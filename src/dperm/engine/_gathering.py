"""What executors bring back: every shard exactly once, in the order of the shards."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from dperm.engine._shard_task import Failed, SafeTask
from dperm.engine.executors import Executor
from dperm.errors import NotCertified

TRIES = 4
"""How often a task is run that fails by other errors than those of dperm: a file that is not there yet, a lost disk."""


def gathered(executor: Executor, task: SafeTask, shards: Sequence[int]) -> Iterator[Any]:
    """Results in the order of ``shards``; only those that come too early wait in memory.

    Raises
    ------
    NotCertified
        When a shard is answered twice, not at all, or without having been asked for: a sum over rows that are counted
        twice has no sensitivity that was planned for.
    """
    waiting: dict[int, Any] = {}
    place, todo = 0, list(shards)
    for tries in range(TRIES):
        failed = []
        missing = set(todo)
        for shard, answer in executor.run(task, todo):
            if shard not in missing:
                raise NotCertified(
                    f"shard {shard} was answered twice, or was not asked for; nothing is released. "
                    "The executor is at fault: it must give one answer for every shard."
                )
            missing.remove(shard)
            if isinstance(answer, Failed):
                if not answer.again or tries == TRIES - 1:
                    raise answer.error()
                failed.append(shard)
                continue
            waiting[shard] = answer
            while place < len(shards) and shards[place] in waiting:
                yield waiting.pop(shards[place])
                place += 1
        if missing:
            raise NotCertified(
                f"{len(missing)} of {len(todo)} shards were not answered; nothing is released. "
                "The executor is at fault: it must give one answer for every shard."
            )
        todo = failed
        if not todo:
            return
