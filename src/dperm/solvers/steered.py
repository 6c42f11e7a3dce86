"""L-BFGS that starts from a Hessian: cheap steps where a rough Hessian is known and a true one is dear."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dperm.solvers.base import Matrix, Objective, Solution, Vector
from dperm.solvers.newton import SUFFICIENT, VALUE_ROUNDING

HALVINGS = 5


def steered(
    objectives: Callable[[Sequence[int]], Objective],
    guesses: Sequence[Matrix],
    start: Matrix,
    tolerance: float | Vector,
    max_iterations: int = 30,
) -> Solution:
    r"""Step towards minima of K functions until each gradient norm is at most its ``tolerance`` or progress ends.

    ``objectives`` gives some of the functions: one that has arrived is not asked again. The direction of model k is
    :math:`B^{-1}g` with B its guess, symmetric and positive, corrected by what the gradients on the way told of the
    true Hessian (BFGS, all steps kept). Steps are taken as in ``newton``. The guesses matter to the number of steps
    alone.
    """
    n_models = start.shape[1]
    limits = np.broadcast_to(tolerance, (n_models,))
    factors = {id(guess): _factor(guess) for guess in guesses}
    values, gradients = objectives(range(n_models))(start)
    courses = [
        _Course(start[:, k], float(values[k]), gradients[:, k], factors[id(guesses[k])])
        for k in range(n_models)
    ]
    moving = [k for k in range(n_models) if courses[k].factor is not None]
    for _ in range(max_iterations):
        moving = [k for k in moving if courses[k].norm > limits[k]]
        for k in moving:
            courses[k].aim()
        trying = moving
        for halving in range(HALVINGS):
            if not trying:
                break
            trial = np.stack([courses[k].trial(0.5**halving) for k in trying], axis=1)
            values, gradients = objectives(trying)(trial)
            found = zip(trying, trial.T, values.tolist(), gradients.T, strict=True)
            trying = [k for k, *there in found if not courses[k].takes(0.5**halving, *there)]
        moving = [k for k in moving if k not in trying]
    return Solution(
        points=np.stack([course.point for course in courses], axis=1),
        gradient_norms=np.array([course.norm for course in courses]),
    )


class _Course:
    """Where one model stands, and what it learnt of its Hessian."""

    def __init__(self, point: Vector, value: float, gradient: Vector, factor: Any) -> None:
        self.point, self.value, self.gradient, self.factor = point, value, gradient, factor
        self.norm = float(np.linalg.norm(gradient))
        self._pairs: list[tuple[Vector, Vector]] = []

    def aim(self) -> None:
        self._step = _direction(self.factor, self._pairs, self.gradient)
        self._descent = float(self._step @ self.gradient)

    def trial(self, length: float) -> Vector:
        return np.asarray(self.point - length * self._step)

    def takes(self, length: float, point: Vector, value: float, gradient: Vector) -> bool:
        """Go there if the value falls enough, or is level within its rounding where the gradient is smaller."""
        norm = float(np.linalg.norm(gradient))
        flatter = value <= self.value + VALUE_ROUNDING * abs(self.value) and norm < self.norm
        if not (value <= self.value - SUFFICIENT * length * self._descent or flatter):
            return False
        pair = point - self.point, gradient - self.gradient
        if pair[0] @ pair[1] > 0:
            self._pairs.append(pair)
        self.point, self.value, self.gradient, self.norm = point, value, gradient, norm
        return True


def _factor(guess: Matrix) -> Any:
    try:
        return cho_factor(guess, lower=True)
    except LinAlgError:  # singular within rounding
        return None


def _direction(factor: tuple[Matrix, bool], pairs: list[tuple[Vector, Vector]], gradient: Vector) -> Vector:
    """The two loops of L-BFGS around the factor."""
    rest, shares = gradient, []
    for moved, change in reversed(pairs):
        shares.append(moved @ rest / (moved @ change))
        rest = rest - shares[-1] * change
    found = cho_solve(factor, rest)
    for (moved, change), share in zip(pairs, reversed(shares), strict=True):
        found = found + (share - change @ found / (moved @ change)) * moved
    return np.asarray(found)
