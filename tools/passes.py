"""Passes over rows in shards, and bytes between driver and workers: ``python tools/passes.py [--write]``.

Counts what the tasks of a fit are, for every mechanism with its defaults, and prints the table of docs/executors.md
(``--write`` puts it there) with the cost model below, which is computed and not measured.
"""

from __future__ import annotations

import argparse
import pickle
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dperm import PrivateLogisticRegression
from dperm.engine import Executor, LocalExecutor, Placed
from dperm.engine.shards.sources import ArrayShards
from dperm.mechanisms import mechanism_names

PAGE = Path(__file__).parent.parent / "docs" / "executors.md"
MARKS = ("<!-- passes -->", "<!-- end of passes -->")
ROWS, COLUMNS, SHARDS = 20_000, 20, 8
NAMES = ("ssp", "objective", "auto", "output", "output-gd", "dp-gd", "dp-sgd", "frank-wolfe", "rsgd-ar")


class Counting(Executor):
    """Runs tasks here, and counts them and the bytes that they and their answers would take."""

    threads = None

    def __init__(self) -> None:
        self.round_trips, self.sent, self.returned, self.moments = 0, 0, 0, 0

    def run(self, task: Any, shards: Sequence[int]) -> Iterable[tuple[int, Any]]:
        self.round_trips += 1
        self.moments += getattr(task, "verb", "") in ("row_moments", "curvature_sum")
        sample = shards[0]
        self.sent = max(self.sent, len(pickle.dumps(task.part(sample))))
        for shard, answer in LocalExecutor().run(task, shards):
            self.returned = max(self.returned, len(pickle.dumps(answer)))
            yield shard, answer


def counted(mechanism: str) -> Counting:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((ROWS, COLUMNS)) / 8
    y = np.where(X[:, 0] + 0.2 * rng.standard_normal(ROWS) > 0, 1, 0)
    executor = Counting()
    source = Placed(_Named(X, [ROWS // SHARDS] * SHARDS, y), executor)
    model = PrivateLogisticRegression(mechanism=mechanism, classes=[0, 1], random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(source)
    return executor


class _Named(ArrayShards):
    """What is sent names the rows, as a folder or a Dask collection does."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_X": None, "_y": None}


@dataclass(frozen=True)
class Cluster:
    """What the cost model assumes. Reading is that of warm memory, by all threads of a worker."""

    workers: int = 100
    bytes_per_second: float = 20e9  # of a worker, with 4 threads
    multiply_adds: float = 50e9  # of a worker, in a second
    network: float = 1e9  # bytes per second into the driver
    round_trip: float = 0.02  # seconds, of Dask
    task: float = 0.001  # seconds of the driver for each worker's task
    shuffle: float = 57e-9  # seconds a row, of the driver, for a secret order


@dataclass(frozen=True)
class Fit:
    """``passes`` round trips that read all rows ``epochs`` times; ``matrices`` of them return a matrix of products of
    columns, computed over all rows ``matrix_epochs`` times."""

    name: str
    passes: int
    epochs: float
    matrices: int = 0
    matrix_epochs: float = 0.0
    ordered: bool = False


def seconds(fit: Fit, rows: float, columns: int, cluster: Cluster) -> float:
    read = fit.epochs * rows * columns * 4 / (cluster.workers * cluster.bytes_per_second)
    products = fit.matrix_epochs * rows * columns**2 / (cluster.workers * cluster.multiply_adds)
    trips = fit.passes * (cluster.round_trip + cluster.task * cluster.workers)
    moved = cluster.workers * 8 * columns * (fit.passes + columns * fit.matrices) / cluster.network
    return read + products + trips + moved + (rows * cluster.shuffle if fit.ordered else 0.0)


def table() -> str:
    lines = [
        f"Passes of a logistic regression on {ROWS:,} rows of {COLUMNS} features at ε = 1, with the defaults of each "
        "mechanism; bytes are the most of one shard and pass.",
        "",
        "| mechanism | passes | of these with a matrix | bytes to a shard | bytes back |",
        "|---|---|---|---|---|",
    ]
    for name in (name for name in NAMES if name in mechanism_names()):
        found = counted(name)
        lines.append(
            f"| `{name}` | {found.round_trips:,} | {found.moments} | {found.sent:,} | {found.returned:,} |"
        )
    lines += ["", *model()]
    return "\n".join(lines)


def model() -> list[str]:
    rows, columns = 1e9, 200
    fits = (
        Fit("`ssp`: the labels, sums, and one matrix of all rows", 3, 3.0, 1, 1.0),
        Fit("`objective`: 10 passes, 3 of them matrices of a 30th of the rows", 10, 7.1, 3, 0.1),
        Fit("`dp-gd`, 150 steps", 151, 151.0),
        Fit("`rsgd-ar`, 5 epochs of 1,000 batches in a secret order", 5_001, 6.0, ordered=True),
    )
    dask, spark = Cluster(), Cluster(round_trip=0.5, task=0.002)
    lines = [
        f"Computed, not measured, by `tools/passes.py`: {rows:,.0f} rows of {columns} float32 columns "
        f"({rows * columns * 4 / 1e9:,.0f} GB) on {dask.workers} workers that each read "
        f"{dask.bytes_per_second / 1e9:.0f} GB/s from warm memory and do {dask.multiply_adds / 1e9:.0f} billion "
        f"multiply-adds a second in matrix products; a round trip takes {dask.round_trip * 1e3:.0f} ms "
        f"and {dask.task * 1e3:.0f} ms a worker with Dask, {spark.round_trip * 1e3:.0f} ms and "
        f"{spark.task * 1e3:.0f} ms with Spark; {dask.network / 1e9:.0f} GB/s reach the driver.",
        "",
        "| fit | Dask, s | Spark, s |",
        "|---|---|---|",
    ]
    for fit in fits:
        costs = [seconds(fit, rows, columns, each) for each in (dask, spark)]
        lines.append(f"| {fit.name} | {costs[0]:,.0f} | {costs[1]:,.0f} |")
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--write", action="store_true")
    found = table()
    if not options.parse_args().write:
        print(found)
        return
    page = PAGE.read_text()
    between = re.compile(f"{MARKS[0]}.*?{MARKS[1]}", re.DOTALL)
    PAGE.write_text(between.sub(lambda _: f"{MARKS[0]}\n{found}\n{MARKS[1]}", page))


if __name__ == "__main__":
    main()
