"""How far weights may be from what they estimate: first order in all noise, that of the curvature included.

Derived in docs/proofs/intervals.md; every number that goes in was released or is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Beyond it the released curvature says too little of itself. Chosen on simulated tables, leaving one setting out at a
# time (docs/results/intervals.md).
MOST_NOISE = 0.35
_ROUNDS = 200
_SMALL_CHANGE = 1e-9


@dataclass(frozen=True, eq=False, kw_only=True)
class Equation:
    r"""What is known of :math:`\beta = w + \delta`: that :math:`(\tilde H - E)\,\delta = u + g`.

    Parameters
    ----------
    weights : ndarray of shape (p,)
        w, as released.
    hessian : ndarray of shape (p, p)
        :math:`\tilde H`, as released.
    noise : ndarray of shape (p,)
        Of E: the entry (j, j) has the standard deviation ``noise[j] ** 2``, the entry (j, k)
        ``noise[j] * noise[k] / sqrt(2)``.
    pull : ndarray of shape (p,)
        u: how far the penalty pulled.
    scores, privacy : ndarray of shape (p, p)
        Covariances of the two parts of g: chance in the rows, and noise of privacy.
    """

    weights: Floats
    hessian: Floats
    noise: Floats
    pull: Floats
    scores: Floats
    privacy: Floats

    @cached_property
    def noise_level(self) -> float:
        r"""Half the sum of :math:`\lambda_j^{-2}`, eigenvalues in units of noise; infinite unless all are positive."""
        values = np.linalg.eigvalsh(self.hessian / np.outer(self.noise, self.noise))
        return float(np.sum(values**-2.0) / 2) if values[0] > 0 else np.inf

    @property
    def too_noisy(self) -> bool:
        return not self.noise_level <= MOST_NOISE

    @cached_property
    def moved(self) -> Floats:
        r"""The estimate of :math:`\delta`."""
        return np.asarray(np.linalg.solve(self.hessian, self.pull))

    @cached_property
    def covariance(self) -> Floats:
        r"""Covariance of the error of ``weights + moved``.

        E meets a :math:`\delta` that is itself known up to this error only, so it is a fixed point. There is one where
        ``noise_level`` is small.
        """
        known = self._sandwich(self.scores + self.privacy)
        found, least = known, np.outer(self.moved, self.moved)
        for _ in range(_ROUNDS):
            last = found
            found = known + self._sandwich(self._met(least + last))
            if np.abs(found - last).max() <= _SMALL_CHANGE * np.abs(found).max():
                break
        return found

    @cached_property
    def sampling(self) -> Floats:
        """The part of the covariance that chance in the rows makes up."""
        return self._sandwich(self.scores)

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
