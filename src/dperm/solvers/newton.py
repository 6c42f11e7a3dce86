"""Newton's method for a batch of similar problems that share one Hessian factor while it serves."""

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from dperm.solvers.base import Hessian, Matrix, Objective, Solution

SLOW = 0.1  # renew the Hessian when some gradient norm shrinks less than this in one iteration
SUFFICIENT = 1e-4  # Armijo's constant
VALUE_ROUNDING = 1e-12  # relative; near the minimum values differ by less than their rounding


def newton(
    objective: Objective, hessian: Hessian, start: Matrix, tolerance: float, max_iterations: int = 200
) -> Solution:
    r"""Minimise K strongly convex functions, each to a gradient norm of at most ``tolerance``.

    All models step with the Hessian of the worst one, :math:`w_k \leftarrow w_k - t_k H^{-1} g_k`. For
    models on nearly the same rows this contracts quickly with a single factorisation; when it does
    not, the Hessian is renewed at the model that is then worst, which for one model is Newton's method.
    Steps are halved, per model, until the value falls enough. Where values are level within their
    rounding, a smaller gradient norm decides.
    """
    points = start.copy()
    values, gradients = objective(points)
    norms = np.linalg.norm(gradients, axis=0)
    factor = None
    for _ in range(max_iterations):
        moving = norms > tolerance
        if not moving.any():
            break
        fresh = factor is None
        if factor is None:
            worst = int(np.argmax(norms))
            factor = cho_factor(hessian(worst, points[:, worst]), lower=True)
        direction = np.where(moving, cho_solve(factor, gradients), 0.0)
        descent = np.sum(direction * gradients, axis=0)
        level = values + VALUE_ROUNDING * np.abs(values)
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
        else:
            if fresh:
                break
            factor = None
            continue
        if (trial_norms[moving] > SLOW * norms[moving]).any():
            factor = None
        points, values, gradients, norms = trial, trial_values, trial_gradients, trial_norms
    return Solution(points=points, gradient_norms=norms)
