"""Mutations: mistakes put into the library's own functions, to see whether the audit notices them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType
from typing import Any

from dperm.errors import InvalidInput
from dperm.losses import Logistic
from dperm.mechanisms import mechanism_names, resolve
from dperm.privacy import Budget
from dperm.problem import Problem

# A small task and a budget on which a probe can plan and run.
EXAMPLE = Problem(loss=Logistic(), l2=0.1, x_norm=1.0, n_rows=24, n_features=3, intercept=0.5)
EXAMPLE_BUDGET = Budget(0.2, 1e-6)  # a small epsilon is priced sooner


@dataclass(frozen=True, eq=False, kw_only=True)
class Mutation:
    """A mistake that breaks a guarantee, as a patch of functions.

    Parameters
    ----------
    name, what_is_wrong : str
    touches : tuple of str
        The registered mechanisms whose guarantee it breaks: an audit of each must notice.
    changes : mapping
        From where a function stands, such as "dperm.problem.Problem.row_norm", to what makes a broken one of it.
        A function of a module is replaced in every loaded module of the library that imported it, as if its source
        had been edited. What is compiled already, or kept in a closure, is not reached.
    probe : callable
        Something that the library computes, which comes out otherwise with the mistake than without it.
    """

    name: str
    what_is_wrong: str
    touches: tuple[str, ...]
    changes: Mapping[str, Callable[[Any], Any]] = field(repr=False)
    probe: Callable[[], object] = field(repr=False)

    @contextmanager
    def apply(self) -> Iterator[None]:
        """The library with the mistake, as long as the context lasts."""
        swaps: list[tuple[Any, str, Any, Any]] = []
        try:
            for path, change in self.changes.items():
                owner, name = _owner(path)
                sound = vars(owner)[name]
                swaps.append((owner, name, sound, change(sound)))
                _swap(*swaps[-1])
            _forget()
            yield
        finally:
            for owner, name, sound, broken in reversed(swaps):
                _swap(owner, name, broken, sound)
            _forget()


def every_private(*, but: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The names of all private mechanisms, or of all but some."""
    return tuple(name for name in mechanism_names() if resolve(name).private and name not in but)


def _owner(path: str) -> tuple[Any, str]:
    """The module or class that holds what the path names, and its name there."""
    *names, last = path.split(".")
    for length in range(len(names), 0, -1):
        try:
            owner: Any = import_module(".".join(names[:length]))
        except ModuleNotFoundError:
            continue
        for name in names[length:]:
            owner = vars(owner).get(name)
        if owner is None or last not in vars(owner):
            break
        return owner, last
    raise InvalidInput(f"the library has no function {path!r} to change; name one as it is now.")


def _swap(owner: Any, name: str, old: Any, new: Any) -> None:
    if not isinstance(owner, ModuleType):
        setattr(owner, name, new)
        return
    for module in _modules("dperm"):
        for other, value in list(vars(module).items()):
            if value is old:
                setattr(module, other, new)


def _forget() -> None:
    """Empty the caches of prices and samplers."""
    for module in (*_modules("dperm.privacy"), *_modules("dperm.mechanisms")):
        for value in list(vars(module).values()):
            parts = list(vars(value).values()) if isinstance(value, type) else [value]
            for part in parts:
                if callable(clear := getattr(part, "cache_clear", None)):
                    clear()


def _modules(package: str) -> list[ModuleType]:
    return [
        module
        for name, module in list(sys.modules.items())
        if isinstance(module, ModuleType) and (name == package or name.startswith(package + "."))
    ]
