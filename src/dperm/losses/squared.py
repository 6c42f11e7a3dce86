"""Squared loss with a clipped residual (Huber's loss), for bounded-influence linear regression."""

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Array, Labels, Loss
from dperm.losses.kernel import Kernel


def _slope(margin: float, y: float, one: float, bound: float) -> float:
    return min(max(margin - y, -bound), bound)


def _value(margin: float, y: float, one: float, bound: float) -> float:
    size = abs(margin - y)
    inner = min(size, bound)
    return inner * (size - inner / (one + one))


@dataclass(frozen=True)
class ClippedSquared(Loss):
    r""":math:`\frac12 (m - y)^2` while :math:`|m - y| \le B`, continued linearly beyond: slope clip(m - y)."""

    residual_bound: float = 1.0
    name: ClassVar[str] = "squared"
    labels: ClassVar[Labels] = "real"
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value)

    def __post_init__(self) -> None:
        if not (np.isfinite(self.residual_bound) and self.residual_bound > 0):
            raise InvalidInput(f"residual_bound must be a positive number; got {self.residual_bound!r}.")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(0.7), cls(0.3), cls(20.0))

    @property
    def lipschitz(self) -> float:
        return self.residual_bound

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.residual_bound,)

    def value(self, margin: Array, y: Array) -> Array:
        size = np.abs(margin - y)
        inner = np.minimum(size, self.residual_bound)
        return inner * (size - inner / 2)

    def slope(self, margin: Array, y: Array) -> Array:
        return np.clip(margin - y, -self.residual_bound, self.residual_bound)

    def curvature(self, margin: Array, y: Array) -> Array:
        return (np.abs(margin - y) <= self.residual_bound).astype(margin.dtype)
