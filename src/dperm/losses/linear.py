"""The linear test loss: it attains every sensitivity recurrence, so it shows that they are tight."""

from dataclasses import dataclass
from typing import ClassVar

from dperm.losses.base import Kernel, Loss, namespace
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
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, gpu=6)
    takes_tensors: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.0

    def value(self, margin: Array, y: Array) -> Array:
        return -y * margin

    def slope(self, margin: Array, y: Array) -> Array:
        ones: Array = namespace(margin).ones_like(margin)
        return -y * ones

    def curvature(self, margin: Array, y: Array) -> Array:
        found: Array = namespace(margin).zeros_like(y * margin)
        return found
