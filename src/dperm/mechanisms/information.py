"""What a loss tells of itself at known weights: its curvature, without jumps, and its squared slopes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from dperm.losses import ClippedSquared, Logistic, Loss, SoftClippedSquared
from dperm.typing import Array

RAMP = 1 / 8  # of the bound on residuals: over this width the curvature of clipped squares falls from 1 to 0


def curvature_change(loss: Loss) -> float | None:
    """Lipschitz constant of the curvature that is summed, in the margin; None for a loss that is not covered.

    Covered is what has coefficients to make intervals for: log odds, and the slopes of a regression.
    """
    if type(loss) is Logistic:
        return 1 / (6 * math.sqrt(3))
    if type(loss) is ClippedSquared:
        return 1 / (RAMP * loss.residual_bound)
    if type(loss) is SoftClippedSquared:
        return 1 / ((1 - loss.knee) * loss.residual_bound)
    return None


@dataclass(frozen=True)
class Information(Loss):
    """Stands for ``base`` in two passes: ``slope`` is the square of its slope, ``curvature`` its curvature.

    The curvature of clipped squares jumps, and rounding of a margin at the jump would move a whole row. It is
    replaced by a ramp around the jump, which is as steep as ``curvature_change`` says (docs/proofs/intervals.md).
    """

    base: Loss

    def __post_init__(self) -> None:
        own = {"name": f"information of {self.base.name}", "labels": self.base.labels}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def lipschitz(self) -> float:
        return self.base.lipschitz**2

    @property
    def smoothness(self) -> float:
        return self.base.smoothness

    def value(self, margin: Array, y: Array) -> Array:
        raise NotImplementedError(
            "nothing is minimised: it stands for the slopes and the curvature of a loss"
        )

    def slope(self, margin: Array, y: Array) -> Array:
        return np.asarray(self.base.slope(margin, y) ** 2)

    def curvature(self, margin: Array, y: Array) -> Array:
        if not isinstance(self.base, ClippedSquared):
            return self.base.curvature(margin, y)
        bound = self.base.residual_bound
        left = (1 + RAMP / 2) * bound - np.abs(margin - y)
        return np.clip(left / (RAMP * bound), 0, 1)
