"""How far weights may be from what they estimate: first order in all noise, that of the curvature included, and how
the loss bends on the way.

Derived in docs/proofs/intervals.md; every number that goes in was released or is public.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.special import expit, ndtri

Floats = NDArray[np.float64]

# Beyond it the released curvature says too little of itself. Half of the least that two sets of simulated tables allow,
# leaving one setting out at a time (docs/results/intervals.md).
MOST_NOISE = 0.1
# The end of an interval that moves by more than this factor is not told. Chosen as MOST_NOISE is.
MOST_BENDING = 2.0
_POINTS = 9  # of a Gauss-Hermite rule
_HALVINGS = 40
_STEEPEST = 30.0  # of a margin: there the logistic loss is as good as straight


@dataclass(frozen=True, eq=False, kw_only=True)
class Equation:
    r"""What is known of :math:`\beta = w + \delta`: that :math:`H\delta = u + g`, and :math:`\tilde H = H + E`.

    Parameters
    ----------
    weights : ndarray of shape (p,)
        w, as released.
    hessian : ndarray of shape (p, p)
        :math:`\tilde H`, as released.
    noise : ndarray of shape (p,)
        Of E: the entry (j, k) has the standard deviation ``noise[j] * noise[k]``, off the diagonal over the root of 2.
    pull : ndarray of shape (p,)
        u: how far the penalty pulled, or the moments with the target.
    scores, privacy : ndarray of shape (p, p)
        Covariances of the two parts of g: chance in the rows, and noise of privacy.
    in_pull : bool
        Whether g is part of what is known of u, as in noisy moments, rather than of the weights.
    least_level : float
        What public facts say that the noise level is at least, whatever the rows.
    """

    weights: Floats
    hessian: Floats
    noise: Floats
    pull: Floats
    scores: Floats
    privacy: Floats
    in_pull: bool = False
    least_level: float = 0.0

    @property
    def lengths(self) -> Floats:
        """What columns are multiplied by so that the noise on all entries is the same."""
        return np.asarray(self.noise.max() / self.noise)

    def within(self, basis: Floats) -> Equation:
        """The equation for rows that lie in the span of ``basis``, orthonormal once columns have their ``lengths``.

        A combination c becomes ``(lengths * c) @ basis``.
        """
        seen = self.lengths[:, None] * basis
        return replace(
            self,
            weights=basis.T @ (self.weights / self.lengths),
            hessian=seen.T @ self.hessian @ seen,
            noise=np.full(basis.shape[1], self.noise.max()),
            pull=seen.T @ self.pull,
            scores=seen.T @ self.scores @ seen,
            privacy=seen.T @ self.privacy @ seen,
        )

    @cached_property
    def noise_level(self) -> float:
        r"""Half the sum of :math:`\lambda_j^{-2}`, eigenvalues in units of noise; infinite unless all are positive."""
        values = np.linalg.eigvalsh(self.hessian / np.outer(self.noise, self.noise))
        level = float(np.sum(values**-2.0) / 2) if values[0] > 0 else np.inf
        return max(level, self.least_level)

    @property
    def too_noisy(self) -> bool:
        return not self.noise_level <= MOST_NOISE

    @cached_property
    def moved(self) -> Floats:
        r"""The estimate of :math:`\delta`."""
        return np.asarray(self._inverse @ self.pull)

    @cached_property
    def by_noise(self) -> Floats:
        """Covariance of what g does to the estimate, by the released curvature."""
        return self._sandwich(self.scores + self.privacy)

    @cached_property
    def by_curvature(self) -> Floats:
        r"""Covariance of what the noise of the curvature does to it: it meets :math:`\delta`."""
        return self._sandwich(self._met(np.outer(self.moved, self.moved)))

    @cached_property
    def sampling(self) -> Floats:
        """The part of the covariance that chance in the rows makes up."""
        return self._sandwich(self.scores)

    def widening(self, combinations: Floats, reach: float) -> Floats:
        r"""How much wider than by ``by_noise`` the interval of each combination, a row, must be; at least 1.

        g moves the weights by :math:`H^{-1}g`, but only :math:`\tilde H^{-1}` is known, so the standard deviation is
        off by a factor :math:`1 + \eta`. To second order the coverage of ``reach`` deviations is right with a factor of
        :math:`1 - E\eta + \frac12` ``reach`` :math:`^2\operatorname{Var}\eta`.
        """
        if self.in_pull:
            return np.ones(len(combinations))
        weight = (self.noise**2)[:, None]
        a, u = self._inverse @ combinations.T, self.by_noise @ combinations.T
        variance = np.einsum("ij,ji->i", combinations, u)
        variance = np.where(variance > 0, variance, 1.0)
        inner, own = np.sum(weight * u * a, axis=0), np.sum(weight * a * a, axis=0)
        spread = (np.sum(weight * u * u, axis=0) * own + inner**2) / (2 * variance**2)
        twice = self._met_twice(self._inverse, weight * u, weight * a, inner)
        once = self._met_twice(self.by_noise, weight * a, weight * a, own) / 2
        mean = (twice + once) / (2 * variance) - spread / 2
        return np.asarray(np.maximum(1 - mean + reach**2 / 2 * spread, 1.0))

    def _met_twice(self, between: Floats, left: Floats, right: Floats, inner: Floats) -> Floats:
        """Twice the mean of l^T E between E r, for pairs of columns that are weighed by the noise already."""
        own = float(self.noise**2 @ np.diag(between)) * inner
        return np.asarray(own + np.einsum("ij,ij->j", left, between @ right))

    @cached_property
    def _inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.hessian))

    def _sandwich(self, covariance: Floats) -> Floats:
        found = self._inverse @ covariance @ self._inverse
        return np.asarray((found + found.T) / 2)

    def _met(self, squares: Floats) -> Floats:
        r"""Covariance of :math:`E\delta` for a :math:`\delta` with these second moments."""
        variance = self.noise**2
        own = float(variance @ np.diag(squares))
        return np.asarray((own * np.diag(variance) + squares * np.outer(variance, variance)) / 2)


@dataclass(frozen=True, eq=False, kw_only=True)
class CurvedRows:
    """Mean and covariance of mapped rows that are weighed by their curvature, as the released Hessian tells them.

    They say how the logistic loss bends away from its curvature at the released weights, along the way to an end of an
    interval. The rows are taken as Gaussian, which matters in second order only.
    """

    mean: Floats
    covariance: Floats

    @classmethod
    def of(cls, hessian: Floats, intercept: float, x_norm: float, n_rows: int) -> CurvedRows:
        """By the Hessian of a sum over rows no longer than ``x_norm``, whose last column is ``intercept``.

        Without an intercept the sum of the curvatures is not told: it is taken as small as the bound on the rows
        allows, which makes the rows as long as they can be.
        """
        features = len(hessian) - (intercept > 0)
        least = float(np.trace(hessian[:features, :features])) / x_norm**2
        total = float(np.clip(hessian[-1, -1] / intercept**2, least, n_rows / 4)) if intercept else least
        total = max(total, np.finfo(float).tiny)
        mean = np.zeros(len(hessian))
        if intercept:
            mean[:features] = hessian[:features, -1] / (intercept * total)
            mean[-1] = intercept
        covariance = hessian / total - np.outer(mean, mean)
        if intercept:
            covariance[-1], covariance[:, -1] = 0.0, 0.0
        return cls(mean=mean, covariance=covariance)

    def within(self, basis: Floats) -> CurvedRows:
        """The same rows by their products with the columns of ``basis``."""
        return CurvedRows(mean=basis.T @ self.mean, covariance=basis.T @ self.covariance @ basis)

    def factors(self, weights: Floats, moves: Floats) -> Floats:
        r"""How much further than to first order each move goes; ``moves`` has one in each column.

        Along :math:`\delta` the slope of the loss changes by :math:`\langle\delta, \nabla f(w + t\delta) - \nabla
        f(w)\rangle`, which is :math:`t\,\delta^T H\delta` to first order. The factor is the t at which it is
        :math:`\delta^T H\delta`; infinite beyond ``2 * MOST_BENDING``.
        """
        nodes, chances = hermegauss(_POINTS)
        chance = np.outer(chances, chances).ravel() / (2 * np.pi)
        first, second = (grid.ravel()[:, None] for grid in np.meshgrid(nodes, nodes, indexing="ij"))
        spread = np.sqrt(max(float(weights @ self.covariance @ weights), 0.0))
        margin = float(weights @ self.mean) + spread * first
        along = (weights @ self.covariance @ moves) / spread if spread > 0 else np.zeros(moves.shape[1])
        variance = np.einsum("ij,ij->j", moves, self.covariance @ moves)
        change = self.mean @ moves + along * first + np.sqrt(np.maximum(variance - along**2, 0.0)) * second
        probability = expit(margin)
        wanted = chance @ change**2

        def reached(t: Floats) -> Floats:
            grown = np.expm1(np.clip(t * change, -_STEEPEST, _STEEPEST))
            return np.asarray(chance @ (change * grown / (1 + probability * grown)))

        low, high = np.zeros(moves.shape[1]), np.full(moves.shape[1], 2 * MOST_BENDING)
        beyond = reached(high) < wanted
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            short = reached(middle) < wanted
            low, high = np.where(short, middle, low), np.where(short, high, middle)
        return np.where(beyond, np.inf, np.where(wanted > 0, high, 1.0))


@dataclass(frozen=True, eq=False, kw_only=True)
class Ends:
    """One number for each combination. An end is infinite where the noise sets it no bound.

    ``privacy`` is the share of the variance that would not be there without privacy.
    """

    estimate: Floats
    error: Floats
    low: Floats
    high: Floats
    privacy: Floats

    @property
    def turned(self) -> Ends:
        """Of the negative of each number."""
        return replace(self, estimate=-self.estimate, low=-self.high, high=-self.low)

    def scaled(self, unit: float, added: Floats) -> Ends:
        """The same in another unit, with a constant on top."""
        return replace(
            self,
            estimate=unit * self.estimate + added,
            error=unit * self.error,
            low=unit * self.low + added,
            high=unit * self.high + added,
        )


def ends(equation: Equation, combinations: Floats, level: float, rows: CurvedRows | None) -> Ends:
    """Of combinations of weights, one in each row.

    An end is where the noise of its least unlikely direction would take it. Along the way there the loss bends, as
    ``rows`` tell; without them it does not.
    """
    reach = float(ndtri((1 + level) / 2))
    by_noise, by_curvature = equation.by_noise @ combinations.T, equation.by_curvature @ combinations.T
    variance = np.einsum("ij,ji->i", combinations, by_noise + by_curvature)
    across = equation.widening(combinations, reach) ** 2 * by_noise + by_curvature
    far = np.sqrt(np.einsum("ij,ji->i", combinations, across))
    away = reach * np.divide(across, far, out=np.zeros_like(across), where=far > 0)
    count, moved = len(combinations), equation.moved[:, None]
    moves = np.hstack([moved, moved - away, moved + away])
    factors = np.ones(moves.shape[1]) if rows is None else rows.factors(equation.weights, moves)
    at = combinations @ equation.weights
    first = combinations @ moved[:, 0]
    below, above = (np.einsum("ij,ji->i", combinations, moved + side * away) for side in (-1, 1))
    lower, upper = at + _times(factors[1 : 1 + count], below), at + _times(factors[1 + count :], above)
    sampling = np.einsum("ij,ji->i", combinations, equation.sampling @ combinations.T)
    return Ends(
        estimate=at + _times(factors[0], first),
        error=np.sqrt(variance),
        low=np.where(np.isfinite(lower), lower, -np.inf),
        high=np.where(np.isfinite(upper), upper, np.inf),
        privacy=1 - np.divide(sampling, variance, out=np.ones_like(variance), where=variance > 0),
    )


def _times(factor: Floats | float, first: Floats) -> Floats:
    """Nothing stays nothing, however far it would go."""
    with np.errstate(invalid="ignore"):
        return np.where(first == 0, 0.0, factor * first)
