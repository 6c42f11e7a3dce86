"""What a pass costs beyond one process: ``python -m benchmarks.cluster``, with Dask and, where there is Java, Spark.

Shards are files that every worker maps. A pass is one gradient of the logistic loss. The overhead of a cluster is the
median over rounds of its pass less that of two threads in this process, taken one after the other in every round. The
last line compares 20 passes on two Dask workers with 20 on one: no more than two processors should be busy with
anything else. The exit status is 1 if a target is missed. ``--data docs/data/cluster.parquet`` writes what the page on
speed shows.
"""

import argparse
import os
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import record
from dperm.engine import DaskExecutor, Engine, Executor, LocalExecutor, Placed, ShardedRows, ShardSource
from dperm.losses import Logistic
from dperm.row_map import RowMap
from dperm_papers.pages.cells import Table, cell
from dperm_papers.pages.runs import Stopwatch

COLUMNS, SHARDS, ROUNDS = 120, 8, 15
DASK_TARGET, SPARK_TARGET = 40.0, 500.0  # milliseconds over one process


class Files(ShardSource):
    """``X-<shard>.npy`` and ``y-<shard>.npy`` in a folder."""

    def __init__(self, folder: str, sizes: list[int]) -> None:
        self.folder, self.sizes, self.n_features = folder, tuple(sizes), COLUMNS
        self.key = uuid.uuid4().hex

    def load(self, shard: int) -> tuple[Any, Any]:
        return tuple(np.load(f"{self.folder}/{name}-{shard}.npy", mmap_mode="r") for name in "Xy")  # type: ignore


def as_they_are(labels: Any) -> Any:
    return labels


def written(folder: str, rows: int) -> Files:
    Path(folder).mkdir()
    sizes = [rows // SHARDS] * SHARDS
    for shard, n in enumerate(sizes):
        rng = np.random.default_rng(shard)
        np.save(f"{folder}/X-{shard}.npy", rng.standard_normal((n, COLUMNS), np.float32) / 11)
        np.save(f"{folder}/y-{shard}.npy", rng.choice([-1.0, 1.0], n))
    return Files(folder, sizes)


def opened(source: Files, executor: Executor) -> Engine:
    placed = Placed(source, executor)
    rows = ShardedRows.of(placed, as_they_are, row_map=RowMap(x_norm=1.0), n_rows=len(source))
    return rows.open()


def pass_over(engine: Engine) -> Callable[[], Any]:
    W = np.random.default_rng(0).standard_normal((COLUMNS, 1))
    return lambda: engine.gradient_sum(Logistic(), W)


HEADINGS = ("where", "rows", "ms a pass", "in one process", "over it", "at most", "same bits", "")
Row = tuple[str, ...]


def overhead(name: str, source: Files, executor: Executor, target: float) -> tuple[bool, Row]:
    here, there = pass_over(opened(source, LocalExecutor(2))), pass_over(opened(source, executor))
    for _ in range(3):
        same = (here() == there()).all()
    times = np.empty((ROUNDS, 2))
    for r in range(ROUNDS):
        for which in (0, 1) if r % 2 else (1, 0):
            begin = time.perf_counter()
            (here, there)[which]()
            times[r, which] = 1e3 * (time.perf_counter() - begin)
    mine, other = np.median(times, axis=0)
    extra = float(np.median(times[:, 1] - times[:, 0]))
    verdict = "" if extra <= target else " MISSED"
    print(
        f"{name:8} {len(source):>9,} rows: {other:8.1f} ms a pass, in process {mine:7.1f}, over it {extra:+8.1f} "
        f"(at most {target:.0f}{verdict}); best {times[:, 1].min():.1f}; same bits: {same}",
        flush=True,
    )
    row = (name, f"{len(source):,}", f"{other:.1f}", f"{mine:.1f}", f"{extra:+.1f}", f"{target:.0f}")
    return bool(extra <= target and same), (*row, "yes" if same else "NO", "missed" if verdict else "met")


def two_against_one(source: Files, cluster: Callable[[int], Any]) -> Row:
    from distributed import Client

    best = {}
    for workers in (1, 2, 1, 2):
        with cluster(workers) as local, Client(local) as client:
            run = pass_over(opened(source, DaskExecutor(client)))
            run()
            begin = time.perf_counter()
            for _ in range(20):
                run()
            best[workers] = min(best.get(workers, np.inf), time.perf_counter() - begin)
    print(
        f"20 passes over {len(source):,} x {COLUMNS}: one worker {best[1]:.2f} s, two {best[2]:.2f} s, "
        f"{best[1] / best[2]:.2f} times faster",
        flush=True,
    )
    return f"{len(source):,}", f"{best[1]:.2f}", f"{best[2]:.2f}", f"{best[1] / best[2]:.2f}"


def spark_session() -> Any:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
    builder = SparkSession.builder.master("local[2]")
    for name in ("ui.enabled", "ui.showConsoleProgress"):
        builder = builder.config(f"spark.{name}", "false")
    for name in ("bindAddress", "host"):
        builder = builder.config(f"spark.driver.{name}", "127.0.0.1")
    return builder.getOrCreate()


def dask_cluster(workers: int) -> Any:
    from distributed import LocalCluster

    return LocalCluster(n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0")


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--no-spark", action="store_true")
    chosen = record.data_option(options).parse_args()
    watch = Stopwatch()
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {SHARDS} shards of {COLUMNS} columns")
    met = []
    with tempfile.TemporaryDirectory() as folder:
        small, large = written(f"{folder}/small", 8_000), written(f"{folder}/large", chosen.rows)
        from distributed import Client

        with dask_cluster(2) as local, Client(local) as client:
            met += [overhead("dask", source, DaskExecutor(client), DASK_TARGET) for source in (small, large)]
        if not chosen.no_spark:
            from dperm.engine import SparkExecutor

            spark = spark_session()
            met += [overhead("spark", s, SparkExecutor(spark, slots=2), SPARK_TARGET) for s in (small, large)]
            spark.stop()
        workers = two_against_one(large, dask_cluster)
    if chosen.data:
        tables = {
            "passes": Table(HEADINGS, [[cell(text) for text in row] for _, row in met]),
            "workers": Table(
                ("rows", "one worker, s", "two workers, s", "times faster"),
                [[cell(text) for text in workers]],
            ),
        }
        record.write(chosen.data, "python -m benchmarks.cluster", watch, tables)
    return int(not all(kept for kept, _ in met))


if __name__ == "__main__":
    # By its own name, so that workers can import what they are sent.
    from benchmarks import cluster

    sys.exit(cluster.main())
