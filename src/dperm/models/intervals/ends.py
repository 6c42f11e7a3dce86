"""Estimates, standard errors and ends of intervals, for combinations of weights."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from dperm.models.intervals.bending import CurvedRows
from dperm.models.intervals.first_order import Equation

Floats = NDArray[np.float64]


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
        return Ends(
            estimate=unit * self.estimate + added,
            error=unit * self.error,
            low=unit * self.low + added,
            high=unit * self.high + added,
            privacy=self.privacy,
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
