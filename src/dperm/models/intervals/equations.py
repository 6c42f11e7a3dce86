"""From released numbers to the equation that estimates solve, for each mechanism that has one.

Noisy gradient descent is a linear recursion, whose sum over all steps is known from public steps and the Hessian.
Derived in docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import Unsupported
from dperm.losses import Logistic
from dperm.mechanisms import Mechanism
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.gradient.family import gap
from dperm.mechanisms.inference import Curvature
from dperm.models.intervals.first_order import Equation
from dperm.models.synthetic_rows import spanned
from dperm.planning.sensitivity import gradient_gap
from dperm.problem import Problem
from dperm.schema import Schema
from dperm.unit import Neighbours

Floats = NDArray[np.float64]

# How much weaker than a minimiser's the pull of the rows may be on what was released; beyond, descent stopped early and
# its start is still in the weights. The squared loss has no other curvature there, so more can be corrected.
STOPPED_EARLY, STOPPED_EARLY_SQUARED = 0.02, 0.5
# Mean square by which the noise of an iterate moves a margin: beyond, the mean of gradients is not the gradient at
# the mean iterate.
MOST_WANDERING = 0.03
_FEWEST = 0.05  # of the rows: no sum of curvatures is taken as smaller


def _descent(
    mechanism: DPGD,
    problem: Problem,
    used: Mapping[str, Any],
    noise_scale: float,
    weights: Floats,
    curvature: Curvature,
    schema: Schema | None,
) -> tuple[Floats, Floats]:
    r"""The pull and the covariance of privacy of weights that descent released, from public steps and the Hessian.

    Released is :math:`w = F (H\beta - s) - \sum_t K_t \xi_t / n`, with F and K functions of the Hessian.

    So :math:`H (\beta - w) = (F^{-1} - H) w + s + F^{-1} \sum_t K_t \xi_t / n`. A schema tells what rows span: along
    other directions descent finds nothing, and stays where noise takes it.
    """
    if mechanism.split > 0:
        raise Unsupported(
            "no intervals are known for a split budget: all steps share its noise; set split=0."
        )
    n, l2 = problem.n_rows, float(used["l2_used"])
    rows = spanned(schema, len(weights), problem.intercept, np.ones(len(weights)))
    values, axes = np.linalg.eigh(rows.T @ curvature.hessian @ rows)
    axes = rows @ axes
    kept = np.maximum(values, np.finfo(float).tiny)
    effects = step_effects(
        kept / n + l2, used["steps"], used["step_size"], used["momentum"], used["tail_average"]
    )
    held = effects.sum(axis=0) / n  # F
    with np.errstate(divide="ignore", over="ignore"):
        inverse = 1 / held
    early = inverse / (kept + n * l2) - 1
    most = STOPPED_EARLY if type(problem.loss) is Logistic else STOPPED_EARLY_SQUARED
    if not np.abs(early).max() <= most:
        raise Unsupported(
            "descent stopped before it came to the minimiser, so its start is still in the weights and no interval is "
            "right; use mechanism='objective', or more steps."
        )
    noise = noise_scale
    if mechanism.follows_weights(problem, used["clip"]):  # those that were released stand for the last ones
        noise *= gradient_gap(problem, float(np.linalg.norm(weights))) / gap(problem, used["clip"])
    if type(problem.loss) is Logistic and _wandering(problem, used, kept, noise, curvature) > MOST_WANDERING:
        raise Unsupported(
            "the noise of single steps took descent so far that the loss bends on the way, and no interval is right; "
            "use mechanism='objective', or a larger epsilon."
        )
    variance = (noise * inverse) ** 2 * (effects**2).sum(axis=0) / n**2
    return axes @ ((inverse - kept) * (axes.T @ weights)), (axes * variance) @ axes.T


def step_effects(
    curvatures: Floats, steps: int, step_size: float, momentum: float, tail_average: float
) -> Floats:
    """How much of a gradient's noise at each step is in the mean of the last iterates, for each curvature.

    One row for each step. The noise of a step moves later iterates as a descent without noise from there does.
    """
    tail = max(1, round(tail_average * steps))
    moved, velocity = np.zeros_like(curvatures), np.ones_like(curvatures)
    later = np.empty((steps, len(curvatures)))  # moved after so many further steps
    for t in range(steps):
        moved = moved + step_size * velocity
        later[t] = moved
        velocity = momentum * velocity - curvatures * moved
    summed = np.vstack([np.zeros(len(curvatures)), np.cumsum(later, axis=0)])
    left = np.arange(steps, 0, -1)  # iterates that follow the gradient of each step, in order
    return np.asarray((summed[left] - summed[np.maximum(left - tail, 0)]) / tail)


def _wandering(
    problem: Problem, used: Mapping[str, Any], values: Floats, noise: float, curvature: Curvature
) -> float:
    """Mean square of a margin's change by the noise in one iterate, over rows weighed by their curvature."""
    n, l2 = problem.n_rows, float(used["l2_used"])
    effects = step_effects(values / n + l2, used["steps"], used["step_size"], used["momentum"], 0.0)
    spread = noise**2 / n**2 * (effects**2).sum(axis=0)
    most = problem.n_rows / 4
    told = float(curvature.hessian[-1, -1]) / problem.intercept**2 if problem.intercept else most
    return float(values @ spread) / min(max(told, 0.05 * most), most)


def equation_of(
    mechanism: Mechanism,
    problem: Problem,
    used: Mapping[str, Any],
    noise_scale: float,
    weights: Floats,
    curvature: Curvature,
    schema: Schema | None = None,
) -> Equation:
    """Of weights on mapped rows that ``mechanism`` released, with the settings that it ``used``.

    A schema tells which columns follow from others.

    Raises
    ------
    Unsupported
        Where what was released says too little of where the training went.
    """
    equation = partial(
        Equation,
        hessian=curvature.hessian,
        noise=curvature.column_noise,
        scores=_scores(problem, curvature),
        least_level=_least_level(problem, curvature),
    )
    identity = np.eye(len(weights))
    if curvature.cross is not None and curvature.cross_noise is not None:
        privacy, nowhere = curvature.cross_noise**2 * identity, np.zeros(len(weights))
        return equation(weights=nowhere, pull=curvature.cross, privacy=privacy, in_pull=True)
    if isinstance(mechanism, DPGD):
        pull, privacy = _descent(mechanism, problem, used, noise_scale, weights, curvature, schema)
        return equation(weights=weights, pull=pull, privacy=privacy)
    spread = mechanism.weight_noise(problem, used, noise_scale)
    if spread is None or spread.inside is None:
        raise Unsupported(f"no intervals are known for the weights of mechanism {mechanism.name!r}.")
    inside = spread.inside
    curved = curvature.hessian + inside.strength * identity
    privacy = inside.noise**2 * identity + inside.output**2 * (curved @ curved)
    return equation(weights=weights, pull=inside.strength * weights, privacy=privacy)


def _least_level(problem: Problem, curvature: Curvature) -> float:
    """The constant column has no more curvature than every row at its largest: no eigenvalue is above that."""
    if not problem.intercept:
        return 0.0
    most = problem.n_rows * problem.loss.smoothness * problem.intercept**2
    return float((curvature.column_noise[-1] ** 2 / most) ** 2 / 2)


def _scores(problem: Problem, curvature: Curvature) -> Floats:
    r"""Covariance of the sum of gradients at what is estimated.

    Of log odds it is the Hessian. Of a regression whose errors are all as wide, it is the mean of the squared slopes
    times :math:`\sum z z^T`, and the Hessian is that times the mean curvature.
    """
    if curvature.score_square is None or curvature.score_noise is None:
        return curvature.hessian
    squares = max(curvature.score_square, curvature.score_noise)
    if curvature.cross is not None:
        return squares / _count(problem, curvature) * curvature.hessian
    return squares / _curved(problem, curvature, squares) * curvature.hessian


def _count(problem: Problem, curvature: Curvature) -> float:
    """The number of rows; the constant column counts them where it is private."""
    if problem.neighbours is Neighbours.REPLACE_ONE:
        return problem.n_rows
    counted = float(curvature.hessian[-1, -1]) / problem.intercept**2
    return float(np.clip(counted, _FEWEST * problem.n_rows, problem.n_rows))


def _curved(problem: Problem, curvature: Curvature, squares: float) -> float:
    """The sum of the curvatures of a clipped square, which the constant column tells.

    A row with less curvature than 1 has a squared slope to show for it, so where the number of rows is public the
    squared slopes tell how much curvature can be lost at most.
    """
    least = _FEWEST * problem.n_rows
    if problem.neighbours is Neighbours.REPLACE_ONE:
        least = max(least, problem.n_rows - squares / _cheapest(problem) ** 2)
    told = float(curvature.hessian[-1, -1]) / problem.intercept**2
    return float(np.clip(told, least, problem.n_rows))


def _cheapest(problem: Problem) -> float:
    """The slope per root of lost curvature, at its least: the bound, or less for a soft clip with an early knee."""
    knee = getattr(problem.loss, "knee", 0.5)
    return problem.loss.lipschitz * (1.0 if knee >= 0.5 else 2 * math.sqrt(knee * (1 - knee)))
