"""L-BFGS that starts from a Hessian: cheap steps where a rough Hessian is known and a true one is dear."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dperm.solvers.base import Matrix, Objective, Solution, Vector
from dperm.solvers.newton import SUFFICIENT, VALUE_ROUNDING

HALVINGS = 5


def steered(
    objective: Objective,
    guesses: Sequence[Matrix],
    start: Matrix,
    tolerance: float | Vector,
    max_iterations: int = 30,
) -> Solution:
    r"""Step towards minima of K functions until each gradient norm is at most its ``tolerance`` or progress ends.

    The direction of model k is :math:`B^{-1}g` with B its guess, symmetric and positive, corrected by what the
    gradients on the way told of the true Hessian (BFGS, all steps kept). Steps are taken as in ``newton``. The guesses
    matter to the number of steps alone.
    """
    points = start.copy()
    values, gradients = objective(points)
    norms = np.linalg.norm(gradients, axis=0)
    known: dict[int, Any] = {id(guess): _factor(guess) for guess in guesses}
    factors = [known[id(guess)] for guess in guesses]
    pairs: list[list[tuple[Vector, Vector]]] = [[] for _ in guesses]
    stuck = np.array([factor is None for factor in factors])
    for _ in range(max_iterations):
        moving = (norms > tolerance) & ~stuck
        if not moving.any():
            break
        step = np.zeros_like(points)
        for k in np.flatnonzero(moving):
            step[:, k] = _direction(factors[k], pairs[k], gradients[:, k])
        descent, level = np.sum(step * gradients, axis=0), values + VALUE_ROUNDING * np.abs(values)
        length = np.where(moving, 1.0, 0.0)
        for _ in range(HALVINGS):
            trial = points - length * step
            trial_values, trial_gradients = objective(trial)
            trial_norms = np.linalg.norm(trial_gradients, axis=0)
            falls = trial_values <= values - SUFFICIENT * length * descent
            good = ~moving | falls | ((trial_values <= level) & (trial_norms < norms))
            if good.all():
                break
            length = np.where(good, length, length / 2)
        stuck |= ~good
        for k in np.flatnonzero(moving & good):
            pair = trial[:, k] - points[:, k], trial_gradients[:, k] - gradients[:, k]
            if pair[0] @ pair[1] > 0:
                pairs[k].append(pair)
        taken = moving & good
        points, gradients = np.where(taken, trial, points), np.where(taken, trial_gradients, gradients)
        values, norms = np.where(taken, trial_values, values), np.where(taken, trial_norms, norms)
    return Solution(points=points, gradient_norms=norms)


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
