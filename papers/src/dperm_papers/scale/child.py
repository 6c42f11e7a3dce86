"""One cell, measured in a process of its own: ``python -m dperm_papers.scale.child JSON``, one line of JSON out.

A fit on a few rows comes first, so that nothing is compiled or imported while the clock runs; rows are made before it
starts. Memory is the highest resident size during the fits less that before the rows were made.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from dperm.errors import DpermError
from dperm.processors import available_processors
from dperm_papers.scale.cells import DASK, LOGISTIC, SHARDS, SPARK, TORCH, Cell, Method, Shape
from dperm_papers.scale.memory import forget, peak, resident
from dperm_papers.scale.rows import Made, bytes_of, in_memory, read_pieces, record_entries

# The fit of a method, on the engine that it names.

EPSILON, DELTA = 1.0, 1e-9

Everywhere = Callable[[Callable[[], float | None]], float]
"""Call a function in every process that takes part in a fit, and add up what it gives."""


@contextmanager
def engine_of(method: Method) -> Iterator[tuple[Callable[[Any], Any], Everywhere | None]]:
    """How rows are handed to the engine, and how its processes are asked; None where not all of them can be."""
    if method.engine == DASK:
        with _dask() as started:
            yield started
    elif method.engine == SPARK:
        with _spark() as place:
            yield place, None
    elif method.engine == TORCH:
        yield _tensor, lambda ask: ask() or 0
    else:
        yield lambda X: X, lambda ask: ask() or 0


@contextmanager
def _dask() -> Iterator[tuple[Callable[[Any], Any], Everywhere]]:
    from distributed import Client, LocalCluster

    from dperm.data import open_shards
    from dperm.engine import DaskExecutor, Placed

    workers = available_processors()
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None
        ) as cluster,
        Client(cluster) as client,
    ):
        yield (
            lambda folder: Placed(open_shards(folder), DaskExecutor(client)),
            lambda ask: (ask() or 0) + sum(some or 0 for some in client.run(ask).values()),
        )


@contextmanager
def _spark() -> Iterator[Callable[[Any], Any]]:
    from pyspark.sql import SparkSession

    from dperm.data import open_shards
    from dperm.engine import Placed, SparkExecutor

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    slots = available_processors()
    settings = {"ui.enabled": "false", "driver.bindAddress": "127.0.0.1", "driver.host": "127.0.0.1"}
    builder = SparkSession.builder.master(f"local[{slots}]")
    for name, value in settings.items():
        builder = builder.config(f"spark.{name}", value)
    spark = builder.getOrCreate()
    try:
        yield lambda folder: Placed(open_shards(folder), SparkExecutor(spark, slots=slots))
    finally:
        spark.stop()


def _tensor(X: Any) -> Any:
    import torch

    return torch.from_numpy(X).to("cuda" if torch.cuda.is_available() else "cpu")


def fitter(cell: Cell) -> Callable[[Any, Any], object]:
    """A function of rows and labels that fits a new model; on shards it takes their folder and no labels."""
    method, on_disk = cell.method, cell.shape.kind == SHARDS
    if not method.is_private:
        if on_disk:
            return lambda folder, _: _partial_fits(folder, cell.shape.p)
        return lambda X, y: _theirs(method.name).fit(X, y)
    if on_disk:
        return lambda shards, _: _ours(method.name, None).fit(shards)
    return lambda X, y: _ours(method.name, [0, 1]).fit(X, y)


def _ours(mechanism: str, classes: list[int] | None) -> Any:
    from dperm import PrivateLogisticRegression

    return PrivateLogisticRegression(mechanism=mechanism, epsilon=EPSILON, delta=DELTA, classes=classes)


def _theirs(name: str) -> Any:
    from sklearn.linear_model import LogisticRegression, SGDClassifier

    return LogisticRegression() if name == LOGISTIC else SGDClassifier(loss="log_loss", random_state=0)


def _partial_fits(folder: Path, p: int) -> Any:
    """One epoch, a piece at a time, as scikit-learn's guide does for rows beyond memory."""
    model = _theirs("SGDClassifier")
    for X, y in read_pieces(Path(folder), p):
        model.partial_fit(X, y, classes=[0, 1])
    return model


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
