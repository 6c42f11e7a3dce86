"""Private centring: release the mean of the rows, subtract it, and train on shorter rows.

One-hot and scaled features share a large mean, which wastes sensitivity (Sun, Suresh & Menon 2023).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.planning.gaussian import gaussian_noise
from dperm.privacy import Budget, GaussianNoise, ReleaseRecord, gaussian_mu, release
from dperm.privacy.entropy import Entropy
from dperm.problem import UNIT_ROUNDOFF, Problem
from dperm.row_map import RowMap

if TYPE_CHECKING:
    from dperm.engine import Table

Vector = NDArray[np.float64]

SHARE = 0.15  # of mu squared
RADIUS = 0.6  # of x_norm: centred rows beyond it are scaled down, and all are then stretched by its inverse


@dataclass(frozen=True, eq=False, kw_only=True)
class Centring:
    """The mean's noise and price. The centred problem has the bounds of the original one."""

    problem: Problem
    mu: float
    noise: GaussianNoise
    radius: float = RADIUS

    def release(self, table: Table, entropy: Entropy) -> tuple[Vector, ReleaseRecord]:
        features = table.open(storage=np.float64).row_sum()[: self.problem.n_features, 0]
        return release(features / self.problem.n_rows, self.noise, entropy, name="mean of the rows")

    def undo(self, weights: Vector, centre: Vector) -> Vector:
        """Weights for rows as they came: w.(x - centre)/radius + w_0 b is linear in (x, b)."""
        original = weights.copy()
        original[:-1] /= self.radius
        original[-1] -= centre @ original[:-1] / self.problem.intercept
        return original

    def map_by(self, centre: Vector) -> RowMap:
        """The map that a released mean makes."""
        return RowMap(
            x_norm=self.problem.x_norm,
            intercept=self.problem.intercept,
            centre=centre,
            scale=np.full(len(centre), self.radius),
        )


def plan_centring(problem: Problem, budget: Budget) -> Centring:
    """A fixed share of the budget, in mu squared, buys the mean of the features.

    The sum of the features moves by at most 2 x_norm between replace-one neighbours and x_norm between
    add-remove ones, plus the float64 error of the sum in both runs.
    """
    budget.check_gaussian()
    mu = math.sqrt(SHARE) * gaussian_mu(budget)
    rounding = 2 * 2 * (problem.n_rows + 2) * UNIT_ROUNDOFF * problem.x_norm
    sensitivity = problem.neighbours.rows_changed * problem.x_norm / problem.n_rows + rounding
    return Centring(
        problem=problem,
        mu=mu,
        noise=gaussian_noise(sensitivity, problem.n_features, mu),
    )
