"""Which loss an estimator trains with: a registered name or an object, of the right kind for its targets."""

from __future__ import annotations

from dperm.errors import InvalidInput, Unsupported
from dperm.losses import ClippedSquared, Loss, SoftClippedSquared, resolve_loss
from dperm.losses.registry import form_for

LossLike = str | Loss

_USUAL_BOUND = ClippedSquared().residual_bound


def classifier_loss(loss: LossLike, n_classes: int) -> Loss:
    """The loss for this many classes: of one output for two, of one output per class for more."""
    chosen = _checked(loss, ("binary", "classes"), "PrivateLinearRegression")
    fitting = form_for(chosen, n_classes)
    if fitting is None or (chosen.outputs > 1 and isinstance(loss, Loss) and chosen != fitting):
        raise Unsupported(
            f"the {chosen.name} loss as given does not fit {n_classes} classes. loss='logistic' fits two or more, any "
            "other for labels -1 and +1 fits two, and a loss object for more must have as many outputs as classes."
        )
    return fitting


def fits_many_classes(loss: LossLike) -> bool:
    """Whether there is a form of the loss for more than two classes."""
    return form_for(resolve_loss(loss), 3) is not None


def regression_loss(loss: LossLike, residual_bound: float) -> Loss:
    """The loss for real targets. ``residual_bound`` belongs to the two clipped squares by name."""
    for kind in (ClippedSquared, SoftClippedSquared):
        if loss == kind.name:
            return kind(residual_bound)
    chosen = _checked(loss, ("real",), "PrivateLinearClassifier")
    if residual_bound != _USUAL_BOUND:
        raise InvalidInput(
            "residual_bound is for loss='squared' or 'soft-clipped-squared'; set that of an object where it is made."
        )
    return chosen


def has_link(loss: LossLike) -> bool:
    """Whether margins stand for probabilities under this loss."""
    return resolve_loss(loss).has_log_odds


def _checked(loss: LossLike, labels: tuple[str, ...], other: str) -> Loss:
    chosen = resolve_loss(loss)
    if not chosen.is_model:
        raise Unsupported(f"the {chosen.name} loss is for tests and audits; it makes no model.")
    if chosen.labels not in labels:
        raise Unsupported(f"the {chosen.name} loss is for other targets than these; use {other} for it.")
    return chosen
