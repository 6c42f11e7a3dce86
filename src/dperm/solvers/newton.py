"""Newton's method for a batch of problems; similar ones share a Hessian factor while it serves."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from dperm.solvers.base import Hessian, Matrix, Objective, Solution, Vector

SLOW = 0.1  # renew the Hessian when some gradient norm shrinks less than this in one iteration
SUFFICIENT = 1e-4  # Armijo's constant
VALUE_ROUNDING = 1e-12  # relative; near the minimum values differ by less than their rounding


def newton(
    objective: Objective,
    hessian: Hessian,
    start: Matrix,
    tolerance: float | Vector,
    max_iterations: int = 200,
    groups: Sequence[int] | None = None,
) -> Solution:
    r"""Minimise K strongly convex functions, each to a gradient norm of at most its ``tolerance``.

    All models of a group step with the Hessian of the worst one, :math:`w_k \leftarrow w_k - t_k H^{-1} g_k`.
    For models on nearly the same rows this contracts quickly with a single factorisation; when it does
    not, the Hessian is renewed at the model that is then worst, which for one model is Newton's method.
    Steps are halved, per model, until the value falls enough. Where values are level within their
    rounding, a smaller gradient norm decides. Without ``groups`` all models are one group. A model may miss
    its tolerance: its norm says so.
    """
    group = np.zeros(start.shape[1], int) if groups is None else np.asarray(groups)
    points = start.copy()
    values, gradients = objective(points)
    norms = np.linalg.norm(gradients, axis=0)
    size_of_value = np.abs(values)
    stuck = np.zeros(len(norms), bool)
    factors: dict[int, Any] = {}
    for _ in range(max_iterations):
        moving = (norms > tolerance) & ~stuck
        if not moving.any():
            break
        direction = np.zeros_like(points)
        fresh = np.zeros(len(norms), bool)
        for g in np.unique(group[moving]):
            members = np.flatnonzero(moving & (group == g))
            if g not in factors:
                worst = int(members[np.argmax(norms[members])])
                try:
                    factors[g] = cho_factor(hessian(worst, points[:, worst]), lower=True)
                except LinAlgError:  # singular within rounding: Newton's method ends here
                    stuck[members], moving[members] = True, False
                    continue
                fresh[members] = True
            direction[:, members] = cho_solve(factors[g], gradients[:, members])
        descent = np.sum(direction * gradients, axis=0)
        level = values + VALUE_ROUNDING * size_of_value
        length = np.ones(points.shape[1])
        for _ in range(60):
            trial = points - length * direction
            trial_values, trial_gradients = objective(trial)
            trial_norms = np.linalg.norm(trial_gradients, axis=0)
            falls = trial_values <= values - SUFFICIENT * length * descent
            flatter = (trial_values <= level) & (trial_norms < norms)
            good = ~moving | falls | flatter
            if good.all():
                break
            length = np.where(good, length, length / 2)
        stuck |= ~good & fresh
        for g in np.unique(group[~good | (moving & (trial_norms > SLOW * norms))]):
            del factors[g]
        points, gradients = np.where(good, trial, points), np.where(good, trial_gradients, gradients)
        values, norms = np.where(good, trial_values, values), np.where(good, trial_norms, norms)
        size_of_value = np.maximum(size_of_value, np.abs(values))
    return Solution(points=points, gradient_norms=norms)
