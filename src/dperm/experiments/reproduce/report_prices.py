"""What the report's private SGD really costs, at the delta that it states."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from dperm.experiments.reproduce.report_simulation import DELTA, ROW_NORM, noise_scale
from dperm.privacy.subsampled import fixed_size_epsilon


@dataclass(frozen=True)
class Price:
    """Epsilon at the report's delta; ``exact`` is False for the Monte Carlo estimate of a large one."""

    epsilon: float
    exact: bool

    def __str__(self) -> str:
        return f"{self.epsilon:.2g}" if self.exact else f"≈ {float(f'{self.epsilon:.2g}'):,.0f}"


Prices = dict[tuple[int, float, int], Price]
"""By number of rows, constant c squared, and rows in a step."""

LARGE = 20.0
"""From here on the estimate will do: grids for the composition of so large losses take minutes."""


def true_price(n_rows: int, constant: float, batch: int, draws: int) -> Price:
    """What n**2 steps cost, each with the report's noise on the mean gradient of ``batch`` rows."""
    multiplier = noise_scale(n_rows, constant) * batch / ROW_NORM
    estimate = estimate_epsilon(multiplier, batch / n_rows, n_rows**2, draws)
    if estimate > LARGE:
        return Price(estimate, exact=False)
    return Price(fixed_size_epsilon(multiplier, batch, n_rows, n_rows**2, DELTA), exact=True)


def estimate_epsilon(multiplier: float, share: float, steps: int, draws: int, seed: int = 0) -> float:
    """Epsilon of samples of a fixed size by simulated privacy losses; for large deltas, as the report's.

    A step has the losses of ``fixed_size_epsilon``: those above 0 of (1 - q) N(0, 1) + q N(mu, 1) against N(0, 1), the
    same ones below 0 with exp(-loss) times the mass, and otherwise none.
    """
    rng, mu = np.random.default_rng(seed), 2 / multiplier
    tail, moved = float(ndtr(-mu / 2)), float(ndtr(mu / 2))
    weights = np.array([(1 - share) * tail, share * moved, tail])  # above 0 from either part, below 0
    centre, sign = np.array([0.0, mu, 0.0]), np.array([1.0, 1.0, -1.0])
    loss = np.zeros(draws)
    for one in range(draws):
        counts = rng.multinomial(steps, [*weights, max(0.0, 1 - weights.sum())])[:3]
        for number, middle, side in zip(counts, centre, sign, strict=True):
            beyond = mu / 2 - middle
            x = middle - ndtri(rng.random(number) * ndtr(-beyond))
            loss[one] += side * np.logaddexp(math.log1p(-share), math.log(share) + mu * x - mu * mu / 2).sum()
    low, high = 0.0, float(max(loss.max(), 0.0))
    for _ in range(60):
        middle = (low + high) / 2
        delta = -np.expm1(np.minimum(middle - loss, 0.0)).mean()
        low, high = (middle, high) if delta > DELTA else (low, middle)
    return high
