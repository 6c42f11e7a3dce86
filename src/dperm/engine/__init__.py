"""Passes over private rows: the only package that touches them."""

from dperm.engine.adapters import register_adapter, source_of
from dperm.engine.base import Engine, Evaluation, Rows
from dperm.engine.dask_executor import DaskExecutor
from dperm.engine.dask_shards import dask_shards
from dperm.engine.drawn import Batches, Order, Sample
from dperm.engine.executors import Executor, LocalExecutor
from dperm.engine.lazy import MappedRows
from dperm.engine.reference import ReferenceEngine
from dperm.engine.registry import engine_for, engine_names, open_rows, register_engine
from dperm.engine.sharded import ShardedRows, encoded_in, labels_in, persons_in
from dperm.engine.shards import Placed, ShardSource
from dperm.engine.spark_executor import SparkExecutor
from dperm.engine.spark_shards import spark_shards
from dperm.engine.sparse_rows import SparseRows
from dperm.engine.table import Table

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
    "encoded_in",
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
