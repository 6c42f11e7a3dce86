"""L-BFGS (scipy's), which needs gradients alone and so suits wide problems."""

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from dperm.solvers.base import Objective, Solution, Vector

POLISHES = 20


def lbfgs(objective: Objective, start: Vector, tolerance: float, max_iterations: int = 5000) -> Solution:
    r"""Minimise one function until its gradient norm is at most ``tolerance`` or progress ends.

    scipy stops where values differ by less than their rounding. From there the difference
    :math:`f(w + d) - f(w)` is taken from the gradients instead, as
    :math:`\langle d, \nabla f(w) + \nabla f(w + d)\rangle/2`, which is precise for the short steps left.
    """

    def of_vector(w: Vector) -> tuple[float, Vector]:
        values, gradients = objective(w[:, None])
        return float(values[0]), gradients[:, 0]

    point, unfinished = _scipy(of_vector, start, tolerance, max_iterations)
    gradient = of_vector(point)[1]
    for _ in range(0 if unfinished else POLISHES):
        if np.linalg.norm(gradient) <= tolerance:
            break

        def difference(d: Vector, here: Vector = point, slope: Vector = gradient) -> tuple[float, Vector]:
            there = of_vector(here + d)[1]
            return float(d @ (slope + there)) / 2, there

        trial = point + _scipy(difference, np.zeros_like(point), tolerance, max_iterations)[0]
        trial_gradient = of_vector(trial)[1]
        if not np.linalg.norm(trial_gradient) < 0.9 * np.linalg.norm(gradient):
            break
        point, gradient = trial, trial_gradient
    return Solution(points=point[:, None], gradient_norms=np.array([np.linalg.norm(gradient)]))


def _scipy(
    function: Callable[[Vector], tuple[float, Vector]], start: Vector, tolerance: float, max_iterations: int
) -> tuple[Vector, bool]:
    """Where it stopped, and whether only because of the number of iterations."""
    gtol = tolerance / np.sqrt(len(start))
    options = {
        "maxiter": max_iterations,
        "maxfun": 2 * max_iterations,
        "maxcor": 20,
        "ftol": 0.0,
        "gtol": gtol,
    }
    found = minimize(function, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(found.x), bool(found.status == 1)
