"""How a kernel is compiled: by numba, without the interpreter's lock, kept on disk between processes."""

from collections.abc import Callable
from typing import Any


def compiled(fastmath: Any = False) -> Callable[[Any], Any]:
    def decorate(function: Any) -> Any:
        from numba import njit

        options = {"fastmath": fastmath, "error_model": "numpy", "nogil": True}
        try:
            return njit(cache=True, **options)(function)
        except RuntimeError:  # no directory for the cache can be written: compile in every process
            return njit(**options)(function)

    return decorate
