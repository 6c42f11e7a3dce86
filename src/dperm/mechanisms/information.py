"""What a loss tells of itself at known weights: its curvature, without jumps, and its squared slopes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dperm.losses import Loss
from dperm.typing import Array


@dataclass(frozen=True)
class Information(Loss):
    """Stands for ``base`` in two passes: ``slope`` is the square of its slope, ``curvature`` its curvature.

    The curvature of clipped squares jumps, and rounding of a margin at the jump would move a whole row. It is
    replaced by a ramp around the jump, which is as steep as ``curvature_lipschitz`` says (docs/proofs/intervals.md).
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
        return self.base.continuous_curvature(margin, y)
