"""The privacy loss of one Gaussian release, sampled or not, on a grid and never better than it is.

Between two grid points the mass moves to the ends so that it stays the same under both laws, which makes every test
easier ("connect the dots", Doroshenko et al., 2022). Every rounding goes up: docs/proofs/accounting.md, section 5.
"""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dperm.privacy.composition import StepLoss, U

FloatArray = NDArray[np.float64]
Mixture = tuple[tuple[float, float], ...]  # (weight, mean) of normal laws of variance 1

REACH = 10.0  # standard deviations; what lies beyond, 1e-23, counts as an unbounded loss
_LARGEST_GRID = 2_000_000
_LARGEST_SUM = 2_000_000  # places of the grid that a composition should need


def gaussian_step(mu: float, interval: float) -> StepLoss:
    """One Gaussian release of parameter ``mu``."""
    return _on_grid(((1.0, mu),), ((1.0, 0.0),), _Loss(1.0, mu), -REACH, interval)


def poisson_steps(mu: float, rate: float, replace: bool, steps: int, mu_spent: float = 0.0) -> list[StepLoss]:
    """One sum over a Poisson sample: the pairs of docs/proofs/sgd-ma.md, both orders of add-remove.

    ``mu`` is what a row adds over the noise. The grid suits the loss of one step; ``steps`` of them, and a Gaussian
    release of parameter ``mu_spent``, fit in memory on it.
    """
    here: Mixture = ((1.0, 0.0),)
    up: Mixture = ((1 - rate, 0.0), (rate, mu))
    down: Mixture = ((1 - rate, 0.0), (rate, -mu))
    added = _Loss(rate, mu)

    def on(interval: float) -> list[StepLoss]:
        if replace:
            return [_on_grid(up, down, _Replaced(rate, mu), -REACH, interval)]
        # In the second order the axis is mirrored, so that losses grow along it.
        return [
            _on_grid(up, here, added, -REACH, interval),
            _on_grid(here, down, _Mirrored(added), -REACH, interval),
        ]

    return _fitting(on, max(min(1e-4, 0.02 * rate * mu), 1e-4 * mu * mu), steps, mu_spent)


def fixed_size_step(mu: float, rate: float, steps: int, mu_spent: float = 0.0) -> StepLoss:
    """One sum over a sample of a fixed size: the symmetric distribution of docs/proofs/dp-sgd.md, Theorem 2.

    Positive losses come from (1 - rate) N(0, 1) + rate N(mu, 1) against N(0, 1). A loss of -t has exp(-t) times the
    mass of t, because the bound is the same in both directions; what is left has no loss.
    """
    loss = _Loss(rate, mu)
    top = float(loss(np.array([mu + REACH]))[0])

    def on(interval: float) -> list[StepLoss]:
        up: Mixture = ((1 - rate, 0.0), (rate, mu))
        half = _on_grid(up, ((1.0, 0.0),), loss, mu / 2, interval, whole=False)
        return [mirrored(half.interval, half.mass[1:], half.unbounded, half.slack)]

    return _fitting(on, max(min(1e-4, 0.02 * rate * mu), top / 500_000), steps, mu_spent)[0]


def mirrored(interval: float, positive: FloatArray, unbounded: float, slack: float = 0.0) -> StepLoss:
    """The distribution with these masses of ``interval``, ``2 * interval`` ... that is its own mirror image."""
    loss = interval * np.arange(1, positive.size + 1)
    negative = positive * np.exp(-loss) * (1 + 8 * U * (1 + loss))
    none = max(1.0 - unbounded - float(positive.sum() + negative.sum()), 0.0)
    # At least what the negative losses were raised by, and what rounding took.
    none += 2 * slack + 64 * U * (1 + interval * positive.size)
    mass = np.concatenate([negative[::-1], [none], positive])
    return StepLoss(interval, -positive.size, mass, unbounded, slack)


class _Loss:
    """log((1 - rate) + rate exp(mu x - mu**2 / 2)), its inverse, and how much rounding of x moves it."""

    def __init__(self, rate: float, mu: float) -> None:
        self.rate, self.mu = rate, mu

    def __call__(self, x: FloatArray) -> FloatArray:
        exponent = self.mu * x - self.mu * self.mu / 2
        if self.rate == 1:
            return exponent
        raised = self.rate * np.expm1(np.minimum(exponent, 600.0))
        large = np.logaddexp(math.log1p(-self.rate), math.log(self.rate) + exponent)
        return np.asarray(np.where(np.abs(raised) < 0.5, np.log1p(np.clip(raised, -0.5, 0.5)), large))

    def inverse(self, loss: FloatArray) -> FloatArray:
        """Where the loss is ``loss``; minus infinity or not a number where it never is."""
        with np.errstate(invalid="ignore", divide="ignore"):
            exponent = loss if self.rate == 1 else np.log1p(np.expm1(loss) / self.rate)
        return np.asarray(exponent / self.mu + self.mu / 2)

    def rounding(self, x: FloatArray) -> float:
        """How far a computed loss may be off, at most."""
        exponent = self.mu * x - self.mu * self.mu / 2
        share = self.rate / (self.rate + (1 - self.rate) * np.exp(-np.maximum(exponent, -700.0)))
        moved = share * (np.abs(self.mu * x) + self.mu * self.mu)
        return 16 * U * float((moved + np.abs(self(x))).max())


class _Mirrored:
    """The loss in the other order, along the mirrored axis."""

    def __init__(self, loss: _Loss) -> None:
        self.loss = loss

    def __call__(self, x: FloatArray) -> FloatArray:
        return -self.loss(-x)

    def inverse(self, loss: FloatArray) -> FloatArray:
        return -self.loss.inverse(-loss)

    def rounding(self, x: FloatArray) -> float:
        return self.loss.rounding(-x)


class _Replaced:
    """The loss of (1 - rate) N(0, 1) + rate N(mu, 1) against (1 - rate) N(0, 1) + rate N(-mu, 1)."""

    def __init__(self, rate: float, mu: float) -> None:
        self.one, self.rate, self.mu = _Loss(rate, mu), rate, mu

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.one(x) - self.one(-x)

    def inverse(self, loss: FloatArray) -> FloatArray:
        odds = (1 - self.rate) / self.rate * math.exp(self.mu * self.mu / 2)
        return np.asarray((loss / 2 + np.arcsinh(odds * np.sinh(loss / 2))) / self.mu)

    def rounding(self, x: FloatArray) -> float:
        return self.one.rounding(x) + self.one.rounding(-x)


def _on_grid(
    upper: Mixture,
    lower: Mixture,
    loss: _Loss | _Mirrored | _Replaced,
    start: float,
    interval: float,
    whole: bool = True,
) -> StepLoss:
    """The loss of ``upper`` against ``lower``, which grows along the axis, from ``start`` on.

    If ``whole``, what lies before ``start`` counts as if it were there; otherwise the loss is 0 at ``start``.
    """
    end = REACH + max(mean for _, mean in upper)
    ends = loss(np.array([start, end]))
    rounding = loss.rounding(np.array([start, end]))
    first = math.floor((ends[0] - rounding) / interval) if whole else 0
    last = math.ceil((ends[1] + rounding) / interval)
    if last - first > _LARGEST_GRID:
        return anything(interval)
    places = np.arange(first, last + 1, dtype=np.float64)
    cuts = loss.inverse(interval * places)
    cuts[0], cuts[-1] = start, end
    cuts = np.maximum.accumulate(np.clip(np.nan_to_num(cuts, nan=start), start, end))
    inner = cuts[1:-1]
    off = float(np.abs(loss(inner) - interval * places[1:-1]).max()) if inner.size else 0.0
    largest = interval * float(np.abs(places[[0, -1]]).max())
    slack = off + loss.rounding(cuts) + 16 * U * (1 + largest)
    if not slack < interval / 4:  # the losses cannot be told apart in floating point
        return anything(interval)
    mass, error = _between(cuts, upper)
    other, other_error = _between(cuts, lower)
    mass, other = mass + error, np.maximum(other - other_error, 0.0)
    to_upper_end = (mass - other * np.exp(interval * places[:-1] - slack)) / -math.expm1(-interval)
    to_upper_end = np.clip(to_upper_end * (1 + 8 * U), 0.0, mass)
    total = np.append(mass - to_upper_end, 0.0)
    total[1:] += to_upper_end
    if whole:
        total[0] += _below(start, upper)
    return StepLoss(interval, first, total * (1 + 8 * U), _above(end, upper), slack)


def _between(cuts: FloatArray, mixture: Mixture) -> tuple[FloatArray, FloatArray]:
    """The mass between each two cuts, and a bound on its rounding error."""
    mass, error = np.zeros(cuts.size - 1), np.zeros(cuts.size - 1)
    for weight, mean in mixture:
        x = cuts - mean
        tail = ndtr(-np.abs(x))
        signed = np.where(x > 0, -tail, tail)
        crossing = (x[:-1] <= 0) & (x[1:] > 0)
        mass += weight * (np.diff(signed) + crossing)
        unsure = (2 + x * x) * tail
        error += weight * 8 * U * (unsure[:-1] + unsure[1:] + crossing)
    return np.maximum(mass, 0.0), error


def _below(cut: float, mixture: Mixture) -> float:
    return sum(weight * float(ndtr(cut - mean)) for weight, mean in mixture) * (1 + 1e-12)


def _above(cut: float, mixture: Mixture) -> float:
    return sum(weight * float(ndtr(mean - cut)) for weight, mean in mixture) * (1 + 1e-12)


def anything(interval: float) -> StepLoss:
    """A release of which nothing can be proved."""
    return StepLoss(interval, 0, np.zeros(1), 1.0)


def _fitting(
    on: Callable[[float], list[StepLoss]], interval: float, steps: int, mu_spent: float
) -> list[StepLoss]:
    """The losses of one step on the grid asked for, or on the finest on which everything fits in memory."""
    interval = max(interval, 2 * (REACH + mu_spent) * mu_spent / _LARGEST_GRID)
    found = on(interval)
    widest = max(20 * math.sqrt(steps) * step.deviation for step in found)
    return found if widest <= interval * _LARGEST_SUM else on(widest / _LARGEST_SUM)
