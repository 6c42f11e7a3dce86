"""Passes over private rows: the only package that touches them."""

from dperm.engine.base.draws import Batches, Order, Sample
from dperm.engine.base.engine import Engine, Evaluation
from dperm.engine.base.reference import ReferenceEngine
from dperm.engine.base.rows import Rows
from dperm.engine.dense.mapped_rows import MappedRows
from dperm.engine.dense.rows import Table
from dperm.engine.registry import (
    engine_for,
    engine_names,
    open_rows,
    register_adapter,
    register_engine,
    source_of,
)
from dperm.engine.shards.dask import DaskExecutor, dask_shards
from dperm.engine.shards.rows import ShardedRows, labels_in, persons_in
from dperm.engine.shards.sources import Executor, LocalExecutor, Placed, ShardSource
from dperm.engine.shards.spark import SparkExecutor, spark_shards
from dperm.engine.sparse.rows import SparseRows

__all__ = [
    "Batches",
    "DaskExecutor",
    "Engine",
    "Evaluation",
    "Executor",
    "LocalExecutor",
    "MappedRows",
    "Order",
    "Placed",
    "ReferenceEngine",
    "Rows",
    "Sample",
    "ShardSource",
    "ShardedRows",
    "SparkExecutor",
    "SparseRows",
    "Table",
    "dask_shards",
    "engine_for",
    "engine_names",
    "labels_in",
    "open_rows",
    "persons_in",
    "register_adapter",
    "register_engine",
    "source_of",
    "spark_shards",
]
