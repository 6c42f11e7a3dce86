"""The logistic loss with a margin: more signal at small weights, at the price of the logistic loss."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Array, Loss
from dperm.losses.kernel import Kernel, exponential


def _slope(margin: float, y: float, one: float, shift: float) -> float:
    return -y / (one + exponential(y * margin - shift))


def _value(margin: float, y: float, one: float, shift: float) -> float:
    return max(shift - y * margin, one - one)


def _excess(margin: float, y: float, one: float, shift: float) -> float:
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
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, excess=_excess)

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
        z = y * margin - self.shift
        return np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0)

    def slope(self, margin: Array, y: Array) -> Array:
        z = y * margin - self.shift
        decay = np.exp(-np.abs(z))
        return np.asarray(-y * np.where(z >= 0, decay, 1) / (1 + decay))

    def curvature(self, margin: Array, y: Array) -> Array:
        decay = np.exp(-np.abs(y * margin - self.shift))
        return np.asarray(decay / (1 + decay) ** 2)

    def log_odds(self, margin: Array) -> Array:
        none = margin.dtype.type(0)
        return np.asarray(np.logaddexp(margin - self.shift, none) - np.logaddexp(-margin - self.shift, none))
