"""Which kind of rows X is, and who opens them: one place that answers what ``fit`` was given."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

import numpy as np

from dperm.engine.base.draws import Members
from dperm.engine.base.rows import EVERY_TYPE, Rows
from dperm.engine.categorical.rows import CategoricalRows
from dperm.engine.dense.rows import Table
from dperm.engine.device.rows import TorchRows
from dperm.engine.shards.sources import ShardSource
from dperm.engine.sparse.rows import SparseRows
from dperm.errors import InvalidInput, Unsupported
from dperm.installed import register_installed
from dperm.problem import Problem

ENTRY_POINTS = "dperm.engines"
"""The group of entry points by which an installed package makes its own engines known."""

Adapter = Callable[..., ShardSource | None]
"""From X and y as they came to a source, or None where they are of another kind. It looks at types and public facts
alone, never at a value, and imports the package that it is for only when X is of it. Where ``fit`` was told the name of
the column with the ids of persons, that is a third argument, for an adapter that takes one."""

_ENGINES: dict[str, type[Rows]] = {}
_ADAPTERS: dict[Adapter, tuple[str, ...]] = {}
Kind = TypeVar("Kind", bound=type[Rows])


def register_engine(engine: Kind) -> Kind:
    """Make a kind of rows known; usable as a class decorator. Those registered later are asked first."""
    if not (isinstance(engine, type) and issubclass(engine, Rows)) or inspect.isabstract(engine):
        raise InvalidInput(
            f"only classes that implement Rows can be registered as an engine; got {engine!r}."
        )
    if _ENGINES.setdefault(engine.name, engine) is not engine:
        raise InvalidInput(f"an engine named {engine.name!r} is registered already; choose another name.")
    _engines_of.cache_clear()
    return engine


def register_adapter(adapter: Adapter, opens: tuple[str, ...] = EVERY_TYPE) -> Adapter:
    """Make an adapter known; usable as a decorator. Those registered later are asked first.

    ``opens`` names the types that it is asked about, as ``Rows.opens`` does.
    """
    _ADAPTERS[adapter] = opens
    _adapters_of.cache_clear()
    return adapter


@cache
def type_names(kind: type) -> frozenset[str]:
    """The names of a type: package and class of all that it derives from, and the protocols that it follows."""
    packages = [base.__module__.partition(".")[0] for base in kind.__mro__]
    classes = (f"{package}.{base.__name__}" for package, base in zip(packages, kind.__mro__, strict=True))
    outside = not issubclass(kind, np.ndarray | np.generic)
    protocols = (name for name in ("__dlpack__", "__fspath__") if outside and hasattr(kind, name))
    return frozenset((*packages, *classes, *protocols))


@cache
def _engines_of(kind: type) -> tuple[type[Rows], ...]:
    return tuple(engine for engine in reversed(_ENGINES.values()) if type_names(kind) & {*engine.opens})


@cache
def _adapters_of(kind: type) -> tuple[Adapter, ...]:
    return tuple(one for one, opens in reversed(_ADAPTERS.items()) if type_names(kind) & {*opens})


register_engine(Table)
register_engine(CategoricalRows)
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
    """The engine for rows of this type; values are not looked at. An array, and what none is for, is a ``Table``."""
    load_installed()
    kinds = _engines_of(type(X))  # type: ignore[arg-type]
    return next(engine for engine in kinds if engine.accepts(X))


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


def source_of(X: Any, y: Any = None, person: str | None = None) -> ShardSource | None:
    """The shards that X and y are, or None for rows that are opened as they are.

    ``y`` is the labels, in a form that fits X, the name of a column of X, or None where X has them or has none.
    ``person`` is the name of the column with the ids of persons, where there is one.
    """
    if isinstance(X, ShardSource):
        return X
    for adapter in _adapters_of(type(X)):  # type: ignore[arg-type]
        takes = person is not None and _takes_persons(adapter)
        source = adapter(X, y, person) if takes else adapter(X, y)
        if source is None:
            continue
        if person is not None and not takes:
            raise Unsupported("rows of this kind have no column of persons; give groups as an array of ids.")
        return source
    return None


def _takes_persons(adapter: Adapter) -> bool:
    with suppress(TypeError):
        inspect.signature(adapter).bind(None, None, None)
        return True
    return False
