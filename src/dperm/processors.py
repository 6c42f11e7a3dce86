"""How many processors there are to use."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

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
