"""Minimisers of the regularised mean loss, for a batch of models on one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dperm.errors import NotCertified
from dperm.privacy.secrets import LocalSample, cut_sample
from dperm.problem import Problem
from dperm.solvers import Known, Solution, certain, lbfgs, newton, steered
from dperm.typing import Floats, Integers

if TYPE_CHECKING:
    from dperm.engine import Engine


WIDEST_HESSIAN = 2000
ATTAINABLE = 3.0  # times the error of a computed gradient: the norm that descent reaches on every table
ROWS_BY_COST, ROWS_PER_COLUMN, WORTHWHILE = 6, 50, 4  # see _stride
LARGEST_CONDITION = 1e8  # beyond it the proof still holds, but on some tables the solvers crawl


def check_condition(problem: Problem, pull: float = 0.0) -> None:
    r"""Refuse a minimisation so badly conditioned that the time it takes cannot be answered for.

    With a linear term of norm ``pull`` in the mean objective, weights may be longer than without by the factor
    :math:`1 + \text{pull}/R`, and the curved part of the loss is smaller beside them by as much.
    """
    longer = 1 + pull / problem.gradient_bound
    condition = longer * problem.smoothness / problem.l2
    if condition > LARGEST_CONDITION:
        raise NotCertified(
            f"the condition number {condition:.3g} of the minimisation is above {LARGEST_CONDITION:g}, where a fit may "
            f"take for ever on some tables; raise l2, here {problem.l2:g}, or take a loss of less curvature, here "
            f"{problem.loss.smoothness:g}."
        )


def minimise_surely(
    engine: Engine,
    problems: Sequence[Problem],
    limits: Floats,
    linear: Floats | None = None,
    reaches: Floats | None = None,
) -> Floats:
    """``minimise``, and for every model that it leaves above its limit a solver that provably gets there.

    Returns points of shape (p, K), or (p, K, C) for a loss with C outputs. ``reaches`` are the G of Theorem 2, one for
    each model; by default the largest norm of the gradient at zero.

    Guarantee
    ---------
    The computed gradient norm of model k is at most ``limits[k]``, and that on every table (docs/proofs/output.md,
    Theorem 2), so whether a fit succeeds tells nothing of the rows. How long it takes may.

    Assumes
    -------
    ``check_condition`` let the problems pass, and each limit is at least ``ATTAINABLE`` times the error of the
    computed gradient in the ball for which the plan bounds it.
    """
    try:
        found = minimise(engine, problems, limits, linear)
    except ValueError:  # weights that would overflow on the way
        outputs = problems[0].loss.outputs
        shape = (engine.n_columns, len(problems)) + (outputs,) * (outputs > 1)
        found = Solution(points=np.zeros(shape), gradient_norms=np.full(len(problems), np.inf))
    points, norms = found.points.copy(), found.gradient_norms.copy()
    for k in np.flatnonzero(~(norms <= limits)).tolist():
        term = None if linear is None else linear[:, [k]]
        reach = None if reaches is None else float(reaches[k])
        sure = _certain(engine.select([k]), problems[k], float(limits[k]), term, reach)
        points[:, k], norms[k] = sure.points.reshape(points[:, k].shape), sure.reached
    if not (norms <= limits).all():
        raise NotCertified(
            "the solver did not reach the gradient norm that the noise was computed for, so nothing is released. That "
            "cannot happen if the loss has the constants that it declares: check its lipschitz and smoothness."
        )
    return points


def _certain(
    engine: Engine, problem: Problem, limit: float, linear: Floats | None, reach: float | None
) -> Solution:
    """One model, its coefficients in one column, several outputs of a feature side by side."""
    objective = _Objectives(engine, [problem], linear)
    pull = 0.0 if linear is None else float(np.linalg.norm(linear))
    known = Known(
        smoothness=problem.smoothness,
        strong_convexity=problem.l2,
        reach=problem.gradient_bound + pull if reach is None else reach,
    )

    def fast(start: Floats) -> Solution:
        try:
            return lbfgs(objective, start, limit)
        except ValueError:
            return Solution(points=start[:, None], gradient_norms=np.array([np.inf]))

    return certain(objective, known, problem.dimension, limit, fast)


def minimise(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Floats, linear: Floats | None = None
) -> Solution:
    """Newton for all models at once, or L-BFGS one by one when there is no Hessian or it may be singular.

    Model k's gradient norm is to be at most ``tolerance``, or ``tolerance[k]``. ``linear``, of shape
    (coefficients, K), adds ``linear[:, k] @ w`` to the objective of model k.
    """
    widest = min(WIDEST_HESSIAN, engine.widest_hessian)
    single = problems[0].loss.outputs == 1 and engine.n_columns <= widest
    if single and all(problem.l2 > 0 for problem in problems):
        return minimise_by_newton(engine, problems, tolerance, linear)
    return minimise_by_lbfgs(engine, problems, tolerance, linear)


def minimise_by_newton(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Floats, linear: Floats | None = None
) -> Solution:
    """Without linear terms models on nearly the same rows share a Hessian; with them they end far apart.

    On many rows a model first goes as far as the Hessian of a part of them leads.
    """
    batch = _Objectives(engine, problems, linear)
    start = np.zeros((engine.n_columns, len(problems)))
    stride = _stride(problems[0])
    if stride >= WORTHWHILE and (len(problems) == 1 or linear is not None):
        near = _from_few_rows(batch, problems, tolerance, stride)
        if (near.gradient_norms <= tolerance).all():
            return near
        start = near.points
    groups = None if linear is None else range(len(problems))
    return newton(batch, batch.hessian, start, tolerance, groups=groups)


def _from_few_rows(
    batch: _Objectives, problems: Sequence[Problem], tolerance: float | Floats, stride: int
) -> Solution:
    """The minimiser over a few rows of the first model, and from there all of them by the Hessian of the few.

    One model takes its linear term along; several have one each, and the Hessian in common, up to their l2. How a point
    was found matters to no guarantee, so these rows may be any; that they are few enough and enough is said by
    ``_stride``.
    """
    first, K = problems[0], len(problems)
    few = batch.engine.select([0]).sample([EveryNth(stride)])
    problem = replace(first, n_rows=-(-first.n_rows // stride))
    rough = problem.gradient_bound / (10 * math.sqrt(problem.n_rows))  # the few tell no more of the others
    linear = batch.linear if K == 1 else None
    start = minimise_by_newton(few, [problem], max(rough, float(np.min(tolerance))), linear).points
    guess = _Objectives(few, [problem]).hessian(0, start[:, 0])
    more = {l2: guess + (l2 - first.l2) * np.eye(len(guess)) for l2 in {one.l2 for one in problems}}
    return steered(batch.of, [more[one.l2] for one in problems], np.repeat(start, K, axis=1), tolerance)


def _stride(problem: Problem) -> int:
    """Of how many rows one is in the first Hessian, by the public size of the problem alone.

    With m rows of p columns it costs as much as p m / 4 rows of a gradient, and is wrong by about sqrt(p / m).
    """
    n, p = problem.n_rows, problem.n_columns
    return int(n // max(ROWS_BY_COST * n / p, ROWS_PER_COLUMN * p))


@dataclass(frozen=True)
class EveryNth:
    """A sample that nobody draws: the rows at every n-th position."""

    n: int

    def positions(self, n_rows: int) -> Integers:
        return np.arange(0, n_rows, self.n, dtype=np.int64)

    def split(self, counts: Sequence[int]) -> list[LocalSample]:
        return cut_sample(self.positions(sum(counts)), counts)


def minimise_by_lbfgs(
    engine: Engine, problems: Sequence[Problem], tolerance: float | Floats, linear: Floats | None = None
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

    def __init__(self, engine: Engine, problems: Sequence[Problem], linear: Floats | None = None) -> None:
        self.engine, self.problems = engine, problems
        self.loss = problems[0].loss
        self.n = np.array([problem.n_rows for problem in problems])
        self.l2 = np.array([problem.l2 for problem in problems])
        self.linear = linear

    def __call__(self, W: Floats) -> tuple[Floats, Floats]:
        outputs, K = self.loss.outputs, W.shape[1]
        shaped = W if outputs == 1 else np.moveaxis(W.reshape(-1, outputs, K), 1, -1)
        values, gradients = self.engine.value_and_gradient_sum(self.loss, np.ascontiguousarray(shaped))
        flat = gradients if outputs == 1 else np.moveaxis(gradients, -1, 1).reshape(W.shape)
        values = values / self.n + self.l2 / 2 * np.sum(W * W, axis=0)
        gradients = flat / self.n + self.l2 * W
        if self.linear is None:
            return values, gradients
        return values + np.sum(self.linear * W, axis=0), gradients + self.linear

    def of(self, models: Sequence[int]) -> _Objectives:
        """Some of them."""
        if len(models) == len(self.problems):
            return self
        linear = None if self.linear is None else self.linear[:, models]
        return _Objectives(self.engine.select(models), [self.problems[k] for k in models], linear)

    def hessian(self, k: int, w: Floats) -> Floats:
        curvature = self.engine.select([k]).curvature_sum(self.loss, w[:, None])[0]
        return np.asarray(curvature / self.n[k] + self.l2[k] * np.eye(len(w)))
