"""How many processors there are to use."""

import os


def available_processors() -> int:
    """Processors this process may use, at most OMP_NUM_THREADS: process pools set it for their workers."""
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    wished = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wished)) if wished.isdecimal() and int(wished) > 0 else count
