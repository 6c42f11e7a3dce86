"""Opened shards that a process keeps between tasks, bounded by their bytes."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from dperm.arithmetic import Arithmetic
from dperm.engine.base import Engine

CACHE_BYTES = 512 * 2**20
"""Bytes of opened shards that a process keeps; the environment variable DPERM_SHARD_CACHE_BYTES sets another number."""

Key = tuple[str, int, str]
Opened = tuple[Engine, set[Arithmetic]]
"""An engine, and where it notes the arithmetic of its passes."""


def cache_bytes() -> int:
    wished = os.environ.get("DPERM_SHARD_CACHE_BYTES", "")
    return int(wished) if wished.isdecimal() else CACHE_BYTES


class ShardCache:
    """The least recently used shard of another opening goes first; those of the same opening stay.

    Passes go over the shards in turn: were the oldest of them to go, it would be gone whenever its turn came.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Nothing is held, and the lock is free: it may have been held in the process that this one was forked from."""
        self._lock = threading.Lock()
        self._held: OrderedDict[Key, tuple[Opened, int]] = OrderedDict()

    def get(self, key: Key, opened: Callable[[], Opened]) -> Opened:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
                return self._held[key][0]
        found = opened()
        size, room = bytes_of(found[0]), cache_bytes()
        with self._lock:
            total = size + sum(held for _, held in self._held.values())
            for other in [other for other in self._held if other[2] != key[2]]:
                if total > room:
                    total -= self._held.pop(other)[1]
            if total <= room:
                self._held[key] = found, size
        return found

    def forget(self, token: str) -> None:
        """Drop what was opened in one way."""
        with self._lock:
            for key in [key for key in self._held if key[2] == token]:
                del self._held[key]

    @property
    def held_bytes(self) -> int:
        with self._lock:
            return sum(size for _, size in self._held.values())


CACHE = ShardCache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=CACHE.begin)


def bytes_of(thing: Any, depth: int = 4) -> int:
    """Bytes of the arrays that an object holds, those of memory-mapped files not counted."""
    if isinstance(thing, np.ndarray):
        return 0 if _is_mapped(thing) else thing.nbytes
    if callable(getattr(thing, "arrays", None)):  # coded rows, which may be mapped too
        return bytes_of(thing.arrays(), depth)
    if isinstance(getattr(thing, "nbytes", None), int):  # an array of another package
        return int(thing.nbytes)
    if depth == 0:
        return 0
    if is_dataclass(thing) and not isinstance(thing, type):
        return sum(bytes_of(getattr(thing, field.name), depth - 1) for field in fields(thing))
    if isinstance(thing, dict):
        return sum(bytes_of(value, depth - 1) for value in thing.values())
    if isinstance(thing, list | tuple):
        return sum(bytes_of(value, depth - 1) for value in thing)
    return (
        sum(bytes_of(value, depth - 1) for value in vars(thing).values()) if hasattr(thing, "__dict__") else 0
    )


def _is_mapped(array: Any) -> bool:
    while isinstance(array, np.ndarray):
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False
