"""Names of engines, and the one that opens given rows."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, TypeVar

from dperm.engine.base import Rows
from dperm.engine.coded import CodedRows
from dperm.engine.members import Members
from dperm.engine.sparse_rows import SparseRows
from dperm.engine.table import Table
from dperm.engine.torch_rows import TorchRows
from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.problem import Problem

ENTRY_POINTS = "dperm.engines"
"""The group of entry points by which an installed package makes its own engines known."""

_ENGINES: dict[str, type[Rows]] = {}
Kind = TypeVar("Kind", bound=type[Rows])


def register_engine(engine: Kind) -> Kind:
    """Make a kind of rows known; usable as a class decorator. Those registered later are asked first."""
    if not (isinstance(engine, type) and issubclass(engine, Rows)) or inspect.isabstract(engine):
        raise InvalidInput(
            f"only classes that implement Rows can be registered as an engine; got {engine!r}."
        )
    if _ENGINES.setdefault(engine.name, engine) is not engine:
        raise InvalidInput(f"an engine named {engine.name!r} is registered already; choose another name.")
    return engine


register_engine(Table)
register_engine(CodedRows)
register_engine(SparseRows)
register_engine(TorchRows)


@cache
def load_installed() -> None:
    """Register, once, what installed packages declare. One that does not load is left out with a warning."""
    register_installed(ENTRY_POINTS, "engine", register_engine)


def engine_names() -> tuple[str, ...]:
    load_installed()
    return tuple(_ENGINES)


def engine_for(X: Any) -> type[Rows]:
    """The engine for rows of this type; values are not looked at."""
    load_installed()
    for engine in reversed(_ENGINES.values()):
        if engine.accepts(X):
            return engine
    raise InvalidInput(
        f"no engine opens rows of type {type(X).__name__}."
    )  # pragma: no cover - dense accepts all


def open_rows(X: Any, y: Any, problem: Problem, mask: Any = None, members: Members | None = None) -> Rows:
    """Rows of any kind that an engine knows, with the bounds of a problem. Nothing is read yet.

    ``mask``, 0/1 of shape (rows, K), says which rows each of K models trains on; each model's problem then counts its
    own rows. ``members`` says which rows belong to which person.
    """
    kind, row_map = engine_for(X), problem.row_map
    if members is not None:
        return kind.of(X, y, row_map=row_map, n_rows=members.n_rows).of_persons(members)
    n_rows = problem.n_rows if mask is None else len(mask)
    return kind.of(X, y, row_map=row_map, n_rows=n_rows, mask=mask)
