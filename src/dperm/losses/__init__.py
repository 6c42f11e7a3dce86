"""Losses: scalar formulas and their proven constants. No data, no privacy."""

from dperm.losses.base import Loss
from dperm.losses.huber_hinge import HuberHinge
from dperm.losses.linear import Linear
from dperm.losses.logistic import Logistic
from dperm.losses.registry import (
    example_losses,
    loss_choices,
    loss_names,
    rebuild_loss,
    register_loss,
    registered_losses,
    resolve_loss,
)
from dperm.losses.softmax import Softmax
from dperm.losses.squared import ClippedSquared

for _loss in (Logistic, HuberHinge, ClippedSquared, Softmax, Linear):
    register_loss(_loss)

__all__ = [
    "ClippedSquared",
    "HuberHinge",
    "Linear",
    "Logistic",
    "Loss",
    "Softmax",
    "example_losses",
    "loss_choices",
    "loss_names",
    "rebuild_loss",
    "register_loss",
    "registered_losses",
    "resolve_loss",
]
