"""Which loss an estimator trains with: a name or an object, of the right kind for its targets."""

from __future__ import annotations

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax

LossLike = str | Loss

_BY_NAME: dict[str, type[Loss]] = {
    kind.name: kind for kind in (Logistic, HuberHinge, ClippedSquared, Softmax)
}
_USUAL_BOUND = ClippedSquared().residual_bound


def resolve_loss(loss: LossLike) -> Loss:
    """A loss from its name, or as it is."""
    if isinstance(loss, Loss):
        return loss
    if not isinstance(loss, str):
        raise InvalidInput(
            f"loss must be a name or a loss object such as Logistic(); got a {type(loss).__name__}."
        )
    if loss not in _BY_NAME:
        raise InvalidInput(f"no loss is named {loss!r}; choose from {', '.join(_BY_NAME)}.")
    return _BY_NAME[loss]()


def classifier_loss(loss: LossLike, n_classes: int) -> Loss:
    """The loss for this many classes: of one output for two, of one output per class for more.

    "logistic" is the softmax loss for more than two.
    """
    if isinstance(loss, str) and loss in (Logistic.name, Softmax.name) and n_classes > 2:
        return Softmax(n_classes)
    chosen = resolve_loss(loss)
    _check_targets(chosen, ("binary", "classes"), "PrivateLinearRegression")
    if chosen.outputs != (1 if n_classes == 2 else n_classes):
        raise Unsupported(
            f"the {chosen.name} loss as given does not fit {n_classes} classes. loss='logistic' fits two or more, any "
            "other for labels -1 and +1 fits two, and a loss object for more must have as many outputs as classes."
        )
    return chosen


def fits_many_classes(loss: LossLike) -> bool:
    """Whether there is a form of the loss for more than two classes."""
    chosen = resolve_loss(loss)
    return chosen.labels == "classes" or loss == Logistic.name


def regression_loss(loss: LossLike, residual_bound: float) -> Loss:
    """The loss for real targets. ``residual_bound`` belongs to "squared"; an object has its own."""
    if loss == ClippedSquared.name:
        return ClippedSquared(residual_bound)
    chosen = resolve_loss(loss)
    _check_targets(chosen, ("real",), "PrivateLinearClassifier")
    if residual_bound != _USUAL_BOUND:
        raise InvalidInput(
            "residual_bound is for loss='squared'; set the bound of a loss object where it is made."
        )
    return chosen


def has_link(loss: LossLike) -> bool:
    """Whether margins stand for probabilities under this loss."""
    return isinstance(resolve_loss(loss), Logistic | Softmax)


def _check_targets(loss: Loss, labels: tuple[str, ...], other: str) -> None:
    if loss.labels not in labels:
        raise Unsupported(f"the {loss.name} loss is for other targets than these; use {other} for it.")
