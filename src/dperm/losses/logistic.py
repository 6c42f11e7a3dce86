"""The logistic loss, and the one with a margin: more signal at small weights, at the same price."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Kernel, Loss, exponential, logistic_density, sigmoid, softplus
from dperm.losses.softmax import Softmax
from dperm.typing import Array


def _slope(margin: float, y: float, one: float) -> float:
    return -y / (one + exponential(y * margin))


def _value(margin: float, y: float, one: float) -> float:
    return max(-y * margin, one - one)


def _excess(margin: float, y: float, one: float) -> float:
    return exponential(-abs(y * margin))


@dataclass(frozen=True)
class Logistic(Loss):
    r""":math:`\log(1 + e^{-ym})`; derivative in (-1, 0) along ``y * margin``, curvature at most 1/4."""

    name: ClassVar[str] = "logistic"
    sign_definite: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, excess=_excess, gpu=0)
    takes_tensors: ClassVar[bool] = True

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def coupling(self) -> float:
        return 1.0

    @property
    def curvature_lipschitz(self) -> float:
        return 1 / (6 * math.sqrt(3))

    def for_classes(self, n_classes: int) -> Loss:
        return self if n_classes == 2 else Softmax(n_classes)

    def value(self, margin: Array, y: Array) -> Array:
        return softplus(-(y * margin))

    def slope(self, margin: Array, y: Array) -> Array:
        return -y * sigmoid(-(y * margin))

    def curvature(self, margin: Array, y: Array) -> Array:
        return logistic_density(y * margin)

    def log_odds(self, margin: Array) -> Array:
        return margin


def _margin_slope(margin: float, y: float, one: float, shift: float) -> float:
    return -y / (one + exponential(y * margin - shift))


def _margin_value(margin: float, y: float, one: float, shift: float) -> float:
    return max(shift - y * margin, one - one)


def _margin_excess(margin: float, y: float, one: float, shift: float) -> float:
    return exponential(-abs(y * margin - shift))


@dataclass(frozen=True)
class MarginLogistic(Loss):
    r""":math:`\log(1 + e^{m_0 - ym})` with :math:`m_0` = ``shift``: at zero weights the slope is near its largest."""

    shift: float = 1.0
    name: ClassVar[str] = "margin-logistic"
    aliases: ClassVar[tuple[str, ...]] = ("margin",)
    sign_definite: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_margin_slope, value=_margin_value, excess=_margin_excess, gpu=0)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.shift <= 100:
            raise InvalidInput(f"shift must be a number above 0 and at most 100; got {self.shift!r}.")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(), cls(0.25), cls(3.0))

    @property
    def lipschitz(self) -> float:
        return 1.0

    @property
    def smoothness(self) -> float:
        return 0.25

    @property
    def coupling(self) -> float:
        return 1.0

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.shift,)

    def value(self, margin: Array, y: Array) -> Array:
        return softplus(-(y * margin - self.shift))

    def slope(self, margin: Array, y: Array) -> Array:
        return -y * sigmoid(-(y * margin - self.shift))

    def curvature(self, margin: Array, y: Array) -> Array:
        return logistic_density(y * margin - self.shift)

    def log_odds(self, margin: Array) -> Array:
        none = margin.dtype.type(0)
        return np.asarray(np.logaddexp(margin - self.shift, none) - np.logaddexp(-margin - self.shift, none))
