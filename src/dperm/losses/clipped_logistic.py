"""The logistic loss with small gradients: its slope cut, or saturating without the corner of a cut."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, Self, cast

import numpy as np

from dperm.arithmetic import rounded_up
from dperm.errors import InvalidInput
from dperm.losses.base import Kernel, Loss, exponential, logistic_density, namespace, sigmoid, softplus
from dperm.typing import Array


def _hard_slope(margin: float, y: float, one: float, clip: float, knot: float) -> float:
    return -y * min(one / (one + exponential(y * margin)), clip)


def _hard_value(margin: float, y: float, one: float, clip: float, knot: float) -> float:
    z = y * margin
    return max(-max(z, knot), one - one) + clip * max(knot - z, one - one)


def _hard_excess(margin: float, y: float, one: float, clip: float, knot: float) -> float:
    return exponential(-abs(max(y * margin, knot)))


@dataclass(frozen=True)
class HardClippedLogistic(Loss):
    r"""Logistic while the slope is below ``clip``, linear beyond: the slope in z = y m is :math:`-\min(\sigma(-z), c)`.

    On rows of norm r its gradients are those of the logistic loss clipped at c r (docs/proofs/clipped-losses.md).
    The curvature jumps where the slope is cut, so there is no ``coupling``; ``SoftClippedLogistic`` has one. With a
    clip below 1/2 margins near 0 have both slopes cut: there the log odds are 0.
    """

    clip: float = 0.35
    name: ClassVar[str] = "hard-clipped-logistic"
    aliases: ClassVar[tuple[str, ...]] = ("hard-clip",)
    sign_definite: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_hard_slope, value=_hard_value, excess=_hard_excess, gpu=1)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not 0 < self.clip < 1:
            raise InvalidInput(f"clip must lie strictly between 0 and 1; got {self.clip!r}.")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(), cls(0.8), cls(0.1))

    @property
    def lipschitz(self) -> float:
        return self.clip

    @property
    def smoothness(self) -> float:
        return self.clip * (1 - self.clip) if self.clip < 0.5 else 0.25

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.clip,)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.clip, self._knot)

    @property
    def _knot(self) -> float:
        """Where the slope is cut."""
        return math.log(1 / self.clip - 1)

    def value(self, margin: Array, y: Array) -> Array:
        z = y * margin
        linear = self.clip * (self._knot - z) - math.log1p(-self.clip)
        found: Array = namespace(z).where(z < self._knot, linear, softplus(-z))
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        share = namespace(margin).clip(sigmoid(-(y * margin)), None, self.clip)
        return -y * cast("Array", share)

    def curvature(self, margin: Array, y: Array) -> Array:
        z, xp = y * margin, namespace(margin)
        found: Array = xp.clip(xp.where(z < self._knot, 0.0, logistic_density(z)), None, self.smoothness)
        return found

    def log_odds(self, margin: Array) -> Array:
        return self._log_slope(-margin) - self._log_slope(margin)

    def _log_slope(self, z: Array) -> Array:
        return np.minimum(-np.logaddexp(z, z.dtype.type(0)), math.log(self.clip))


def _soft_slope(
    margin: float, y: float, one: float, clip: float, room: float, knot: float, rate: float
) -> float:
    z = y * margin
    power = exponential(rate * (z - knot) if z < knot else -z)
    return -y * (clip - room * power if z < knot else power / (one + power))


def _soft_value(
    margin: float, y: float, one: float, clip: float, room: float, knot: float, rate: float
) -> float:
    z = y * margin
    below = max(knot - z, one - one)
    return max(-max(z, knot), one - one) + clip * below - room / rate * (one - exponential(-rate * below))


def _soft_excess(
    margin: float, y: float, one: float, clip: float, room: float, knot: float, rate: float
) -> float:
    return exponential(-abs(max(y * margin, knot)))


@dataclass(frozen=True)
class SoftClippedLogistic(Loss):
    r"""Logistic until its slope is ``knee * clip``; from there on the slope tends to ``clip`` exponentially.

    With z = y m, :math:`s_1` = ``knee * clip`` and :math:`m_1 = \log(1/s_1 - 1)`: the loss is
    :math:`\log(1 + e^{-z})` for :math:`z \ge m_1`, and below its slope has size
    :math:`c - (c - s_1) e^{K (z - m_1)}` with K such that the curvature is continuous.

    The curvature is at most ``coupling`` :math:`\cdot\, a (1 - a)` where a is the slope's size over ``clip``
    (docs/proofs/clipped-losses.md), so that objective perturbation costs what it costs for the logistic loss.
    """

    clip: float = 0.35
    knee: float = 0.7
    name: ClassVar[str] = "soft-clipped-logistic"
    aliases: ClassVar[tuple[str, ...]] = ("soft-clip",)
    sign_definite: ClassVar[bool] = True
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    kernel: ClassVar[Kernel] = Kernel(slope=_soft_slope, value=_soft_value, excess=_soft_excess, gpu=2)
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, share in (("clip", self.clip), ("knee", self.knee)):
            if not 0 < share < 1:
                raise InvalidInput(f"{name} must lie strictly between 0 and 1; got {share!r}.")

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(), cls(0.5, 0.5), cls(0.9, 0.8), cls(0.1, 0.9))

    @property
    def lipschitz(self) -> float:
        return self.clip

    @property
    def smoothness(self) -> float:
        return self._bend * (1 - self._bend) if self._bend < 0.5 else 0.25

    @property
    def coupling(self) -> float:
        clip, knee = Fraction(float(self.clip)), Fraction(float(self.knee))
        return rounded_up(clip * (1 - knee * clip) / (1 - knee))

    @property
    def parameters(self) -> tuple[float, ...]:
        return (self.clip, self.knee)

    @property
    def kernel_parameters(self) -> tuple[float, ...]:
        return (self.clip, self._room, self._knot, self._rate)

    @property
    def _bend(self) -> float:
        """The slope where the logistic loss ends."""
        return self.knee * self.clip

    @property
    def _room(self) -> float:
        return self.clip * (1 - self.knee)

    @property
    def _knot(self) -> float:
        """Where it ends."""
        return math.log(1 / self._bend - 1)

    @property
    def _rate(self) -> float:
        return self.knee * (1 - self._bend) / (1 - self.knee)

    def value(self, margin: Array, y: Array) -> Array:
        z, xp = y * margin, namespace(margin)
        below = xp.clip(z, self._knot, None) - z
        saturating = self.clip * below + self._room / self._rate * xp.expm1(-self._rate * below)
        found: Array = xp.where(z < self._knot, saturating - math.log1p(-self._bend), softplus(-z))
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        z = y * margin
        power = self._power(z)
        share = namespace(z).where(z < self._knot, self.clip - self._room * power, power / (1 + power))
        return -y * cast("Array", share)

    def curvature(self, margin: Array, y: Array) -> Array:
        z, xp = y * margin, namespace(margin)
        power = self._power(z)
        largest = self._bend * (1 - self._bend)
        cut: Array = xp.where(z < self._knot, largest * power, power / (1 + power) ** 2)
        found: Array = xp.clip(cut, None, self.smoothness)
        return found

    def log_odds(self, margin: Array) -> Array:
        return self._log_slope(-margin) - self._log_slope(margin)

    def _power(self, z: Array) -> Array:
        """The exponential that both pieces are made of; it is finite everywhere."""
        xp = namespace(z)
        found: Array = xp.exp(xp.where(z < self._knot, self._rate * xp.clip(z - self._knot, None, 0), -z))
        return found

    def _log_slope(self, z: Array) -> Array:
        saturating = self.clip - self._room * np.exp(self._rate * np.minimum(z - self._knot, 0))
        return np.where(z < self._knot, np.log(saturating), -np.logaddexp(z, z.dtype.type(0)))
