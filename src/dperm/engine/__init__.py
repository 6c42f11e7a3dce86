"""Passes over private rows: the only package that touches them."""

from dperm.engine.base import Batches, Engine, Evaluation, Order, Rows, Sample
from dperm.engine.reference import ReferenceEngine
from dperm.engine.registry import engine_for, engine_names, open_rows, register_engine
from dperm.engine.sparse_rows import SparseRows
from dperm.engine.table import Table

__all__ = [
    "Batches",
    "Engine",
    "Evaluation",
    "Order",
    "ReferenceEngine",
    "Rows",
    "Sample",
    "SparseRows",
    "Table",
    "engine_for",
    "engine_names",
    "open_rows",
    "register_engine",
]
