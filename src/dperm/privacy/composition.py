r"""Compose independent privacy losses on a grid, by Fourier transforms whose error is bounded and charged.

A transform errs by about 1e-16 times the number of steps, everywhere alike, while a small delta is made of masses far
smaller than that. So the masses are weighted by :math:`e^{\theta\ell}` first, which brings those that matter to the
top, and the weights are taken off afterwards: the error is then relative to Chernoff's bound on delta and no longer
absolute. What is left of it is bounded in docs/proofs/accounting.md, section 5, and added.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]

U = 2.0**-53
# A transform of 2**m numbers errs by at most m times this, relative, in the root of the sum of squares.
FOURIER_LEVEL = 10 * U
LARGEST_TRANSFORM = 1 << 23
_TILTS = 2.0 ** (np.arange(-16, 42) / 2)
_NEGLIGIBLE = 30.0  # weighted tails below exp(-30) may lie outside the transform, and count on the safe side
_VANISHED = 80.0  # Fourier coefficients below exp(-80) are left out, and charged
_UNDERFLOW = 1e-30  # pays for those, and for masses below the smallest float
_USEFUL = (-600.0, 50.0)  # logarithms of Chernoff's bound between which a weighting is of use
_SMALL_ENOUGH = -100.0  # no smaller logarithm of delta is looked for
_BLOCK = 50.0  # so that exp(-loss) within a block is no small number
_COARSE = 2048


@dataclass(frozen=True, eq=False)
class StepLoss:
    """Masses of the losses ``(first + k) * interval``, and of an unbounded loss, of one release.

    They are at least as bad as the release once every loss is raised by ``slack``: the curve delta(epsilon) of these
    masses is nowhere, for epsilon of any sign, below that of the release.
    """

    interval: float
    first: int
    mass: FloatArray
    unbounded: float
    slack: float = 0.0

    @property
    def loss(self) -> FloatArray:
        return self.interval * (self.first + np.arange(self.mass.size, dtype=np.float64))

    @property
    def deviation(self) -> float:
        mean = float(self.mass @ self.loss)
        return math.sqrt(float(self.mass @ (self.loss - mean) ** 2))


@dataclass(frozen=True, eq=False)
class Composition:
    """Releases one after the other, each as often as stated; the worst of several orders of the neighbours.

    Guarantee
    ---------
    ``delta``, ``deltas`` and ``epsilon`` are upper bounds, all floating-point error included, for any number of
    releases; where nothing can be proved they are 1 and infinite.
    """

    orders: tuple[tuple[tuple[StepLoss, int], ...], ...]

    @cached_property
    def _sums(self) -> list["_Sum"]:
        return [_Sum(parts) for parts in self.orders]

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.max([one.deltas(epsilons) for one in self._sums], axis=0))

    def delta(self, epsilon: float) -> float:
        return float(self.deltas(np.array([epsilon]))[0])

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon found at ``delta``, at least 0; may be infinite."""
        return max(one.epsilon(delta) for one in self._sums)


class _Sum:
    """The sum of independent losses on one grid."""

    def __init__(self, parts: Sequence[tuple[StepLoss, int]]) -> None:
        (self.interval,) = {step.interval for step, _ in parts}
        self.parts = parts
        self.slack = math.fsum(count * step.slack for step, count in parts) * (1 + 4 * U)
        self.unbounded = _unbounded(parts)
        self._coarse = [(*_thinned(step), count) for step, count in parts] if self.unbounded < 1 else []
        # Steeper weights would change too much from one of the thinned losses to the next.
        width = self.interval * max(_thinning(step) for step, _ in parts)
        self._tilts = _TILTS[: max(1, int(np.searchsorted(_TILTS, 1 / width)))]
        self._moments = self._coarse_moments(self._tilts)
        self._found: dict[float, _Weighted | None] = {}

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        if self.unbounded >= 1:
            return np.ones(len(epsilons))
        inside = np.asarray(epsilons, np.float64) - self.slack * (1 + 4 * U) - 4 * U * np.abs(epsilons)
        every = 1 if len(epsilons) == 1 else 2  # a whole curve makes do with fewer transforms
        tilts, moments = np.append(0.0, self._tilts[::every]), np.append(0.0, self._moments[::every])
        logarithms = moments[:, None] - tilts[:, None] * inside
        best = tilts[np.argmin(np.maximum(logarithms, _SMALL_ENOUGH), axis=0)]
        found = np.ones_like(inside)
        for tilt in np.unique(best):
            here = best == tilt
            if (weighted := self._weighted(float(tilt))) is not None:
                found[here] = weighted.deltas(inside[here])
        return np.minimum(found + self.unbounded, 1.0)

    def epsilon(self, delta: float) -> float:
        left = (delta - self.unbounded) * (1 - 4 * U)
        if left <= 0:
            return math.inf
        best = np.argmin((self._moments - math.log(left)) / self._tilts)
        weighted = self._weighted(float(self._tilts[best]))
        if weighted is None:
            return math.inf
        return max(0.0, weighted.epsilon(left, -self.slack) * (1 + 4 * U) + self.slack)

    def _weighted(self, tilt: float) -> "_Weighted | None":
        if tilt not in self._found:
            low, high, beyond_tilt = self._window(tilt)
            size = 1 << max(4, math.ceil(math.log2(high - low + 2)))
            self._found[tilt] = (
                None if size > LARGEST_TRANSFORM else _Weighted(self.parts, tilt, low, size, beyond_tilt)
            )
        return self._found[tilt]

    def _coarse_moments(self, tilts: FloatArray) -> FloatArray:
        """About log E exp(tilt * loss)."""
        total = np.zeros(tilts.size)
        for loss, mass, count in self._coarse:
            exponent = tilts[:, None] * loss
            top = exponent.max(axis=1, keepdims=True)
            total += count * (top[:, 0] + np.log(np.exp(exponent - top) @ mass))
        return total

    def _window(self, tilt: float) -> tuple[int, int, float]:
        """Places between which nearly all weighted mass lies, and the tilt whose Chernoff bound says so above."""
        here = self._coarse_moments(np.array([tilt]))
        above = (self._coarse_moments(tilt + self._tilts) - here + _NEGLIGIBLE) / self._tilts
        below = (here - self._coarse_moments(tilt - self._tilts) - _NEGLIGIBLE) / self._tilts
        high, low, beyond_tilt = above.min(), below.max(), tilt + float(self._tilts[above.argmin()])
        last = sum(count * (step.first + step.mass.size - 1) for step, count in self.parts)
        first = sum(count * step.first for step, count in self.parts)
        bottom = max(math.floor(low / self.interval), first)
        return bottom, max(min(math.ceil(high / self.interval), last), bottom), beyond_tilt


class _Weighted:
    """The composed masses by way of one weighting, and the curve that they and their allowance give."""

    def __init__(
        self, parts: Sequence[tuple[StepLoss, int]], tilt: float, low: int, size: int, beyond_tilt: float
    ) -> None:
        self.tilt, self.interval = tilt, parts[0][0].interval
        steps = [step for step, _ in parts]
        counts = [count for _, count in parts]
        logs = [_log_moment(step, tilt) for step in steps]
        self.log_moment = math.fsum(count * log for count, log in zip(counts, logs, strict=True))
        weighted = [_wrapped(step, tilt, log, size) for step, log in zip(steps, logs, strict=True)]
        masses, self.error = _convolved(weighted, counts)
        # What rounding may have taken from the masses, step by step.
        roundings = [_roundings(step, tilt, log, size) for step, log in zip(steps, logs, strict=True)]
        self.inflation = math.exp(
            2 * math.fsum(count * part for count, part in zip(counts, roundings, strict=True))
        )

        losses = self.interval * (low + np.arange(size, dtype=np.float64))
        bound = self.log_moment - tilt * losses
        useful = np.flatnonzero((bound >= _USEFUL[0]) & (bound <= _USEFUL[1]))
        last = sum(count * (step.first + step.mass.size - 1) for step, count in parts)
        self.beyond = (
            _chernoff(parts, beyond_tilt, self.interval * (low + size)) if low + size <= last else 0.0
        )
        if useful.size and useful[-1] < size - 1:
            cut = losses[useful[-1]]
            self.beyond += math.exp(min(self.log_moment - tilt * cut, 700.0)) * self.inflation * (1 + 1e-9)
        self.losses = losses[useful]
        placed = np.roll(masses, -(low % size))[useful]
        self.curve = _curve(np.maximum(placed, 0.0) * np.exp(bound[useful]), self.interval)
        largest = math.fsum(count * abs(log) for count, log in zip(counts, logs, strict=True))
        largest += tilt * float(np.abs(losses).max())
        self.rounding = 8 * U * (size + largest)

    def deltas(self, epsilons: FloatArray) -> FloatArray:
        """The bound at each epsilon; 1 below what this weighting can see."""
        found = np.ones(len(epsilons))
        if not self.losses.size:
            return found
        seen = epsilons >= self.losses[0]
        found[seen] = self._bound(epsilons[seen])
        return np.minimum(found, 1.0)

    def epsilon(self, delta: float, lowest: float) -> float:
        """Smallest epsilon from ``lowest`` up at which the bound is at most ``delta``."""

        def holds(epsilon: float) -> bool:
            return bool(self._bound(np.array([epsilon]))[0] <= delta)

        if not self.losses.size or not holds(float(self.losses[-1])):
            return math.inf
        place = bisect_left(range(self.losses.size - 1), True, key=lambda i: holds(float(self.losses[i])))
        high = max(float(self.losses[place]), lowest)
        low = max(float(self.losses[max(place - 1, 0)]), lowest)
        if holds(low):
            return low
        while high - low > 1e-12 * abs(high) + 1e-9 * self.interval:
            middle = (low + high) / 2
            low, high = (low, middle) if holds(middle) else (middle, high)
        return high

    def _bound(self, epsilons: FloatArray) -> FloatArray:
        place = np.clip(
            ((epsilons - self.losses[0]) / self.interval).astype(np.int64), 0, self.losses.size - 1
        )
        place -= self.losses[place] > epsilons  # a division may round up
        after = np.minimum(place + 1, self.losses.size - 1)
        # Between two losses the curve is a straight line in exp(epsilon).
        share = np.expm1(np.minimum(epsilons - self.losses[after], 0.0)) / math.expm1(-self.interval)
        share = np.clip(share, 0.0, 1.0)
        curve = share * self.curve[place] + (1 - share) * self.curve[after]
        composed = (curve + self.allowance(epsilons)) * (1 + self.rounding) + self.beyond
        return np.asarray(
            self.inflation * np.minimum(composed, self._chernoff(epsilons) * (1 + self.rounding))
        )

    def allowance(self, epsilons: FloatArray) -> FloatArray:
        """What the error of the transforms may have taken from delta (docs/proofs/accounting.md, section 5)."""
        double = 2 * self.tilt
        spread = float(self.losses.size)
        if double > 0:
            integral = 2 / (double * (double + 1) * (double + 2)) / self.interval
            spread = min(spread, integral + (1 + self.tilt) ** -2)
        return np.asarray(self.error * math.sqrt(spread) * self._chernoff(epsilons))

    def _chernoff(self, epsilons: FloatArray) -> FloatArray:
        return np.asarray(np.exp(np.minimum(self.log_moment - self.tilt * epsilons, 700.0)))


def _unbounded(parts: Sequence[tuple[StepLoss, int]]) -> float:
    """Mass of an unbounded sum; masses may sum to slightly more than 1."""
    stays, whole = 0.0, 0.0
    for step, count in parts:
        total = (float(step.mass.sum()) + step.unbounded) * (1 + step.mass.size * U)
        if step.unbounded >= total:
            return 1.0
        stays += count * math.log1p(-step.unbounded / total)
        whole += count * math.log(max(total, 1.0))
    return min(-math.expm1(stays) * math.exp(min(whole, 700.0)) * (1 + 1e-12), 1.0)


def _thinning(step: StepLoss) -> int:
    return -(-step.mass.size // _COARSE)


def _thinned(step: StepLoss) -> tuple[FloatArray, FloatArray]:
    """A few thousand losses with the masses of all: they choose where to look and prove nothing."""
    starts = np.arange(0, step.mass.size, _thinning(step))
    mass = np.add.reduceat(step.mass, starts)
    there = mass > 0
    return np.add.reduceat(step.mass * step.loss, starts)[there] / mass[there], mass[there]


def _log_moment(step: StepLoss, tilt: float) -> float:
    there = step.mass > 0
    exponent = tilt * step.loss[there]
    top = float(exponent.max())
    return top + math.log(float(step.mass[there] @ np.exp(exponent - top)))


def _wrapped(step: StepLoss, tilt: float, log_moment: float, size: int) -> FloatArray:
    """Masses times exp(tilt * loss) over their sum, on a circle of ``size`` places."""
    there = np.flatnonzero(step.mass)
    weighted = step.mass[there] * np.exp(tilt * step.loss[there] - log_moment)
    return np.asarray(np.bincount((step.first + there) % size, weighted, size), np.float64)


def _roundings(step: StepLoss, tilt: float, log_moment: float, size: int) -> float:
    """Relative error of a number from ``_wrapped``, at most."""
    reach = tilt * step.interval * max(abs(step.first), abs(step.first + step.mass.size))
    return U * (8 + 4 * (reach + abs(log_moment)) + step.mass.size / size)


def _chernoff(parts: Sequence[tuple[StepLoss, int]], tilt: float, loss: float) -> float:
    """Bound on the mass of sums of at least ``loss``."""
    exponent = -tilt * loss
    for step, count in parts:
        log_moment = _log_moment(step, tilt)
        exponent += count * (log_moment + 2 * _roundings(step, tilt, log_moment, 1))
    return math.exp(min(exponent + 1e-6, 700.0))


def _convolved(weighted: list[FloatArray], counts: list[int]) -> tuple[FloatArray, float]:
    """The circular convolution of all, each as often as stated, and a bound on the root of its squared errors."""
    size = weighted[0].size
    level = FOURIER_LEVEL * math.log2(size)
    transforms = [np.fft.rfft(one) for one in weighted]
    with np.errstate(divide="ignore"):
        sizes = [np.log(np.abs(transform)) for transform in transforms]
    logarithm = sum(count * one for count, one in zip(counts, sizes, strict=True))
    kept = np.flatnonzero(logarithm > -_VANISHED)
    product = np.zeros_like(transforms[0])
    product[kept] = 1.0
    for transform, count in zip(transforms, counts, strict=True):
        product[kept] *= _power(transform[kept], count)
    masses = np.fft.irfft(product, size)

    products = sum(counts) + len(counts)
    growth = sum(
        count * max(math.log(max(float(one.sum()), 1.0)), float(logs.max()), 0.0)
        for count, one, logs in zip(counts, weighted, sizes, strict=True)
    )
    forward = level * sum(count * _root_of_squares(one) for count, one in zip(counts, weighted, strict=True))
    backward = (level + 4 * U * products) * _root_of_squares(masses)
    return masses, (math.exp(min(growth, 700.0)) * forward + backward) * (1 + 1e-6) + _UNDERFLOW


def _root_of_squares(values: FloatArray) -> float:
    return math.sqrt(float(values @ values))


def _power(base: NDArray[np.complex128], exponent: int) -> NDArray[np.complex128]:
    """By squaring, so that the error is that of ``exponent`` multiplications at most."""
    power = np.ones_like(base)
    while True:
        if exponent & 1:
            power = power * base
        exponent >>= 1
        if not exponent:
            return power
        base = base * base


def _curve(mass: FloatArray, interval: float) -> FloatArray:
    """Delta at every loss: sums of positive numbers only, so that nothing cancels."""
    above = np.empty_like(mass)  # at every place, the sum over later ones of mass * exp(-distance)
    block = max(1, int(_BLOCK / interval))
    carried = 0.0  # the same at the end of a block, counting the mass there too
    for stop in range(mass.size, 0, -block):
        start = max(stop - block, 0)
        decay = np.exp(-interval * np.arange(stop - start + 1))
        later = np.append(mass[start + 1 : stop] * decay[1:-1], carried * decay[-1])
        sums = np.cumsum(later[::-1])[::-1]
        above[start:stop] = sums / decay[:-1]
        carried = float(mass[start] + sums[0])
    return np.asarray(math.expm1(interval) * np.cumsum(above[::-1])[::-1])
