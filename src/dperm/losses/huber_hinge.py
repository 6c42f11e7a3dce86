"""Huberised hinge: the smooth loss of our linear SVM."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Kernel, Loss, namespace
from dperm.typing import Array


def _slope(margin: float, y: float, one: float, width: float) -> float:
    return -y * min(max((one + width - y * margin) / (width + width), one - one), one)


def _value(margin: float, y: float, one: float, width: float) -> float:
    z, double = y * margin, width + width
    rounded = min(max(one + width - z, one - one), double)
    return rounded * rounded / (double + double) + max(one - width - z, one - one)


@dataclass(frozen=True)
class HuberHinge(Loss):
    r"""Hinge rounded over ``1 - width <= y m <= 1 + width``.

    With z = y m and width h: 0 for z > 1 + h, :math:`(1 + h - z)^2 / 4h` in between, 1 - z below.
    The derivative in z runs from -1 to 0 with slope 1/(2h); the curvature jumps at the two knots,
    where the value of the middle piece is returned.
    """

    width: float = 0.5
    name: ClassVar[str] = "huber-hinge"
    aliases: ClassVar[tuple[str, ...]] = ("svm",)
    sign_definite: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, gpu=3)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.width) and self.width > 0):
            raise InvalidInput(
                f"width must be a positive number; got {self.width!r}. The usual choice is 0.5."
            )

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(0.5), cls(0.05), cls(2.0))

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 1.0 / (2.0 * self.width)

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.width,)

    def value(self, margin: Array, y: Array) -> Array:
        z, xp = y * margin, namespace(margin)
        rounded = xp.clip(1 + self.width - z, 0, 2 * self.width)
        found: Array = rounded * rounded / (4 * self.width) + xp.clip(1 - self.width - z, 0, None)
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        share: Array = namespace(margin).clip((1 + self.width - y * margin) / (2 * self.width), 0, 1)
        return -y * share

    def curvature(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        found: Array = xp.asarray(xp.abs(1 - y * margin) <= self.width, dtype=margin.dtype) * self.smoothness
        return found
