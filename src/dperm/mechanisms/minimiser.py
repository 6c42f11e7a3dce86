"""Minimisers of the regularised mean loss, for a batch of models on one table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.problem import Problem
from dperm.solvers import Solution, lbfgs, newton

if TYPE_CHECKING:
    from dperm.engine import Engine

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

WIDEST_HESSIAN = 2000


def minimise(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Vector, linear: Matrix | None = None
) -> Solution:
    """Newton for all models at once, or L-BFGS one by one when there is no Hessian or it may be singular.

    Model k's gradient norm is to be at most ``tolerance``, or ``tolerance[k]``. ``linear``, of shape
    (coefficients, K), adds ``linear[:, k] @ w`` to the objective of model k.
    """
    single = problems[0].loss.outputs == 1 and engine.n_columns <= WIDEST_HESSIAN
    if single and all(problem.l2 > 0 for problem in problems):
        return minimise_by_newton(engine, problems, tolerance, linear)
    return minimise_by_lbfgs(engine, problems, tolerance, linear)


def minimise_by_newton(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Vector, linear: Matrix | None = None
) -> Solution:
    """Without linear terms models on nearly the same rows share a Hessian; with them they end far apart."""
    batch = _Objectives(engine, problems, linear)
    start = np.zeros((engine.n_columns, len(problems)))
    groups = None if linear is None else range(len(problems))
    return newton(batch, batch.hessian, start, tolerance, groups=groups)


def minimise_by_lbfgs(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Vector, linear: Matrix | None = None
) -> Solution:
    """Points of shape (p, K), or (p, K, C) for a loss with C outputs."""
    start = np.zeros(engine.n_columns * problems[0].loss.outputs)
    tolerances = np.broadcast_to(tolerance, len(problems))
    parts = []
    for k, problem in enumerate(problems):
        term = None if linear is None else linear[:, [k]]
        parts.append(lbfgs(_Objectives(engine.select([k]), [problem], term), start, float(tolerances[k])))
        start = parts[-1].points[:, 0]  # models on nearly the same rows have nearly the same minimiser
    points = np.hstack([part.points for part in parts])
    if problems[0].loss.outputs > 1:
        points = np.moveaxis(points.reshape(engine.n_columns, -1, len(problems)), 1, -1)
    return Solution(points=points, gradient_norms=np.concatenate([part.gradient_norms for part in parts]))


class _Objectives:
    """Regularised mean losses of K models as one function of a weight matrix; several outputs are flattened."""

    def __init__(self, engine: Engine, problems: Sequence[Problem], linear: Matrix | None = None) -> None:
        self.engine = engine
        self.loss = problems[0].loss
        self.n = np.array([problem.n_rows for problem in problems])
        self.l2 = np.array([problem.l2 for problem in problems])
        self.linear = linear

    def __call__(self, W: Matrix) -> tuple[Vector, Matrix]:
        outputs, K = self.loss.outputs, W.shape[1]
        shaped = W if outputs == 1 else np.moveaxis(W.reshape(-1, outputs, K), 1, -1)
        values, gradients = self.engine.value_and_gradient_sum(self.loss, np.ascontiguousarray(shaped))
        flat = gradients if outputs == 1 else np.moveaxis(gradients, -1, 1).reshape(W.shape)
        values = values / self.n + self.l2 / 2 * np.sum(W * W, axis=0)
        gradients = flat / self.n + self.l2 * W
        if self.linear is None:
            return values, gradients
        return values + np.sum(self.linear * W, axis=0), gradients + self.linear

    def hessian(self, k: int, w: Vector) -> Matrix:
        curvature = self.engine.select([k]).curvature_sum(self.loss, w[:, None])[0]
        return np.asarray(curvature / self.n[k] + self.l2[k] * np.eye(len(w)))
