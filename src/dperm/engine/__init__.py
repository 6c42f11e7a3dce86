"""Passes over private rows: the only package that touches them."""

from dperm.engine.base import Engine, Evaluation
from dperm.engine.reference import ReferenceEngine
from dperm.engine.table import Table

__all__ = ["Engine", "Evaluation", "ReferenceEngine", "Table"]
