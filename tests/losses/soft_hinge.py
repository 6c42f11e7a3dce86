"""A loss as another package would bring it: nothing in dperm knows of it."""

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.losses import Loss
from dperm.losses.base import Kernel, exponential


def _slope(margin, y, one, temperature):
    return -y / (one + exponential((y * margin - one) / temperature))


def _value(margin, y, one, temperature):
    gap = one - y * margin
    return max(gap, one - one) + temperature * math.log1p(exponential(-abs(gap) / temperature))


@dataclass(frozen=True)
class SoftHinge(Loss):
    """t log(1 + e^((1 - y m) / t)): the hinge 1 - y m, rounded at temperature t; its curvature is at most 1 / 4t."""

    temperature: float = 0.5
    name: ClassVar[str] = "soft-hinge"
    sign_definite: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value)

    @property
    def lipschitz(self):
        return 1.0

    @property
    def smoothness(self):
        return 1 / (4 * self.temperature)

    @property
    def parameters(self):
        return (self.temperature,)

    def value(self, margin, y):
        gap = 1 - y * margin
        return np.maximum(gap, 0) + self.temperature * np.log1p(np.exp(-np.abs(gap) / self.temperature))

    def slope(self, margin, y):
        lag = (1 - y * margin) / self.temperature
        decay = np.exp(-np.abs(lag))
        return -y * np.where(lag >= 0, 1, decay) / (1 + decay)

    def curvature(self, margin, y):
        decay = np.exp(-np.abs((1 - y * margin) / self.temperature))
        return decay / ((1 + decay) ** 2 * self.temperature)
