"""Names of mechanisms, for strings in estimators and on the command line."""

import difflib
import inspect
from dataclasses import replace
from functools import cache
from typing import TypeVar

from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.mechanisms.base import Mechanism

ENTRY_POINTS = "dperm.mechanisms"
"""The group of entry points by which an installed package makes its own mechanisms known."""

FAMILIES = ("auto", "output", "objective", "gradient", "statistics", "baseline")
_MECHANISMS: dict[str, type[Mechanism]] = {}
Kind = TypeVar("Kind", bound=type[Mechanism])


def register(mechanism: Kind) -> Kind:
    """Make a mechanism known by its name; usable as a class decorator."""
    if not (isinstance(mechanism, type) and issubclass(mechanism, Mechanism)):
        raise InvalidInput(f"only subclasses of Mechanism can be registered; got {mechanism!r}.")
    if inspect.isabstract(mechanism):
        missing = ", ".join(sorted(mechanism.__abstractmethods__))
        raise InvalidInput(f"{mechanism.__name__} cannot be registered before it defines {missing}.")
    undeclared = [name for name in ("name", "family", "title", "source") if not hasattr(mechanism, name)]
    if undeclared:
        raise InvalidInput(f"{mechanism.__name__} must declare {', '.join(undeclared)} to be registered.")
    known = _MECHANISMS.setdefault(mechanism.name, mechanism)
    if known is not mechanism:
        raise InvalidInput(
            f"a mechanism named {mechanism.name!r} is registered already; choose another name."
        )
    return mechanism


def registered() -> tuple[type[Mechanism], ...]:
    """The classes that are registered now; those of installed packages once they were asked for."""
    return tuple(_MECHANISMS.values())


@cache
def load_installed() -> None:
    """Register, once, what installed packages declare. One that does not load is left out with a warning."""
    register_installed(ENTRY_POINTS, "mechanism", register)


def _in_order() -> list[str]:
    """By family and name; families of other packages come last."""
    place = {family: k for k, family in enumerate(FAMILIES)}
    return sorted(_MECHANISMS, key=lambda name: (place.get(_MECHANISMS[name].family, len(place)), name))


def mechanism_names() -> tuple[str, ...]:
    """All names: those of this library, of installed packages and of what the program has registered."""
    load_installed()
    return tuple(_in_order())


def resolve(mechanism: "str | Mechanism") -> Mechanism:
    """A mechanism from its name, from ``name:paper`` or ``name:tight``, or as it is."""
    if isinstance(mechanism, Mechanism):
        return mechanism
    if not isinstance(mechanism, str):
        kind = type(mechanism).__name__
        raise InvalidInput(f"mechanism must be a name or a mechanism object such as RSGDAR(); got a {kind}.")
    name, _, accounting = mechanism.partition(":")
    if name not in _MECHANISMS and name not in mechanism_names():
        close = difflib.get_close_matches(name, _MECHANISMS, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise InvalidInput(f"no mechanism is named {name!r}; choose from {', '.join(_in_order())}.{hint}")
    chosen = _MECHANISMS[name]()
    return replace(chosen, accounting=accounting) if accounting else chosen
