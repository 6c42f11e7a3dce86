"""Passes over private rows: the only package that touches them."""

from dperm.engine.adapters import register_adapter, source_of
from dperm.engine.base import Batches, Engine, Evaluation, Order, Rows, Sample
from dperm.engine.dask_shards import dask_shards
from dperm.engine.executors import Executor, LocalExecutor
from dperm.engine.lazy import MappedRows
from dperm.engine.reference import ReferenceEngine
from dperm.engine.registry import engine_for, engine_names, open_rows, register_engine
from dperm.engine.sharded import ShardedRows, labels_in
from dperm.engine.shards import ShardSource
from dperm.engine.table import Table
from dperm.engine.tensors import on_host

__all__ = [
    "Batches",
    "Engine",
    "Evaluation",
    "Executor",
    "LocalExecutor",
    "MappedRows",
    "Order",
    "ReferenceEngine",
    "Rows",
    "Sample",
    "ShardSource",
    "ShardedRows",
    "Table",
    "dask_shards",
    "engine_for",
    "engine_names",
    "labels_in",
    "on_host",
    "open_rows",
    "register_adapter",
    "register_engine",
    "source_of",
]
