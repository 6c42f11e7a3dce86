"""Names of losses, for strings in estimators, certificates and on the command line."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache
from typing import TypeVar

from dperm.errors import InvalidInput
from dperm.installed import register_installed
from dperm.losses.base import Labels, Loss
from dperm.losses.check import objection
from dperm.losses.weighted import PREFIX, Weighted

ENTRY_POINTS = "dperm.losses"
"""The group of entry points by which an installed package makes its own losses known."""

Kind = TypeVar("Kind", bound=type[Loss])
_LOSSES: dict[str, type[Loss]] = {}


def register_loss(kind: Kind) -> Kind:
    """Make a loss known by its name; usable as a class decorator, above ``dataclass(frozen=True)``.

    A class that lacks something, or whose formulas break its constants at one of a few hundred margins, is refused.
    """
    found = objection(kind)
    if found is not None:
        raise InvalidInput(f"{getattr(kind, '__name__', kind)!s} cannot be registered as a loss: {found}.")
    if _LOSSES.get(kind.name) is kind:
        return kind
    taken = {name for known in _LOSSES.values() for name in (known.name, *known.aliases)}
    for name in (kind.name, *kind.aliases):
        if name in taken:
            raise InvalidInput(f"a loss named {name!r} is registered already; choose another name.")
    parent = next((known for known in _LOSSES.values() if issubclass(kind, known)), None)
    if parent is not None:
        raise InvalidInput(
            f"{kind.__name__} derives from the {parent.name} loss, for which there are theorems that need not hold for "
            "it; derive it from Loss."
        )
    _LOSSES[kind.name] = kind
    return kind


@cache
def load_installed() -> None:
    """Register, once, what installed packages declare. One that does not load is left out with a warning."""
    register_installed(ENTRY_POINTS, "loss", register_loss)


def registered_losses() -> tuple[type[Loss], ...]:
    """All of them: of this library, of installed packages and of what the program has registered."""
    load_installed()
    return tuple(_LOSSES.values())


def loss_names() -> tuple[str, ...]:
    """The names of all registered losses."""
    return tuple(kind.name for kind in registered_losses())


def loss_choices(*labels: Labels) -> tuple[str, ...]:
    """How the command line calls the losses that make a model of these labels."""
    return tuple(
        (*kind.aliases, kind.name)[0]
        for kind in registered_losses()
        if kind.is_model and kind.labels in labels
    )


def example_losses() -> tuple[Loss, ...]:
    """One instance of every registered loss, for catalogues and audits."""
    return tuple(kind.examples()[0] for kind in registered_losses())


def resolve_loss(loss: str | Loss) -> Loss:
    """A loss from its name or alias, from ``name:setting=number,...``, or an object of a registered class as it is."""
    if isinstance(loss, Loss):
        if type(loss) not in registered_losses():
            raise InvalidInput(
                f"{type(loss).__name__} is not a registered loss; call dperm.losses.register_loss on the class first."
            )
        return loss
    if not isinstance(loss, str):
        kind = type(loss).__name__
        raise InvalidInput(f"loss must be a name or a loss object such as Logistic(); got a {kind}.")
    name, _, settings = loss.partition(":")
    chosen = _named(name)
    given = dict(_setting(chosen, text) for text in settings.split(",")) if settings else {}
    return chosen(**given)


def rebuild_loss(name: str, parameters: Sequence[float], outputs: int) -> Loss:
    """The loss that has this name, ``parameters`` and ``outputs``; nothing else will do."""
    if name.startswith(PREFIX) and parameters:
        return Weighted(rebuild_loss(name.removeprefix(PREFIX), parameters[1:], outputs), parameters[0])
    kind = next((kind for kind in registered_losses() if kind.name == name), None)
    if kind is not None and len(parameters) == len(kind.examples()[0].parameters):
        loss = kind.from_parameters(tuple(parameters), outputs)
        if (loss.parameters, loss.outputs) == (tuple(parameters), outputs):
            return loss
    raise InvalidInput(f"{name!r} with these parameters is not a known loss.")


def _named(name: str) -> type[Loss]:
    known = registered_losses()
    for kind in known:
        if name in (kind.name, *kind.aliases):
            return kind
    raise InvalidInput(f"no loss is named {name!r}; choose from {', '.join(kind.name for kind in known)}.")


def _setting(kind: type[Loss], text: str) -> tuple[str, float]:
    """A pair of name and number from ``name=number``; the number is whole where the setting's default is."""
    name, _, number = text.partition("=")
    defaults = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]
    value: float | None = None
    if name in defaults:
        with suppress(ValueError):
            value = int(number) if isinstance(defaults[name], int) else float(number)
    if value is None:
        known = ", ".join(defaults) or "none"
        raise InvalidInput(f"{text!r} does not set the {kind.name} loss, whose settings are: {known}.")
    return name, value
