"""The linear test loss: it attains every sensitivity recurrence, so it shows that they are tight."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dperm.losses.base import Kernel, Loss
from dperm.typing import Array


def _slope(margin: float, y: float, one: float) -> float:
    return -y


def _value(margin: float, y: float, one: float) -> float:
    return -y * margin


@dataclass(frozen=True)
class Linear(Loss):
    """-y m: gradient -y x whatever the weights. For tests and audits; it has no use as a model."""

    name: ClassVar[str] = "linear"
    sign_definite: ClassVar[bool] = True
    is_model: ClassVar[bool] = False
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value)

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.0

    def value(self, margin: Array, y: Array) -> Array:
        return -y * margin

    def slope(self, margin: Array, y: Array) -> Array:
        return -y * np.ones_like(margin)

    def curvature(self, margin: Array, y: Array) -> Array:
        return np.zeros(np.broadcast_shapes(margin.shape, np.shape(y)), margin.dtype)
