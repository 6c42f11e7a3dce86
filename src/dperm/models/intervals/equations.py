"""From released numbers to the equation that estimates solve, for each mechanism that has one.

Derived in docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.errors import Unsupported
from dperm.mechanisms import Mechanism
from dperm.mechanisms.gradient.dp_gd import DPGD
from dperm.mechanisms.inference import Curvature
from dperm.models.intervals.descent import descent_equation
from dperm.models.intervals.first_order import Equation
from dperm.models.intervals.span import spanned
from dperm.neighbours import Neighbours
from dperm.problem import Problem
from dperm.schema import Schema

Floats = NDArray[np.float64]

_FEWEST = 0.05  # of the rows: no sum of curvatures is taken as smaller


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
    found = _equation(mechanism, problem, used, noise_scale, weights, curvature, schema)
    return replace(found, least_level=_least_level(problem, curvature))


def _equation(
    mechanism: Mechanism,
    problem: Problem,
    used: Mapping[str, Any],
    noise_scale: float,
    weights: Floats,
    curvature: Curvature,
    schema: Schema | None,
) -> Equation:
    scores = _scores(problem, curvature)
    noise = curvature.column_noise
    if curvature.cross is not None and curvature.cross_noise is not None:
        return Equation(
            weights=np.zeros(len(weights)),
            hessian=curvature.hessian,
            noise=noise,
            pull=curvature.cross,
            scores=scores,
            privacy=curvature.cross_noise**2 * np.eye(len(weights)),
            in_pull=True,
        )
    if isinstance(mechanism, DPGD):
        rows = spanned(schema, len(weights), problem.intercept, np.ones(len(weights)))
        return descent_equation(mechanism, problem, used, noise_scale, weights, curvature, scores, rows)
    spread = mechanism.weight_noise(problem, used, noise_scale)
    if spread is None or spread.inside is None:
        raise Unsupported(f"no intervals are known for the weights of mechanism {mechanism.name!r}.")
    inside, identity = spread.inside, np.eye(len(weights))
    curved = curvature.hessian + inside.strength * identity
    return Equation(
        weights=weights,
        hessian=curvature.hessian,
        noise=noise,
        pull=inside.strength * weights,
        scores=scores,
        privacy=inside.noise**2 * identity + inside.output**2 * (curved @ curved),
    )


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
