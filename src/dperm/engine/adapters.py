"""From what a user passes to ``fit`` to shards: folders, memory maps, tables of other packages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from inspect import signature
from typing import Any

from dperm.engine.shards import ShardSource
from dperm.errors import Unsupported

Adapter = Callable[..., ShardSource | None]
"""From X and y as they came to a source, or None where they are of another kind. It looks at types and public facts
alone, never at a value, and imports the package that it is for only when X is of it. Where ``fit`` was told the name of
the column with the ids of persons, that is a third argument, for an adapter that takes one."""

_ADAPTERS: list[Adapter] = []


def register_adapter(adapter: Adapter) -> Adapter:
    """Make an adapter known; usable as a decorator. Those registered later are asked first."""
    _ADAPTERS.insert(0, adapter)
    return adapter


def source_of(X: Any, y: Any = None, person: str | None = None) -> ShardSource | None:
    """The shards that X and y are, or None for rows that are opened as they are.

    ``y`` is the labels, in a form that fits X, the name of a column of X, or None where X has them or has none.
    ``person`` is the name of the column with the ids of persons, where there is one.
    """
    if isinstance(X, ShardSource):
        return X
    for adapter in _ADAPTERS:
        told = person is not None and _takes_persons(adapter)
        source = adapter(X, y, person) if told else adapter(X, y)
        if source is None:
            continue
        if person is not None and not told:
            raise Unsupported("rows of this kind have no column of persons; give groups as an array of ids.")
        return source
    return None


def _takes_persons(adapter: Adapter) -> bool:
    with suppress(TypeError):
        signature(adapter).bind(None, None, None)
        return True
    return False
