"""Figures of a regression from the estimated sums: R squared, RMSE and MAE. Nothing here sees a row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.estimates import Estimates
from dperm.evaluation.intervals import UNKNOWN, Figure, Variance, ratio
from dperm.evaluation.regressing import MOMENTS, ROWS, WEIGHTS

Vector = NDArray[np.float64]

# What fourth moments are taken to be, at least, where noise drowns them: as of Gaussian errors and of light tails.
ERROR_KURTOSIS, TARGET_KURTOSIS = 3.0, 2.4
WIDEST = 2.0


@dataclass(frozen=True, eq=False)
class Sums:
    """The sums by name, and the number of rows, public or estimated."""

    counts: Estimates
    n_rows: int | None

    @property
    def n(self) -> float:
        return float(self.n_rows) if self.n_rows is not None else float(self.counts.part(ROWS)[0])

    def vector(self, **terms: float) -> Vector:
        """A combination of sums; ``n`` is the number of rows, which has no noise where it is public."""
        vector = np.zeros(self.counts.design.size)
        first = self.counts.design.place(MOMENTS).start
        for name, factor in terms.items():
            if name != "n":
                vector[first + list(WEIGHTS).index(_KEYS[name])] = factor
            elif self.n_rows is None:
                vector[self.counts.design.place(ROWS)] = factor
        return vector

    def value(self, **terms: float) -> float:
        fixed = terms.get("n", 0.0) * self.n if self.n_rows is not None else 0.0
        return float(self.vector(**terms) @ self.counts.mean) + fixed

    def noise(self, *vectors: Vector) -> Vector:
        return self.counts.covariance(np.stack(vectors))

    def likely(self, prior: float, **terms: float) -> float:
        """A sum, drawn towards what is likely as far as its noise is larger than that is unsure (by all of it)."""
        noise = float(self.noise(self.vector(**terms))[0, 0])
        return (
            (self.value(**terms) * prior**2 + prior * noise) / (prior**2 + noise)
            if noise
            else self.value(**terms)
        )

    def believed(self, prior: float, towards: float, **terms: float) -> float:
        """A sum with half a deviation of its noise, up or down, unless less is likely: tails may be heavy."""
        moved = towards / 2 * math.sqrt(float(self.noise(self.vector(**terms))[0, 0]))
        return max(0.0, self.value(**terms) + moved, self.likely(prior, **terms))


_KEYS = {
    "t": "t",
    "t2": "t2",
    "t3": "t3",
    "t4": "t4",
    "size": "|e|",
    "e2": "e2",
    "e4": "e4",
    "e2t": "e2 t",
    "e2t2": "e2 t2",
}


def regression_figures(
    counts: Estimates, n_rows: int | None, length: float, error_bound: float | None = None
) -> dict[str, Figure]:
    """Errors in the units of the target, whose range has this ``length``; they were cut off at ``error_bound``."""
    longest = length if error_bound is None else error_bound
    sums = Sums(counts, n_rows)
    if sums.n <= 0:
        return dict.fromkeys(("r2", "rmse", "mae"), UNKNOWN)
    squares = max(sums.value(e2=1.0), 0.0)
    mean_square = squares / sums.n
    fourth = min(sums.believed(ERROR_KURTOSIS * mean_square**2 * sums.n, 1.0, e4=1.0), squares)
    square = _mean(sums, sums.vector(e2=1.0), fourth)
    size = _mean(sums, sums.vector(size=1.0), squares)
    return {
        "r2": _r2(sums, mean_square, fourth, (2 * longest / length) ** 2),
        "rmse": _root(square, longest),
        "mae": size.times(longest),
    }


def _mean(sums: Sums, vector: Vector, squares: float) -> Figure:
    """Of numbers that are not negative; ``squares`` is the sum of their squares, which is taken to grow with the mean.

    So it does where a few large numbers make most of both, and the interval then reaches further up than down.
    """
    total = float(vector @ sums.counts.mean)
    noise = sums.noise(vector, sums.vector(n=1.0))
    if total <= 0:
        return UNKNOWN
    variance = Variance(float(noise[0, 0]), float(noise[0, 1]), float(noise[1, 1]))
    spread = max(squares, total**2 / sums.n) * sums.n / total
    return ratio(total, sums.n, variance, Variance(0.0, -spread / 2, -sums.n))


def _r2(sums: Sums, mean_square: float, fourth: float, unit: float) -> Figure:
    """1 - errors / spread, both sums of squares; the spread is around the mean, whose noise is taken off.

    ``unit`` is the square of an error of 1 in units of the target.
    """
    centre = sums.value(t=1.0) / sums.n
    about = sums.vector(t=1.0, n=-centre)
    bias = float(sums.noise(about)[0, 0]) / sums.n
    errors, spread = sums.vector(e2=unit), sums.vector(t2=1.0, t=-2 * centre, n=centre**2)
    top, bottom = sums.value(e2=unit), sums.value(t2=1.0, t=-2 * centre, n=centre**2) + bias
    if top <= 0 or bottom <= 0:
        return UNKNOWN
    noise = sums.noise(errors, spread)
    variance = Variance(float(noise[0, 0]), float(noise[0, 1]), float(noise[1, 1]) + 2 * bias**2)
    found = ratio(
        top,
        bottom,
        variance,
        _sampling(sums, centre, bottom / sums.n, mean_square, fourth, unit),
        (0.0, math.inf),
    )
    if found.estimate is None or found.low is None or found.high is None or found.high - found.low > WIDEST:
        return UNKNOWN
    return Figure(estimate=1 - found.estimate, low=1 - found.high, high=1 - found.low, noise=found.noise)


def _sampling(
    sums: Sums, centre: float, spread: float, mean_square: float, fourth: float, unit: float
) -> Variance:
    """Sums of squares and products of the errors' and the targets' squares."""
    likely = sums.n * mean_square * (spread + 2 * unit * mean_square)
    both = sums.believed(likely, -1.0, e2t2=1.0, e2t=-2 * centre, e2=centre**2)
    targets = sums.believed(
        TARGET_KURTOSIS * spread**2 * sums.n,
        1.0,
        t4=1.0,
        t3=-4 * centre,
        t2=6 * centre**2,
        t=-4 * centre**3,
        n=centre**4,
    )
    top = unit**2 * fourth
    return Variance(top, min(unit * both, math.sqrt(top * targets)), targets)


def _root(square: Figure, length: float) -> Figure:
    """The root of a mean square, in units of the target."""
    if square.estimate is None or square.low is None or square.high is None or square.noise is None:
        return UNKNOWN
    if square.estimate <= 0:
        return UNKNOWN
    root = math.sqrt(square.estimate)
    noise = length * square.noise / (2 * root)
    return Figure(
        estimate=length * root,
        low=length * math.sqrt(square.low),
        high=length * math.sqrt(square.high),
        noise=noise,
    )
