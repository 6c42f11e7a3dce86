"""From the released vector to consistent estimates, with the covariance of their noise. No row is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.design import Design

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Constraints:
    """What the true counts satisfy: ``left`` @ counts = ``right``, such as that all histograms count the same rows."""

    left: Matrix
    right: Vector


@dataclass(frozen=True, eq=False)
class Estimates:
    """Least-squares estimates of the counts under the constraints, in units of rows.

    ``variance`` is that of the noise on each released number, ``mean`` the estimate. The noise of the estimate is
    Gaussian, with the covariance that :meth:`covariance` gives, and the estimate is unbiased.
    """

    design: Design
    mean: Vector
    variance: Vector
    constraints: Constraints

    @classmethod
    def of(cls, design: Design, released: Vector, noise_scale: float, constraints: Constraints) -> Estimates:
        """``noise_scale`` is that of each released number; 0 for exact counts."""
        raw, variance = released / design.weights, (noise_scale / design.weights) ** 2
        found = cls(design, raw, variance, constraints)
        if noise_scale == 0 or len(constraints.right) == 0:
            return found
        gap = constraints.left @ raw - constraints.right
        moved = variance * (constraints.left.T @ (found._inverse @ gap))
        return cls(design, raw - moved, variance, constraints)

    def part(self, name: str) -> Vector:
        return self.mean[self.design.place(name)]

    def among(self, name: str, vectors: NDArray[Any]) -> Matrix:
        """Vectors over one part as vectors over the whole."""
        whole = np.zeros((len(vectors), self.design.size))
        whole[:, self.design.place(name)] = vectors
        return whole

    def covariance(self, vectors: Matrix) -> Matrix:
        """Of the noise of ``vectors`` @ mean."""
        weighed = vectors * self.variance
        plain = weighed @ vectors.T
        if len(self.constraints.right) == 0 or not self.variance.any():
            return np.asarray(plain)
        met = weighed @ self.constraints.left.T
        found = np.asarray(plain - met @ self._inverse @ met.T)
        np.fill_diagonal(found, np.maximum(np.diag(found), 0.0))  # what is public has none, up to rounding
        return found

    def covariance_of(self, name: str) -> Matrix:
        """Of the noise of all cells of one part."""
        size = len(self.part(name))
        return self.covariance(self.among(name, np.eye(size)))

    @cached_property
    def _inverse(self) -> Matrix:
        left = self.constraints.left
        return np.asarray(np.linalg.pinv((left * self.variance) @ left.T, hermitian=True))
