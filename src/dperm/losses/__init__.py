"""Losses: scalar formulas and their proven constants. No data, no privacy."""

from dperm.losses.base import Loss, Weighted
from dperm.losses.huber_hinge import HuberHinge
from dperm.losses.linear import Linear
from dperm.losses.logistic import (
    HardClippedLogistic,
    Logistic,
    MarginLogistic,
    SoftClippedLogistic,
    Softmax,
    softly_clipped,
)
from dperm.losses.registry import (
    example_losses,
    loss_choices,
    loss_names,
    rebuild_loss,
    register_loss,
    registered_losses,
    resolve_loss,
)
from dperm.losses.squared import ClippedSquared, SoftClippedSquared

for _loss in (
    Logistic,
    SoftClippedLogistic,
    MarginLogistic,
    HardClippedLogistic,
    HuberHinge,
    ClippedSquared,
    SoftClippedSquared,
    Softmax,
    Linear,
):
    register_loss(_loss)

__all__ = [
    "ClippedSquared",
    "HardClippedLogistic",
    "HuberHinge",
    "Linear",
    "Logistic",
    "Loss",
    "MarginLogistic",
    "SoftClippedLogistic",
    "SoftClippedSquared",
    "Softmax",
    "Weighted",
    "example_losses",
    "loss_choices",
    "loss_names",
    "rebuild_loss",
    "register_loss",
    "registered_losses",
    "resolve_loss",
    "softly_clipped",
]
