"""How many processors there are to use, threads over ranges of rows, and BLAS on one thread meanwhile."""

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS")


def available_processors() -> int:
    """Processors this process may use, at most OMP_NUM_THREADS: process pools set it for their workers."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wished)) if wished.isdecimal() and int(wished) > 0 else count


@contextmanager
def processors_shared_by(processes: int) -> Iterator[None]:
    """Processes that start meanwhile use so few threads that they do not wait for each other."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, str(max(1, available_processors() // processes))))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


Part = tuple[int, int]
Result = TypeVar("Result")


def split(first: int, last: int, most: float) -> list[Part]:
    """Cut rows into at most ``most`` nearly equal ranges: an even number of them, or one.

    The cut must depend on the size of the problem only, never on the number of threads, so that sums
    come out the same on every machine.
    """
    count = 2 * int(min(64.0, most) / 2) or 1
    cuts = [first + (last - first) * i // count for i in range(count + 1)]
    return list(pairwise(cuts))


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="dperm")


if hasattr(os, "register_at_fork"):  # the threads of a pool do not survive a fork
    os.register_at_fork(after_in_child=_pool.cache_clear)


def in_order(function: Callable[[Part], Result], parts: Sequence[Part], threads: int) -> Iterable[Result]:
    """The results of all parts, in the order of the parts."""
    if threads == 1 or len(parts) == 1:
        return map(function, parts)
    return _pool(threads).map(function, parts)


class _OneBlasThread:
    """Context in which every BLAS of the process runs on one thread.

    A BLAS that splits each small product over threads of its own waits for the slowest at every block.
    The setting is global, so nested and concurrent uses are counted; the last one out restores it.
    Setting the libraries directly costs a few microseconds, threadpoolctl's own context several times that.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._depth = 0
        self._libraries: list[Any] | None = None
        self._before: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._libraries is None:
                self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            if self._depth == 0:
                self._before = [library.get_num_threads() for library in self._libraries]
                self._set([1] * len(self._libraries))
            self._depth += 1

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._set(self._before)

    def _set(self, counts: list[int]) -> None:
        for library, before, count in zip(self._libraries or [], self._before, counts, strict=True):
            if before != 1:
                library.set_num_threads(count)


one_blas_thread = _OneBlasThread()
