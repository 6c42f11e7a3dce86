"""One cell, measured in a process of its own: ``python -m dperm_papers.scale.child JSON``, one line of JSON out.

A fit on a few rows comes first, so that nothing is compiled or imported while the clock runs; rows are made before it
starts. Memory is the highest resident size during the fits less that before the rows were made.
"""

import gc
import json
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dperm.errors import DpermError
from dperm_papers.scale.cells import SHARDS, Cell, Method, Shape
from dperm_papers.scale.files import bytes_of
from dperm_papers.scale.fits import Everywhere, engine_of, fitter
from dperm_papers.scale.memory import forget, peak, resident
from dperm_papers.scale.rows import Made, in_memory, record_entries

SHORT = 2.0
"""Seconds: a shorter fit is timed three times, a longer one once."""

_TIMES = 3
_WARM_COLUMNS = 300
_WARM_NUMBERS = 2**23  # engines take other paths for fewer


def command(cell: Cell, folder: Path | None, seed: int) -> list[str]:
    """What starts a process that measures this cell."""
    task = {**asdict(cell), "folder": None if folder is None else str(folder), "seed": seed}
    return [sys.executable, "-P", "-m", "dperm_papers.scale.child", json.dumps(task)]


def measure(cell: Cell, folder: Path | None, seed: int) -> dict[str, Any]:
    """Seconds by the clock and of processors, bytes, and the size of the rows."""
    fit = fitter(cell)
    with engine_of(cell.method) as (place, everywhere):
        warm = _rows(_small(cell), folder and folder / "warm", seed)
        fit(place(warm.X), warm.y)
        del warm
        gc.collect()
        before = everywhere(resident) if everywhere else 0
        made = _rows(cell, folder and folder / "rows", seed)
        X = place(made.X)
        seconds, busy, most = _timed(lambda: fit(X, made.y), everywhere)
    return {
        "seconds": sorted(seconds)[len(seconds) // 2],
        "cpu_seconds": sorted(busy)[len(busy) // 2] if everywhere else None,
        "timings": len(seconds),
        "memory": int(most - before) if everywhere else None,
        "row_bytes": made.n_bytes,
        "entries": made.entries,
    }


def _timed(
    fit: Callable[[], object], everywhere: Everywhere | None
) -> tuple[list[float], list[float], float]:
    def total(ask: Callable[[], float | None]) -> float:
        return everywhere(ask) if everywhere else 0.0

    seconds: list[float] = []
    busy: list[float] = []
    most = 0.0
    while not seconds or (len(seconds) < _TIMES and seconds[0] < SHORT):
        total(forget)
        began, began_busy = time.perf_counter(), total(time.process_time)
        fit()
        seconds.append(time.perf_counter() - began)
        busy.append(total(time.process_time) - began_busy)
        most = max(most, total(peak))
    return seconds, busy, most


def _small(cell: Cell) -> Cell:
    p = min(cell.shape.p, _WARM_COLUMNS)
    return replace(cell, shape=replace(cell.shape, n=min(cell.shape.n, _WARM_NUMBERS // p), p=p))


def _rows(cell: Cell, folder: Path | None, seed: int) -> Made:
    """The rows in memory; of shards the folder, whose labels are in it."""
    shape = cell.shape
    if shape.kind != SHARDS:
        return in_memory(shape, private=cell.method.is_private, seed=seed)
    if folder is None:
        raise ValueError("shards need their folder.")
    made: Any = None
    return Made(X=folder, y=made, n_bytes=bytes_of(folder), entries=shape.n * record_entries(shape.p))


def main(task: str) -> None:
    told = json.loads(task)
    cell = Cell(shape=Shape(**told["shape"]), method=Method(**told["method"]))
    warnings.simplefilter("ignore")
    try:
        answer = measure(cell, Path(told["folder"]) if told["folder"] else None, told["seed"])
    except DpermError as error:
        answer = {"refused": str(error)}
    except MemoryError:
        answer = {"failed": "ran out of memory"}
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
