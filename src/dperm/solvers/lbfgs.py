"""L-BFGS (scipy's), which needs gradients alone and so suits wide problems."""

import numpy as np
from scipy.optimize import minimize

from dperm.solvers.base import Objective, Solution, Vector


def lbfgs(objective: Objective, start: Vector, tolerance: float, max_iterations: int = 5000) -> Solution:
    """Minimise one function until its gradient norm is at most ``tolerance`` or progress ends."""

    def of_vector(w: Vector) -> tuple[float, Vector]:
        values, gradients = objective(w[:, None])
        return float(values[0]), gradients[:, 0]

    gtol = tolerance / np.sqrt(len(start))
    options = {"maxiter": max_iterations, "maxfun": 2 * max_iterations, "maxcor": 20, "ftol": 0.0, "gtol": gtol}
    point = minimize(of_vector, start, jac=True, method="L-BFGS-B", options=options).x[:, None]
    return Solution(points=point, gradient_norms=np.linalg.norm(objective(point)[1], axis=0))
