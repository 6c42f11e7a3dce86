"""Names of losses, what a class must declare to have one, and which losses go with a target."""

import inspect
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TypeVar, get_args

import numpy as np

from dperm.errors import InvalidInput, Unsupported
from dperm.installed import register_installed
from dperm.losses.base import PREFIX, Labels, Loss, Weighted, fingerprint
from dperm.losses.logistic import Logistic, Softmax
from dperm.losses.squared import ClippedSquared
from dperm.typing import Array

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_SLACK = 1 + 1e-12
_TARGETS = {"binary": (-1.0, 1.0), "real": (-2.0, 0.0, 0.7)}


def objection(kind: object) -> str | None:
    """Why a class cannot be registered as a loss, or None."""
    if not (isinstance(kind, type) and issubclass(kind, Loss)):
        return "it is not a subclass of Loss"
    if not (is_dataclass(kind) and kind.__dataclass_params__.frozen):
        return "it is not a frozen dataclass"
    if inspect.isabstract(kind):
        return f"it does not define {', '.join(sorted(kind.__abstractmethods__))}"
    names = (vars(kind).get("name"), *kind.aliases)
    if any(isinstance(name, str) and name.startswith(PREFIX) for name in names):
        return f"names that begin with {PREFIX} are those of losses with weights"
    if not all(isinstance(name, str) and _NAME.fullmatch(name) for name in names):
        return "its name and aliases must be lower-case words, joined by hyphens"
    if kind.labels not in get_args(Labels):
        return f"labels must be one of {', '.join(get_args(Labels))}"
    kernel = vars(kind).get("kernel")
    if kernel is not None:
        fingerprint(kernel)
    examples = kind.examples()
    if not examples:
        return "it has no example"
    return next((found for example in examples if (found := _untrue(example, kind)) is not None), None)


def _untrue(loss: Loss, kind: type[Loss]) -> str | None:
    if type(loss) is not kind or kind.from_parameters(loss.parameters, loss.outputs) != loss:
        return "from_parameters does not give back its example"
    if not (0 < loss.lipschitz < np.inf and 0 <= loss.smoothness < np.inf):
        return "lipschitz must be above 0 and smoothness at least 0, both finite"
    if loss.outputs < 1 or (loss.outputs > 1 and loss.labels != "classes"):
        return "only a loss over classes has several outputs"
    margin, y = _places(loss)
    for dtype in (np.float32, np.float64):
        for formula in (loss.value, loss.slope, loss.curvature):
            found = formula(margin.astype(dtype), y.astype(dtype))
            if found.dtype != dtype or not np.isfinite(found).all():
                return f"{formula.__name__} must keep the dtype and be finite for margins up to 1000"
    slope, curvature = loss.slope(margin, y), loss.curvature(margin, y)
    size = np.abs(slope) if loss.outputs == 1 else np.linalg.norm(slope, axis=-1)
    if size.max() > loss.lipschitz * _SLACK:
        return f"slopes reach {size.max():.6g}, above lipschitz = {loss.lipschitz:.6g}"
    if not (curvature.min() >= 0 and curvature.max() <= loss.smoothness * _SLACK):
        return f"curvatures must lie between 0 and smoothness = {loss.smoothness:.6g}"
    coupling = loss.coupling
    if coupling is not None:
        share = size / loss.lipschitz
        most = coupling * (share * (1 - share) if loss.sign_definite else 1 - share**2)
        if loss.outputs > 1 or not (curvature <= most + 1e-12 * loss.smoothness).all():
            return f"curvatures exceed what coupling = {coupling:.6g} allows at their slopes"
    if loss.sign_definite and (y * slope).min() < 0 < (y * slope).max():
        return "slopes change their sign, and sign_definite says that they do not"
    return None


def _places(loss: Loss) -> tuple[Array, Array]:
    """Margins and labels to look at."""
    steps = np.concatenate([np.linspace(-1000, 1000, 81), np.linspace(-3, 3, 121)])
    if loss.labels != "classes":
        targets = np.array(_TARGETS[loss.labels])
        return np.repeat(steps, len(targets)), np.tile(targets, len(steps))
    turn = np.arange(len(steps))
    margin = np.zeros((len(steps), loss.outputs))
    margin[turn, turn % loss.outputs] = steps
    return margin, (turn // 2 % loss.outputs).astype(np.float64)


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


AUTO_LOSS = "auto"
"""The loss that goes with the target: squared for numbers, logistic for classes, which is softmax for more than two."""

_USERS = {(): "numbers", (2,): "two classes", (3,): "more than two classes", (2, 3): "classes"}


def fitting_loss(asked: str, n_classes: int | None) -> str:
    """The name of the loss for so many classes, None for numbers; a loss that is for something else is refused."""
    if asked == AUTO_LOSS:
        return ClippedSquared.name if n_classes is None else Logistic.name
    loss = resolve_loss(asked)
    if not loss.is_model:
        raise Unsupported(f"the {loss.name} loss is for tests and audits; it makes no model.")
    if not _fits(loss, n_classes):
        here = "is a number" if n_classes is None else f"has {n_classes} classes"
        raise InvalidInput(
            f"the {asked} loss is for {_USERS[class_counts(loss)]}, and the target {here}; use {AUTO_LOSS} or one of "
            f"{', '.join(fitting_losses(n_classes))}."
        )
    return asked


def form_of(name: str, n_classes: int | None) -> str:
    """What a loss is called with so many classes: of more than two the logistic loss is the softmax loss."""
    several = n_classes is not None and n_classes > 2
    return Softmax.name if several and name == Logistic.name else name


def fitting_losses(n_classes: int | None) -> tuple[str, ...]:
    """The registered losses for so many classes, or for numbers."""
    names = loss_choices("binary", "classes", "real")
    return tuple(name for name in names if _fits(resolve_loss(name), n_classes))


def class_counts(loss: Loss) -> tuple[int, ...]:
    """Of two classes and more, of which 3 stands for all, those that there is a form of the loss for."""
    return tuple(n_classes for n_classes in (2, 3) if form_for(loss, n_classes) is not None)


def form_for(loss: Loss, n_classes: int) -> Loss | None:
    """The form of the loss for so many classes, None if there is none; two take one margin, not two."""
    try:
        fitting = loss.for_classes(n_classes)
    except InvalidInput:
        return None
    return fitting if fitting.outputs == (1 if n_classes == 2 else n_classes) else None


def _fits(loss: Loss, n_classes: int | None) -> bool:
    counts = class_counts(loss)
    return loss.labels == "real" if n_classes is None else min(n_classes, 3) in counts
