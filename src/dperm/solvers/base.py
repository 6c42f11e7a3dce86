"""What an inner solver returns: a point and the residual it proves."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Objective values (K,) and gradients (p, K) of K models at once; Hessian (p, p) of model k at its weights.
Objective = Callable[[Matrix], tuple[Vector, Matrix]]
Hessian = Callable[[int, Vector], Matrix]


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """Points, one column per model, and the norm of the gradient computed at each of them."""

    points: Matrix
    gradient_norms: Vector

    @property
    def reached(self) -> float:
        return float(self.gradient_norms.max(initial=0.0))
