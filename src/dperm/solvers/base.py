"""What an inner solver returns, and descent with a proven number of steps, helped by one that need not be trusted."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]
Vector = NDArray[np.float64]

# Objective values (K,) and gradients (p, K) of K models at once; Hessian (p, p) of model k at its weights.
Objective = Callable[[Matrix], tuple[Vector, Matrix]]
Hessian = Callable[[int, Vector], Matrix]

FIRST_RUN = 64
STEP = 1 - 1e-9  # of 1/L: the smoothness is computed, so it may be a rounding too small


@dataclass(frozen=True, eq=False, kw_only=True)
class Solution:
    """Points, one column per model, and the norm of the gradient computed at each of them."""

    points: Matrix
    gradient_norms: Vector

    @property
    def reached(self) -> float:
        return float(self.gradient_norms.max(initial=0.0))


@dataclass(frozen=True, kw_only=True)
class Known:
    """What is known of a smooth strongly convex function without its rows.

    ``reach`` is a G such that at zero the function is at most G^2 / 2 ``strong_convexity`` above its minimum, as it is
    where no gradient at zero is longer than G.
    """

    smoothness: float
    strong_convexity: float
    reach: float

    def most_steps(self, tolerance: float) -> int:
        """Steps in which descent reaches the tolerance, from any point that ``allows`` lets pass."""
        condition = self.smoothness / self.strong_convexity
        return math.ceil(2.4 * condition * math.log(2.25 * condition * (self.reach / tolerance) ** 2)) + 1

    def allows(self, point: Vector, gradient_norm: float) -> bool:
        """Whether the point is so far down that descent from it stays where rounding errors are bounded."""
        ball = 2 * self.reach / self.strong_convexity
        return bool(gradient_norm <= self.reach / 2 and np.linalg.norm(point) <= ball)


def certain(
    objective: Objective, known: Known, dimension: int, tolerance: float, fast: Callable[[Vector], Solution]
) -> Solution:
    """Minimise one function to a gradient norm of at most ``tolerance``, whatever the rows behind it.

    Runs of gradient descent, each twice as long as the one before, take turns with ``fast``, which starts where
    descent has come to. It is ``fast`` that finds the point in practice; the proof needs the last run alone.

    Guarantee
    ---------
    The tolerance is reached (docs/proofs/output.md, Theorem 2). A solution that misses it, after a run of
    ``known.most_steps``, tells that what was assumed does not hold.

    Assumes
    -------
    ``known`` holds, and ``tolerance`` is at least three times the error of a computed gradient.
    """
    most, length = known.most_steps(tolerance), FIRST_RUN
    reached = _descent(objective, np.zeros(dimension), known, tolerance, min(length, most))
    while reached.reached > tolerance and length < most:
        found = fast(reached.points[:, 0])
        if found.reached <= tolerance:
            return found
        start = found if known.allows(found.points[:, 0], found.reached) else reached
        length *= 2
        reached = _descent(objective, start.points[:, 0], known, tolerance, min(length, most))
    return reached


def _descent(objective: Objective, start: Vector, known: Known, tolerance: float, steps: int) -> Solution:
    point, gradient = start, objective(start[:, None])[1][:, 0]
    for _ in range(steps):
        if np.linalg.norm(gradient) <= tolerance:
            break
        point = point - (STEP / known.smoothness) * gradient
        gradient = objective(point[:, None])[1][:, 0]
    return Solution(points=point[:, None], gradient_norms=np.array([np.linalg.norm(gradient)]))
