"""Squared loss with bounded slopes, for linear regression: a clipped residual (Huber's loss), or one that saturates."""

from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self

import numpy as np

from dperm.arithmetic import rounded_up
from dperm.errors import InvalidInput
from dperm.losses.base import Kernel, Labels, Loss, exponential, namespace
from dperm.typing import Array

RAMP = (
    1 / 8
)  # of the bound on residuals: over this width the continuous curvature of clipped squares falls from 1 to 0


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
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, gpu=4)
    takes_tensors: ClassVar[bool] = True

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

    @property
    def curvature_lipschitz(self) -> float:
        return 1 / (RAMP * self.residual_bound)

    def value(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        size: Array = xp.abs(margin - y)
        inner: Array = xp.clip(size, None, self.residual_bound)
        return inner * (size - inner / 2)

    def slope(self, margin: Array, y: Array) -> Array:
        found: Array = namespace(margin).clip(margin - y, -self.residual_bound, self.residual_bound)
        return found

    def curvature(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        found: Array = xp.asarray(xp.abs(margin - y) <= self.residual_bound, dtype=margin.dtype)
        return found

    def continuous_curvature(self, margin: Array, y: Array) -> Array:
        left = (1 + RAMP / 2) * self.residual_bound - np.abs(margin - y)
        return np.clip(left / (RAMP * self.residual_bound), 0, 1)


def _soft_slope(margin: float, y: float, one: float, bound: float, bend: float, room: float) -> float:
    residual = margin - y
    inner = min(max(residual, -bend), bend)
    outer = room * (one - exponential(-max(abs(residual) - bend, one - one) / room))
    return inner + (outer if residual > one - one else -outer)


def _soft_value(margin: float, y: float, one: float, bound: float, bend: float, room: float) -> float:
    size = abs(margin - y)
    inner, beyond = min(size, bend), max(size - bend, one - one)
    outer = bound * beyond - room * room * (one - exponential(-beyond / room))
    return inner * inner / (one + one) + outer


@dataclass(frozen=True)
class SoftClippedSquared(Loss):
    r""":math:`\frac12 r^2` of the residual r = m - y up to ``knee * residual_bound``, and slopes below the bound.

    With B = ``residual_bound`` and q = ``knee`` the slope is r for :math:`|r| \le qB`, and of size
    :math:`B - (1 - q)B\, e^{-(|r| - qB)/(1 - q)B}` beyond. The curvature is at most ``coupling``
    :math:`\cdot\,(1 - a^2)` where a is the slope over B (docs/proofs/clipped-losses.md).
    """

    residual_bound: float = 1.0
    knee: float = 0.5
    name: ClassVar[str] = "soft-clipped-squared"
    aliases: ClassVar[tuple[str, ...]] = ("soft-clip-squared",)
    labels: ClassVar[Labels] = "real"
    kernel: ClassVar[Kernel] = Kernel(slope=_soft_slope, value=_soft_value, gpu=5)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (np.isfinite(self.residual_bound) and self.residual_bound > 0):
            raise InvalidInput(f"residual_bound must be a positive number; got {self.residual_bound!r}.")
        if not 0 < self.knee < 1:
            raise InvalidInput(f"knee must lie strictly between 0 and 1; got {self.knee!r}.")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(), cls(0.3, 0.8), cls(20.0, 0.5))

    @property
    def lipschitz(self) -> float:
        return self.residual_bound

    @property
    def smoothness(self) -> float:
        return 1.0

    @property
    def coupling(self) -> float:
        return rounded_up(1 / (1 - Fraction(float(self.knee)) ** 2))

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.residual_bound, self.knee)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.residual_bound, self._bend, self._room)

    @property
    def _bend(self) -> float:
        """The residual where the squared loss ends."""
        return self.knee * self.residual_bound

    @property
    def _room(self) -> float:
        return (1 - self.knee) * self.residual_bound

    @property
    def curvature_lipschitz(self) -> float:
        return 1 / ((1 - self.knee) * self.residual_bound)

    def value(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        size = xp.abs(margin - y)
        inner = xp.clip(size, None, self._bend)
        beyond = size - inner
        outer = self.residual_bound * beyond + self._room**2 * xp.expm1(-beyond / self._room)
        found: Array = inner * inner / 2 + outer
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        residual, xp = margin - y, namespace(margin)
        beyond = xp.clip(xp.abs(residual) - self._bend, 0, None)
        size = xp.clip(xp.abs(residual), None, self._bend) - self._room * xp.expm1(-beyond / self._room)
        found: Array = xp.sign(residual) * xp.clip(size, None, self.residual_bound)
        return found

    def curvature(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        found: Array = xp.exp(-xp.clip(xp.abs(margin - y) - self._bend, 0, None) / self._room)
        return found
