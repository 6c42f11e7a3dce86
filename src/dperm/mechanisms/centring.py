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
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.problem import Problem
from dperm.row_map import RowMap

if TYPE_CHECKING:
    from dperm.engine import Rows

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

    def row_map(self, rows: Rows, gate: Gate) -> RowMap:
        """Release the mean, and see the rows from there on."""
        features = rows.open(precise=True).row_sum()[: self.problem.n_features, 0]
        centre = gate.release_one(features / self.problem.n_rows, self.noise, name="mean of the rows")
        return self.map_by(centre)

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
    rounding = problem.arithmetic.between_neighbours(
        2 * (problem.n_rows + 2) * problem.arithmetic.sum * problem.x_norm
    )
    sensitivity = problem.neighbours.rows_changed * problem.x_norm / problem.n_rows + rounding
    return Centring(
        problem=problem,
        mu=mu,
        noise=gaussian_noise(sensitivity, problem.n_features, mu),
    )
