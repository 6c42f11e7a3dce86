"""How the logistic loss bends away from its curvature at the released weights, along the way to an end of an interval.

Rows weighed by their curvature have moments that the released Hessian tells. They are taken as Gaussian, which
matters in second order only (docs/proofs/intervals.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from numpy.typing import NDArray
from scipy.special import expit

Floats = NDArray[np.float64]

# The end of an interval that moves by more than this factor is not told. Chosen as MOST_NOISE is.
MOST_BENDING = 2.0
_POINTS = 9  # of a Gauss-Hermite rule
_HALVINGS = 40
_STEEPEST = 30.0  # of a margin: there the logistic loss is as good as straight


@dataclass(frozen=True, eq=False, kw_only=True)
class CurvedRows:
    """Mean and covariance of mapped rows that are weighed by their curvature."""

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
