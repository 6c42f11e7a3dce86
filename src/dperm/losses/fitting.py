"""Which losses go with a target: so many classes, or numbers."""

from dperm.errors import InvalidInput, Unsupported
from dperm.losses.base import Loss
from dperm.losses.logistic import Logistic
from dperm.losses.registry import loss_choices, resolve_loss
from dperm.losses.softmax import Softmax
from dperm.losses.squared import ClippedSquared

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
