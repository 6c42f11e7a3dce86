"""The fit of a method, on the engine that it names."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dperm.processors import available_processors
from dperm_papers.scale.cells import DASK, LOGISTIC, SHARDS, SPARK, TORCH, Cell, Method
from dperm_papers.scale.files import read_pieces

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
