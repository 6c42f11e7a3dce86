"""L-BFGS that starts from a Hessian: cheap steps where a rough Hessian is known and a true one is dear."""

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dperm.solvers.base import Matrix, Objective, Solution, Vector
from dperm.solvers.newton import SUFFICIENT, VALUE_ROUNDING

HALVINGS = 5


def steered(
    objective: Objective, guess: Matrix, start: Vector, tolerance: float, max_iterations: int = 30
) -> Solution:
    r"""Step towards a minimum of one function until its gradient norm is at most ``tolerance`` or progress ends.

    The direction is :math:`B^{-1}g` with B the ``guess``, symmetric and positive, corrected by what the gradients on
    the way told of the true Hessian (BFGS, all steps kept). Steps are taken as in ``newton``. The guess matters to
    the number of steps alone.
    """
    pairs: list[tuple[Vector, Vector]] = []
    point = start
    value, gradient = _of(objective, point)
    try:
        factor = cho_factor(guess, lower=True)
    except LinAlgError:  # singular within rounding
        max_iterations = 0
    for _ in range(max_iterations):
        norm = np.linalg.norm(gradient)
        if norm <= tolerance:
            break
        step, level = _direction(factor, pairs, gradient), value + VALUE_ROUNDING * abs(value)
        descent = float(step @ gradient)
        for halving in range(HALVINGS):
            length = 0.5**halving
            trial = point - length * step
            trial_value, trial_gradient = _of(objective, trial)
            flatter = trial_value <= level and np.linalg.norm(trial_gradient) < norm
            if trial_value <= value - SUFFICIENT * length * descent or flatter:
                break
        else:
            break
        pair = trial - point, trial_gradient - gradient
        if pair[0] @ pair[1] > 0:
            pairs.append(pair)
        point, value, gradient = trial, trial_value, trial_gradient
    return Solution(points=point[:, None], gradient_norms=np.array([np.linalg.norm(gradient)]))


def _of(objective: Objective, w: Vector) -> tuple[float, Vector]:
    values, gradients = objective(w[:, None])
    return float(values[0]), gradients[:, 0]


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
