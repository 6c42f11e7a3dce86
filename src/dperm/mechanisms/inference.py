"""A private release for intervals: curvature, and for numbers squared slopes, at the weights that were released.

It follows the training, so the weights are public by then (docs/proofs/intervals.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.losses import Weighted
from dperm.mechanisms.information import Information
from dperm.mechanisms.triangle import pack, triangle_size, unpack
from dperm.planning.gaussian import gaussian_noise
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Rows

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

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

    hessian: Matrix
    noise: float
    score_square: float | None = None
    score_noise: float | None = None
    cross: Vector | None = None
    cross_noise: float | None = None
    constant: float = 1.0

    @property
    def column_noise(self) -> Vector:
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

    def release(self, weights: Vector, rows: Rows, gate: Gate) -> Vector:
        """The passage of one model, of its own rows, with a lane of its own."""
        told, engine = Information(self.problem.loss), rows.open(precise=True)
        at = np.ascontiguousarray(shortened(weights, self.problem.row_norm)[:, None])
        parts = []
        if self.moments is None:
            parts.append(pack(stretched(engine.curvature_sum(told, at)[0], self.constant)))
        if (
            self.weight is not None
        ):  # the constant column of a row that is there is the intercept, of no row it is 0
            squares = engine.gradient_sum(told, at)[-1, 0] / self.problem.intercept
            parts.append(np.array([self.weight * squares]))
        return gate.release_one(np.concatenate(parts), self.noise, self.name)


def release_told(
    planned: Sequence[tuple[Inference | None, int]],
    weights: Sequence[Vector],
    kept: Sequence[Vector],
    rows: Rows,
    gate: Gate,
) -> list[Vector | None]:
    """One passage for each model that has it planned, after what was ``kept`` of earlier ones."""
    told: list[Vector | None] = [None] * len(planned)
    for k, (inference, model) in enumerate(planned):
        if inference is not None:
            released = inference.release(weights[k], rows.select([model]), gate.part([k]))
            told[k] = np.concatenate([kept[k], released])
    return told


def curvature_told(stated: Mapping[str, Any], n_columns: int, released: Vector) -> Curvature:
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


def numbers_told(stated: Mapping[str, Any], n_columns: int) -> int:
    """How many numbers ``curvature_told`` takes."""
    more = 0 if stated["moments"] is None else n_columns
    return triangle_size(n_columns) + more + (stated["weight"] is not None)


def stretched(hessian: Matrix, constant: float) -> Matrix:
    """The same for rows whose last column is ``constant`` times as long; a power of 2 rounds nothing."""
    factors = np.ones(len(hessian))
    factors[-1] = constant
    return np.asarray(hessian * np.outer(factors, factors))


def stretched_norm(problem: Problem) -> float:
    """Bound on the norm of a row whose constant column is ``CONSTANT`` times as long."""
    if problem.intercept == 0:
        return problem.x_norm
    return math.nextafter(math.hypot(problem.x_norm, CONSTANT * problem.intercept), math.inf)


def shortened(weights: Vector, row_norm: float) -> Vector:
    """Weights with which no row has a margin beyond ``LONGEST``."""
    norm = float(np.linalg.norm(weights)) * row_norm
    return weights if norm <= LONGEST else weights * (LONGEST * (1 - 1e-9) / norm)


def not_for_intervals(problem: Problem, accounting: str, standardise: bool | str) -> str | None:
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
    """A fixed share of the budget, in mu squared, buys curvature and squared slopes in one passage.

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
