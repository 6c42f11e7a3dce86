"""A private release for intervals: curvature, and for numbers squared slopes, at the weights that were released.

It follows the training, so the weights are public by then (docs/proofs/intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.losses import Loss, Weighted
from dperm.planning.pricing import gaussian_noise
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.problem import Problem
from dperm.typing import Array, Floats

if TYPE_CHECKING:
    from dperm.engine import Rows


def triangle_size(n_columns: int) -> int:
    return n_columns * (n_columns + 1) // 2


def pack(matrix: Floats) -> Floats:
    """The upper triangle, off-diagonal entries times sqrt(2): Euclidean norm is then Frobenius norm."""
    rows, columns = np.triu_indices(len(matrix))
    return np.asarray(matrix[rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2)))


def unpack(triangle: Floats, n_columns: int) -> Floats:
    """The symmetric matrix that :func:`pack` made a vector of."""
    rows, columns = np.triu_indices(n_columns)
    matrix = np.zeros((n_columns, n_columns))
    matrix[rows, columns] = triangle / np.where(rows == columns, 1.0, math.sqrt(2))
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


@dataclass(frozen=True)
class Information(Loss):
    """Stands for ``base`` in two passes: ``slope`` is the square of its slope, ``curvature`` its curvature.

    The curvature of clipped squares jumps, and rounding of a margin at the jump would move a whole row. It is
    replaced by a ramp around the jump, which is as steep as ``curvature_lipschitz`` says (docs/proofs/intervals.md).
    """

    base: Loss

    def __post_init__(self) -> None:
        own = {"name": f"information of {self.base.name}", "labels": self.base.labels}
        for name, value in own.items():
            object.__setattr__(self, name, value)

    @property
    def lipschitz(self) -> float:
        return self.base.lipschitz**2

    @property
    def smoothness(self) -> float:
        return self.base.smoothness

    def value(self, margin: Array, y: Array) -> Array:
        raise NotImplementedError(
            "nothing is minimised: it stands for the slopes and the curvature of a loss"
        )

    def slope(self, margin: Array, y: Array) -> Array:
        return np.asarray(self.base.slope(margin, y) ** 2)

    def curvature(self, margin: Array, y: Array) -> Array:
        return self.base.continuous_curvature(margin, y)


@dataclass(frozen=True, kw_only=True)
class Inside:
    """Noise in the objective: of standard deviation ``noise`` on each number, against a penalty ``strength``.

    ``output`` is the standard deviation of what is added to the minimiser.
    """

    noise: float
    strength: float
    output: float


@dataclass(frozen=True, kw_only=True)
class WeightNoise:
    """The standard deviation of a released weight, and of every combination of weights of length 1.

    Over the noise of the training alone: rows, their order and the map that they are seen through are held fixed.

    Parameters
    ----------
    deviation : float
        Exactly that, or no less than it.
    exact : bool
    if_stable : bool
        Whether the bound is one to first order in the noise, for descent that does not run away.
    inside : Inside, optional
        Where the noise is in the objective: then its spread follows from the curvature at the minimiser.
    """

    deviation: float
    exact: bool = False
    if_stable: bool = False
    inside: Inside | None = None


def on_weights(scale: float) -> WeightNoise:
    """Noise that is added to the weights."""
    return WeightNoise(deviation=scale, exact=True)


def in_objective(noise: float, strength: float, output: float) -> WeightNoise:
    r"""Noise b in an objective of strong convexity :math:`\Lambda`, and noise on its minimiser.

    The minimiser is a :math:`1/\Lambda`-Lipschitz function of b, so the variance of each of its combinations of
    length 1 is at most :math:`\sigma^2/\Lambda^2` (Gaussian Poincaré inequality).
    """
    inside = Inside(noise=noise, strength=strength, output=output)
    return WeightNoise(deviation=math.hypot(noise / strength, output), inside=inside)


def in_steps(noise: float, step: float, steps: int, momentum: float, tail: int) -> WeightNoise:
    r"""Noise on each of the gradients of a descent with momentum whose last ``tail`` iterates are averaged.

    On a flat function the noise of a step is still there j steps later, times
    :math:`\eta(1 + \mu + \dots + \mu^{j-1})`; curvature only lessens that.
    """
    left = np.arange(1, steps + 1)
    grown = (1 - momentum**left) / (1 - momentum)  # after this many steps
    kept = np.concatenate([np.zeros(tail - 1), grown])
    averaged = np.convolve(kept, np.full(tail, 1 / tail), mode="valid")
    return WeightNoise(deviation=noise * step * float(np.linalg.norm(averaged)), if_stable=True)


CURVATURE, SQUARES = "curvature at the released weights", "squared residuals at the released weights"
SHARE, SQUARES_SHARE = 0.15, 0.05  # of mu squared
CONSTANT = 2.0  # times the constant column in the curvature: short as it is in training, noise would drown its entries
LONGEST = 1024.0  # margin: weights that make longer ones are shortened before the curvature is taken
WIDEST = 1000  # columns, because a model file holds a number for every pair of them
ROWS_BOUNDED = (
    "Intervals are for rows no longer than x_norm: longer ones were scaled down to it, as in training."
)
_UP = 1 + 1e-14  # a bound is computed in some ten roundings


@dataclass(frozen=True, eq=False, kw_only=True)
class Curvature:
    """What intervals are made of, in the coordinates of mapped rows z, the intercept column last.

    Parameters
    ----------
    hessian : ndarray of shape (p, p)
        Noisy sum over the rows of curvature * z z^T at the released weights; symmetric. Of ``adassp`` it is X'X.
    noise : float
        Standard deviation of the noise of its diagonal entries; the others have that over the root of 2.
    score_square, score_noise : float, optional
        Noisy sum of squared slopes over the rows at the released weights, and its noise; of a regression.
    cross, cross_noise : optional
        X'y as ``adassp`` released it, and its noise.
    constant : float
        The constant column was so many times as long when noise was added, so the noise in its row and column is
        smaller by that factor, and that of its square by the square of it.
    """

    hessian: Floats
    noise: float
    score_square: float | None = None
    score_noise: float | None = None
    cross: Floats | None = None
    cross_noise: float | None = None
    constant: float = 1.0

    @property
    def column_noise(self) -> Floats:
        """Of each column the root of its noise: entry (j, k) has a product of two, off the diagonal over root 2."""
        roots = np.full(len(self.hessian), math.sqrt(self.noise))
        roots[-1] /= self.constant
        return roots


@dataclass(frozen=True, eq=False, kw_only=True)
class Inference:
    """What is released after the weights, and with what noise.

    ``weight`` multiplies the sum of squared slopes, which comes last; None where there is none. ``moments`` are the
    noise scales of X'X and X'y where those were released before and only the squared residuals are missing.
    ``constant`` multiplies the constant column in the curvature.
    """

    problem: Problem
    share: float
    mu: float
    noise: GaussianNoise
    weight: float | None = None
    moments: tuple[float, float] | None = None
    constant: float = 1.0

    @property
    def stated(self) -> dict[str, Any]:
        """What is public of it before there are rows."""
        return {
            "share": self.share,
            "mu": self.mu,
            "noise_scale": self.noise.scale,
            "weight": self.weight,
            "moments": None if self.moments is None else list(self.moments),
            "constant": self.constant,
        }

    @property
    def name(self) -> str:
        return CURVATURE if self.moments is None else SQUARES

    @property
    def words(self) -> str:
        return f"{self.name}, noise scale {self.noise.scale:.6g}"

    def release(self, weights: Floats, rows: Rows, gate: Gate) -> Floats:
        """The release of one model, of its own rows, at the gate of its own job."""
        information, engine = Information(self.problem.loss), rows.open(precise=True)
        at = np.ascontiguousarray(shortened(weights, self.problem.row_norm)[:, None])
        parts = []
        if self.moments is None:
            parts.append(pack(stretched(engine.curvature_sum(information, at)[0], self.constant)))
        if (
            self.weight is not None
        ):  # the constant column of a row that is there is the intercept, of no row it is 0
            squares = engine.gradient_sum(information, at)[-1, 0] / self.problem.intercept
            parts.append(np.array([self.weight * squares]))
        return gate.release_one(np.concatenate(parts), self.noise, self.name)


def release_curvature(
    planned: Sequence[tuple[Inference | None, int]],
    weights: Sequence[Floats],
    kept: Sequence[Floats],
    rows: Rows,
    gate: Gate,
) -> list[Floats | None]:
    """One release for each model that has it planned, after what was ``kept`` of earlier ones."""
    curvatures: list[Floats | None] = [None] * len(planned)
    for k, (inference, model) in enumerate(planned):
        if inference is not None:
            released = inference.release(weights[k], rows.select([model]), gate.part([k]))
            curvatures[k] = np.concatenate([kept[k], released])
    return curvatures


def curvature_from_release(stated: Mapping[str, Any], n_columns: int, released: Floats) -> Curvature:
    """What was released, by what a plan or a certificate states of it."""
    size = triangle_size(n_columns)
    scale, weight, moments = stated["noise_scale"], stated["weight"], stated["moments"]
    return Curvature(
        hessian=stretched(unpack(released[:size], n_columns), 1 / stated["constant"]),
        constant=stated["constant"],
        noise=scale if moments is None else moments[0],
        score_square=None if weight is None else float(released[-1]) / weight,
        score_noise=None if weight is None else scale / weight,
        cross=None if moments is None else released[size : size + n_columns].copy(),
        cross_noise=None if moments is None else moments[1],
    )


def curvature_size(stated: Mapping[str, Any], n_columns: int) -> int:
    """How many numbers ``curvature_from_release`` takes."""
    more = 0 if stated["moments"] is None else n_columns
    return triangle_size(n_columns) + more + (stated["weight"] is not None)


def stretched(hessian: Floats, constant: float) -> Floats:
    """The same for rows whose last column is ``constant`` times as long; a power of 2 rounds nothing."""
    factors = np.ones(len(hessian))
    factors[-1] = constant
    return np.asarray(hessian * np.outer(factors, factors))


def stretched_norm(problem: Problem) -> float:
    """Bound on the norm of a row whose constant column is ``CONSTANT`` times as long."""
    if problem.intercept == 0:
        return problem.x_norm
    return math.nextafter(math.hypot(problem.x_norm, CONSTANT * problem.intercept), math.inf)


def shortened(weights: Floats, row_norm: float) -> Floats:
    """Weights with which no row has a margin beyond ``LONGEST``."""
    norm = float(np.linalg.norm(weights)) * row_norm
    return weights if norm <= LONGEST else weights * (LONGEST * (1 - 1e-9) / norm)


def not_for_intervals(problem: Problem, accounting: str, standardise: bool) -> str | None:
    """Why no intervals can be made for this problem with such settings of a mechanism; None when they can."""
    loss = problem.loss
    if loss.outputs > 1:
        return "intervals are for two classes or for numbers, and there are several outputs"
    if problem.many_rows:
        return "the rows of one person are not independent of each other, and intervals for rows would be too narrow"
    if isinstance(loss, Weighted):
        return "rows that weigh more than others break the equality that intervals rest on"
    if loss.curvature_lipschitz is None:
        return f"intervals are for the logistic and the squared loss, not for {loss.name}"
    if loss.labels == "real" and problem.intercept == 0:
        return "the squared residuals are summed in the intercept column; set fit_intercept=True"
    if accounting != "tight":
        return "the paper's own noise leaves nothing of the budget for them; use accounting='tight'"
    if standardise:
        return "standardised rows are shortened, and their coefficients are others; set standardise=False"
    if problem.n_columns > WIDEST:
        return f"all pairs of {problem.n_columns} columns would be released, and at most {WIDEST} columns are taken"
    return None


def plan_inference(problem: Problem, budget: Budget) -> Inference:
    """A fixed share of the budget, in mu squared, buys curvature and squared slopes in one release.

    Both cost the same: squared slopes are weighed so that they move as far as the curvature does.
    """
    budget.check_gaussian()
    size, changed = triangle_size(problem.n_columns), problem.neighbours.rows_changed
    moved, rounding = (
        math.sqrt(changed) * problem.loss.smoothness * stretched_norm(problem) ** 2,
        hessian_error(problem),
    )
    weight = None
    if problem.loss.labels == "real":
        weight = moved / problem.loss.lipschitz**2
        moved, rounding = math.hypot(moved, moved), rounding + weight * squares_error(problem)
    mu = math.sqrt(SHARE) * gaussian_mu(budget)
    noise = gaussian_noise((moved + 2 * rounding) * _UP, size + (weight is not None), mu)
    constant = CONSTANT if problem.intercept else 1.0
    return Inference(problem=problem, share=SHARE, mu=mu, noise=noise, weight=weight, constant=constant)


def plan_squares(problem: Problem, mu: float, moments: tuple[float, float]) -> Inference:
    """The squared residuals alone, beside moments that were released with these noise scales."""
    moved = problem.loss.lipschitz**2 + 2 * squares_error(problem)
    noise = gaussian_noise(moved * _UP, 1, mu)
    return Inference(problem=problem, share=SQUARES_SHARE, mu=mu, noise=noise, weight=1.0, moments=moments)


def hessian_error(problem: Problem) -> float:
    """Rounding error of the computed sum of curvature * z z^T, in Frobenius norm, at weights of ``shortened``."""
    change, most = problem.loss.curvature_lipschitz, problem.loss.smoothness
    assert change is not None
    own = change * _margin_error(problem) + problem.arithmetic.slope * most
    return problem.n_rows * stretched_norm(problem) ** 2 * (own + _adding(problem) * most)


def squares_error(problem: Problem) -> float:
    """The same of the sum of squared slopes."""
    loss = problem.loss
    slope = loss.smoothness * _margin_error(problem)
    slope += problem.arithmetic.slope * max(loss.lipschitz, loss.smoothness / 5)
    own = slope * (2 * loss.lipschitz + slope)
    return problem.n_rows * (own + _adding(problem) * loss.lipschitz**2)


def _margin_error(problem: Problem) -> float:
    return 2 * problem.n_columns * problem.arithmetic.margin * LONGEST


def _adding(problem: Problem) -> float:
    return problem.arithmetic.sum_error(problem.n_rows) + 8 * UNIT_ROUNDOFF
