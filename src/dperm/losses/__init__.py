"""Losses: scalar formulas and their proven constants. No data, no privacy."""

from dperm.losses.base import Loss
from dperm.losses.huber_hinge import HuberHinge
from dperm.losses.linear import Linear
from dperm.losses.logistic import Logistic
from dperm.losses.softmax import Softmax
from dperm.losses.squared import ClippedSquared

__all__ = ["ClippedSquared", "HuberHinge", "Linear", "Logistic", "Loss", "Softmax"]
