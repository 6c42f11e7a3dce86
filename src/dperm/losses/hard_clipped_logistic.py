"""The logistic loss with its slope cut: what clipped gradients descend on."""

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from dperm.errors import InvalidInput
from dperm.losses.base import Array, Loss
from dperm.losses.kernel import Kernel, exponential


def _slope(margin: float, y: float, one: float, clip: float, knot: float) -> float:
    return -y * min(one / (one + exponential(y * margin)), clip)


def _value(margin: float, y: float, one: float, clip: float, knot: float) -> float:
    z = y * margin
    return max(-max(z, knot), one - one) + clip * max(knot - z, one - one)


def _excess(margin: float, y: float, one: float, clip: float, knot: float) -> float:
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
    kernel: ClassVar[Kernel] = Kernel(slope=_slope, value=_value, excess=_excess)

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
        logistic = np.log1p(np.exp(-np.abs(z))) + np.maximum(-z, 0)
        return np.where(z < self._knot, self.clip * (self._knot - z) - math.log1p(-self.clip), logistic)

    def slope(self, margin: Array, y: Array) -> Array:
        z = y * margin
        decay = np.exp(-np.abs(z))
        return np.asarray(-y * np.minimum(np.where(z >= 0, decay, 1) / (1 + decay), self.clip))

    def curvature(self, margin: Array, y: Array) -> Array:
        z = y * margin
        decay = np.exp(-np.abs(z))
        found = np.where(z < self._knot, 0, decay / (1 + decay) ** 2)
        return np.asarray(np.minimum(found, self.smoothness))

    def log_odds(self, margin: Array) -> Array:
        return self._log_slope(-margin) - self._log_slope(margin)

    def _log_slope(self, z: Array) -> Array:
        return np.minimum(-np.logaddexp(z, z.dtype.type(0)), math.log(self.clip))
