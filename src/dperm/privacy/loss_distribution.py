"""Privacy losses on a grid, never better than they are: of one Gaussian release, sampled or not, and of a curve.

Between two grid points the mass moves to the ends so that it stays the same under both laws, which makes every test
easier ("connect the dots", Doroshenko et al., 2022). Every rounding goes up: docs/proofs/accounting.md, section 5.

Of other releases a bound on the curve delta(epsilon) in both directions is all that is needed: docs/proofs/ledger.md
turns it into masses on a grid of losses that are at least as bad, and ``Composition`` convolves them.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from dperm.privacy.composition import Composition, StepLoss, U

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


DOTS = 2000  # points of each curve, at least
TAIL = 1e-17  # delta at which a curve ends; what is left counts as an unbounded loss
_LARGEST_CURVE = 1_000_000
_LARGEST_LOSS = 600.0  # so that exp(loss) is a float


@dataclass(frozen=True, eq=False)
class Curve:
    """An upper bound on delta(epsilon), the same for both orders of the neighbours.

    ``top`` is the epsilon at which to stop looking; losses beyond it count as unbounded.
    """

    delta: Callable[[FloatArray], FloatArray]
    top: float


def composed(curves: Sequence[tuple[Curve, int]]) -> Composition | None:
    """The privacy-loss distribution of all curves, each as often as stated, or None if one reaches too far.

    Guarantee
    ---------
    Its delta at any epsilon is at least the true one.
    """
    spread = math.sqrt(sum(count * curve.top**2 for curve, count in curves))
    if not spread <= _LARGEST_LOSS:
        return None
    # Each curve has a spacing of its own. All are powers of two, so the finest is a grid for all of them.
    spacings = [_power_of_two(curve.top / DOTS) for curve, _ in curves]
    interval = max(min(spacings), 2 * _power_of_two(2 * spread / _LARGEST_CURVE))
    parts = [
        (_spread_out(loss_masses(curve, max(own, interval)), interval), count)
        for (curve, count), own in zip(curves, spacings, strict=True)
    ]
    return Composition((tuple(parts),))


def _spread_out(step: StepLoss, interval: float) -> StepLoss:
    """The same on a finer grid."""
    every = round(step.interval / interval)
    mass = np.zeros((step.mass.size - 1) * every + 1)
    mass[::every] = step.mass
    return StepLoss(interval, step.first * every, mass, step.unbounded)


def _power_of_two(value: float) -> float:
    """The largest power of two up to ``value``; that of one millionth for less."""
    return math.ldexp(1.0, math.floor(math.log2(max(value, 1e-6))))


@lru_cache(maxsize=1024)
def loss_masses(curve: Curve, spacing: float) -> StepLoss:
    """Masses of the losses ``k * spacing`` and of an unbounded loss, at least as bad as the curve.

    The lower convex hull of the curve's dots over exp(epsilon), mirrored at 1, is the curve of these masses.
    """
    loss = spacing * np.arange(math.ceil(curve.top / spacing) + 1, dtype=np.float64)
    ratio = np.exp(loss)
    bound = np.minimum.accumulate(np.clip(curve.delta(loss), 0.0, 1.0))
    # Where the hull of the curve and its mirror image crosses 1.
    bound[0] = float(((2 * bound + ratio - 1) / (ratio + 1)).min()) * (1 + 8 * U)
    hull = _lower_hull(ratio, bound)
    slope = np.append(np.diff(bound[hull]) / np.diff(ratio[hull]), 0.0)
    at_vertices = np.maximum(ratio[hull[1:]] * np.diff(slope), 0.0)
    factor = _shortfall(ratio[hull], bound[hull], at_vertices)
    if not math.isfinite(factor):
        return anything(spacing)
    positive = np.zeros(loss.size - 1)
    positive[np.array(hull[1:], np.int64) - 1] = factor * at_vertices
    return mirrored(spacing, positive, float(bound[-1]))


def _shortfall(ratio: FloatArray, bound: FloatArray, positive: FloatArray) -> float:
    """By what factor the masses must grow for their own curve to reach the bound at every vertex.

    Differences of slopes lose digits; the curve is a sum of positive numbers and does not.
    """
    lower = np.cumsum((positive / ratio[1:])[::-1])[::-1]
    reached = np.cumsum((lower * np.diff(ratio))[::-1])[::-1]
    needed = bound[:-1] - bound[-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        short = np.where(needed > 0, needed / reached, 0.0)
    return max(1.0, float(short.max(initial=0.0))) * (1 + 16 * U * (4 + ratio.size))


def _lower_hull(x: FloatArray, y: FloatArray) -> list[int]:
    """Indices of the vertices of the lower convex hull, from left to right."""
    hull: list[int] = []
    for i in range(len(x)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (y[b] - y[a]) * (x[i] - x[b]) < (y[i] - y[b]) * (x[b] - x[a]):
                break
            hull.pop()
        hull.append(i)
    return hull
