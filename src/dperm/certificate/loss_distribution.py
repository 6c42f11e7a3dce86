"""Sampled Gaussian releases: distributions of the privacy loss on a grid, composed by one Fourier transform.

Losses are put on the grid by splitting each between its two neighbours so that its mean stays. That is neither an
upper nor a lower bound, but off by the square of the grid's width only.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.accountant import Price

Vector = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)
_TAIL = 10.0  # standard deviations; what lies beyond weighs less than 1e-22
_MOST_POINTS = 1 << 22
_NEGLIGIBLE = math.log(1e-18)


@dataclass(frozen=True, eq=False)
class Losses:
    """Privacy losses of one step and their weights, at the nodes of a quadrature."""

    loss: Vector
    weight: Vector

    @property
    def deviation(self) -> float:
        mean = float(self.weight @ self.loss)
        return math.sqrt(float(self.weight @ (self.loss - mean) ** 2))

    def log_moment(self, order: float) -> float:
        exponent = order * self.loss
        top = float(exponent.max())
        return top + math.log(float(self.weight @ np.exp(exponent - top)))


def poisson_losses(rate: float, multiplier: float, rows: int) -> list[Losses]:
    """One sum over a Poisson sample: the dominating pairs of docs/proofs/sgd-ma.md, both orders of add-remove."""
    x, dx = _nodes(-_TAIL - 1 / multiplier, _TAIL + 1 / multiplier)
    here, up = (np.exp(-((x - shift) ** 2) / 2) for shift in (0.0, 1 / multiplier))
    mixed = _log_mix(x, rate, 1 / multiplier)
    if rows == 2:
        against = _log_mix(x, rate, -1 / multiplier)
        return [_losses(mixed - against, ((1 - rate) * here + rate * up) * dx)]
    return [_losses(mixed, ((1 - rate) * here + rate * up) * dx), _losses(-mixed, here * dx)]


def fixed_size_losses(rate: float, multiplier: float) -> list[Losses]:
    """One sum over a sample of a fixed size: the symmetric distribution of docs/proofs/dp-sgd.md, Theorem 2."""
    mu = 2 / multiplier
    x, dx = _nodes(mu / 2, mu + _TAIL)  # where the mixture is more likely than the plain Gaussian
    density = (1 - rate) * np.exp(-x * x / 2) + rate * np.exp(-((x - mu) ** 2) / 2)
    loss = _log_mix(x, rate, mu)
    positive = density * dx / math.sqrt(2 * math.pi)
    negative = positive * np.exp(-loss)
    rest = max(1.0 - float(positive.sum() + negative.sum()), 0.0)
    return [Losses(np.concatenate([loss, -loss, [0.0]]), np.concatenate([positive, negative, [rest]]))]


def gaussian_losses(mu: float) -> Losses:
    x, dx = _nodes(-_TAIL, _TAIL)
    return _losses(mu * x + mu * mu / 2, np.exp(-x * x / 2) * dx)


def composed_price(steps: list[Losses], count: int, mu: float, how: str, accuracy: float = 1e-4) -> Price:
    """``count`` steps of the same kind and a Gaussian release of parameter ``mu``; the worst of the listed orders."""
    parts = [_compose([(one, count)] + ([(gaussian_losses(mu), 1)] if mu > 0 else [])) for one in steps]

    def delta(epsilon: float) -> float:
        return max(_delta(loss, weight, epsilon) for loss, weight in parts)

    return Price(delta, how, accuracy)


def _delta(loss: Vector, weight: Vector, epsilon: float) -> float:
    above = loss > epsilon
    return float(weight[above] @ -np.expm1(epsilon - loss[above]))


def _compose(parts: list[tuple[Losses, int]]) -> tuple[Vector, Vector]:
    """The grid and the weights of the sum of independent losses; tails below 1e-18 are left out."""
    upper, lower = _reach(parts, 1.0), -_reach(parts, -1.0)
    finest = min(losses.deviation for losses, _ in parts)
    width = max(min(1e-4, 4e-3 * finest), (upper - lower) / _MOST_POINTS)
    size = 1 << math.ceil(math.log2((upper - lower) / width + 2))
    transformed = np.ones(size // 2 + 1, complex)
    for losses, count in parts:
        place = losses.loss / width
        floor = np.floor(place)
        share = place - floor
        index = floor.astype(np.int64) % size
        masses = np.bincount(index, losses.weight * (1 - share), size)
        masses += np.bincount((index + 1) % size, losses.weight * share, size)
        transformed *= np.fft.rfft(masses) ** count
    masses = np.maximum(np.fft.irfft(transformed, size), 0.0)
    first = math.floor(lower / width)
    grid = first + (np.arange(size) - first) % size
    return np.asarray(grid * width, np.float64), np.asarray(masses, np.float64)


def _reach(parts: list[tuple[Losses, int]], sign: float) -> float:
    """Chernoff's bound: the sum of the losses, times ``sign``, is larger with a chance below 1e-18."""
    orders: list[float] = np.geomspace(0.05, 500.0, 24).tolist()
    return min(
        (sum(count * losses.log_moment(sign * order) for losses, count in parts) - _NEGLIGIBLE) / order
        for order in orders
    )


def _nodes(low: float, high: float) -> tuple[Vector, Vector]:
    """Gauss–Legendre panels that resolve both densities and the grid of losses."""
    panels = 1000
    width = (high - low) / panels
    starts = low + width * np.arange(panels)
    x = (starts[:, None] + width * (_NODES + 1) / 2).ravel()
    return x, np.tile(_WEIGHTS * width / 2, panels)


def _log_mix(x: Vector, rate: float, shift: float) -> Vector:
    """log((1 - rate) + rate exp(shift x - shift**2 / 2)) without overflow."""
    ratio = shift * x - shift * shift / 2
    if rate == 1:
        return ratio
    return np.asarray(np.logaddexp(math.log1p(-rate), math.log(rate) + ratio))


def _losses(loss: Vector, weight: Vector) -> Losses:
    return Losses(loss, weight / math.sqrt(2 * math.pi))
