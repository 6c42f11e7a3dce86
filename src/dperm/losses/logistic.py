"""The logistic loss and what is made of it: with a margin, with small gradients, and over C classes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, Self, cast

import numpy as np

from dperm.arithmetic import rounded_up
from dperm.errors import InvalidInput
from dperm.losses.base import (
    Kernel,
    Labels,
    Loss,
    Weighted,
    exponential,
    logistic_density,
    namespace,
    sigmoid,
    softplus,
)
from dperm.typing import Array


@dataclass(frozen=True)
class Softmax(Loss):
    r""":math:`\log \sum_c e^{m_c} - m_y` with margins on the last axis and labels 0..C-1.

    The derivative is softmax(m) - e_y, of norm below sqrt(2); the Hessian diag(s) - s s^T has norm at
    most 1/2. ``curvature`` returns its diagonal s (1 - s).
    """

    n_classes: int = 2
    name: ClassVar[str] = "softmax"
    labels: ClassVar[Labels] = "classes"
    falls_to_zero: ClassVar[bool] = True
    has_log_odds: ClassVar[bool] = True
    takes_tensors: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not (isinstance(self.n_classes, int) and self.n_classes >= 2):
            raise InvalidInput(f"n_classes must be a whole number of at least 2; got {self.n_classes!r}.")
        object.__setattr__(self, "outputs", self.n_classes)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(3), cls(2), cls(10))

    @classmethod
    def from_parameters(cls, parameters: Sequence[float], outputs: int) -> Self:
        return cls(outputs)

    def for_classes(self, n_classes: int) -> Loss:
        return Softmax(n_classes)

    @property
    def lipschitz(self) -> float:
        # sqrt(2) rounded up: the float nearest to sqrt(2) lies above it already.
        return 1.4142135623730951

    @property
    def smoothness(self) -> float:
        return 0.5

    def _chosen(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        classes = xp.arange(self.n_classes, device=margin.device)
        chosen: Array = xp.asarray(xp.asarray(y)[..., None] == classes, dtype=margin.dtype)
        return chosen

    def _probabilities(self, margin: Array) -> Array:
        xp = namespace(margin)
        if xp is not np:
            found: Array = xp.softmax(margin, -1)
            return found
        shifted = np.exp(margin - margin.max(axis=-1, keepdims=True))
        return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))

    def value(self, margin: Array, y: Array) -> Array:
        xp = namespace(margin)
        top = xp.amax(margin, axis=-1, keepdims=True)
        log_sum = xp.log(xp.exp(margin - top).sum(axis=-1)) + top[..., 0]
        found: Array = log_sum - (margin * self._chosen(margin, y)).sum(axis=-1)
        return found

    def slope(self, margin: Array, y: Array) -> Array:
        return self._probabilities(margin) - self._chosen(margin, y)

    def curvature(self, margin: Array, y: Array) -> Array:
        s = self._probabilities(margin)
        return s * (1 - s)

    def log_odds(self, margin: Array) -> Array:
        return margin


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


def softly_clipped(loss: Loss, clip: float, knee: float) -> Loss:
    """The plain logistic loss with a slope that ends at ``clip``, weighted or not; any other loss as it is."""
    if isinstance(loss, Weighted):
        return replace(loss, base=softly_clipped(loss.base, clip, knee))
    return SoftClippedLogistic(clip, knee) if loss == Logistic() else loss
