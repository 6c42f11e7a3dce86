"""Names of mechanisms, for strings in estimators and on the command line."""

import difflib
import inspect
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.losses import Loss, example_losses
from dperm.mechanisms.base import Mechanism
from dperm.problem import Problem
from dperm.unit import Neighbours

ENTRY_POINTS = "dperm.mechanisms"
"""The group of entry points by which an installed package makes its own mechanisms known."""

FAMILIES = ("auto", "output", "objective", "gradient", "statistics", "baseline")
_MECHANISMS: dict[str, type[Mechanism]] = {}
_OWN: set[type[Mechanism]] = set()
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


def mark_own() -> None:
    """All that is registered now is this library's own: called once, when its rooms have been walked."""
    if not _OWN:
        _OWN.update(_MECHANISMS.values())


def is_own(mechanism: Mechanism) -> bool:
    """Whether this very class is this library's; what is derived from one elsewhere is not."""
    return type(mechanism) in _OWN


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


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One mechanism, at its default settings, on a problem with l2 > 0 and an intercept.

    ``accountings`` is empty for baselines, which have no guarantee to account for.
    """

    name: str
    family: str
    title: str
    losses: tuple[str, ...]
    relations: tuple[str, ...]
    released: str
    accountings: tuple[str, ...]
    source: str
    private: bool


def catalogue() -> list[Entry]:
    """All registered mechanisms, grouped by family; families of other packages come last."""
    return [_entry(resolve(name)) for name in mechanism_names()]


def model_losses() -> tuple[Loss, ...]:
    """One instance of every registered loss that makes a model."""
    return tuple(loss for loss in example_losses() if loss.is_model)


def _entry(mechanism: Mechanism) -> Entry:
    covered = [
        (loss.name, relation.value) for loss, relation in _cases() if _covers(mechanism, loss, relation)
    ]
    return Entry(
        name=mechanism.name,
        family=mechanism.family,
        title=mechanism.title,
        losses=tuple(dict.fromkeys(loss for loss, _ in covered)),
        relations=tuple(dict.fromkeys(relation for _, relation in covered)),
        released=mechanism.released,
        accountings=tuple(kind for kind in ("tight", "paper") if _accepts(mechanism, kind)),
        source=mechanism.source,
        private=mechanism.private,
    )


def _cases() -> list[tuple[Loss, Neighbours]]:
    return [(loss, relation) for loss in model_losses() for relation in Neighbours]


def _covers(mechanism: Mechanism, loss: Loss, relation: Neighbours) -> bool:
    """What the mechanism itself says of a plain problem with this loss and relation."""
    problem = Problem(
        loss=loss, l2=1e-3, x_norm=1.0, n_rows=10_000, n_features=10, intercept=0.3, neighbours=relation
    )
    return mechanism.misfit(problem) is None


def _accepts(mechanism: Mechanism, accounting: str) -> bool:
    if not mechanism.private:
        return False
    try:
        type(mechanism)(accounting=accounting)
    except InvalidInput:
        return False
    return True
