"""What is summed to judge a regression: moments of the target and of the error, all within the declared range."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dperm.counting.design import STEP, WHOLE, Design, Histogram, Integers, Owners, Part
from dperm.counting.estimates import CountEstimates, no_constraints
from dperm.unit import Neighbours

Vector = NDArray[np.float64]

MOMENTS, ROWS = "moments", "rows"
FINE = 2.0**-40
"""To which the numbers of a row are rounded, before those of a person are to steps."""
# Powers of the target t and of the error e, both from -1 to 1; size is |e|. The last of each only serve the intervals.
WEIGHTS = {
    "t": 0.5,
    "t2": 0.75,
    "t3": 0.25,
    "t4": 0.25,
    "size": 1.0,
    "e2": 1.5,
    "e4": 0.5,
    "e2t": 0.25,
    "e2t2": 0.25,
}

# What fourth moments of errors are taken to be, at least, where noise drowns them: as of Gaussian ones.
ERROR_KURTOSIS = 3.0


class Moments(Part):
    """Sums of powers of t and e over the rows; weights are as above, and the theorem rests on them."""

    name = MOMENTS

    @property
    def weights(self) -> Vector:
        return np.array(list(WEIGHTS.values()))

    def squared_gap(self, neighbours: Neighbours) -> float:
        """Attained by t = e = 1 against t = -1, e = 0, or against nothing (docs/proofs/evaluation.md).

        Rounding moves the numbers of each row, or person, by half a step and half of ``FINE`` at most.
        """
        squares = {name: weight**2 for name, weight in WEIGHTS.items()}
        if neighbours is Neighbours.REPLACE_ONE:
            exact = 4 * (squares["t"] + squares["t3"]) + math.fsum(
                squares[name] for name in ("size", "e2", "e4", "e2t", "e2t2")
            )
        else:
            exact = math.fsum(squares.values())
        return float((math.sqrt(exact) + (STEP + FINE) * math.hypot(*WEIGHTS.values())) ** 2)

    def count(self, t: Vector, e: Vector, owners: Owners) -> Integers:
        size = np.abs(e)
        square = size**2
        columns = (t, t**2, t**3, t**4, size, square, square**2, square * t, square * t**2)
        whole = (np.rint(column / FINE).astype(np.int64) for column in columns)
        return np.array([_nearest(owners.sums(column)).sum() for column in whole])


@dataclass(frozen=True, eq=False)
class MomentEstimates:
    """The estimated sums by name, and the number of rows, public or estimated.

    The range of the target has this ``length``, and errors were cut off at ``longest``, in units of the target.
    """

    counts: CountEstimates
    n_rows: int | None
    length: float
    longest: float

    @property
    def n(self) -> float:
        return float(self.n_rows) if self.n_rows is not None else float(self.counts.part(ROWS)[0])

    def vector(self, **terms: float) -> Vector:
        """A combination of sums; ``n`` is the number of rows, which has no noise where it is public."""
        vector = np.zeros(self.counts.design.size)
        first = self.counts.design.place(MOMENTS).start
        for name, factor in terms.items():
            if name != "n":
                vector[first + list(WEIGHTS).index(name)] = factor
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
        value = self.value(**terms)
        return (value * prior**2 + prior * noise) / (prior**2 + noise) if noise else value

    def believed(self, prior: float, towards: float, **terms: float) -> float:
        """A sum with half a deviation of its noise, up or down, unless less is likely: tails may be heavy."""
        moved = towards / 2 * math.sqrt(float(self.noise(self.vector(**terms))[0, 0]))
        return max(0.0, self.value(**terms) + moved, self.likely(prior, **terms))

    @cached_property
    def squares(self) -> float:
        """The sum of the squared errors."""
        return max(self.value(e2=1.0), 0.0)

    @cached_property
    def fourth(self) -> float:
        """The sum of the fourth powers of the errors."""
        likely = ERROR_KURTOSIS * (self.squares / self.n) ** 2 * self.n
        return min(self.believed(likely, 1.0, e4=1.0), self.squares)


@dataclass(frozen=True, eq=False)
class PredictedTargets:
    """What is known of every row of a regression."""

    predicted: Vector
    targets: Vector


@dataclass(frozen=True, eq=False)
class Regression:
    """The one vector of sums from which a regression is judged.

    Errors above ``error_bound`` count as this one; by default the length of the range bounds them.
    """

    y_range: tuple[float, float]
    error_bound: float | None
    neighbours: Neighbours

    @cached_property
    def design(self) -> Design:
        """The moments, and the number of rows where it is private."""
        hidden = self.neighbours is Neighbours.ADD_REMOVE
        counted: tuple[Part, ...] = (Histogram(ROWS, 1),) if hidden else ()
        return Design((*counted, Moments()))

    def counts(self, rows: PredictedTargets, owners: Owners | None = None) -> dict[str, Integers]:
        """Targets and predictions are cut off at the ends of the range first, whatever the rows hold; then errors are.

        Without ``owners`` each row is on its own.
        """
        owners = Owners.of_rows(len(rows.targets)) if owners is None else owners
        low, high = self.y_range
        middle, half = low / 2 + high / 2, high / 2 - low / 2
        t, p = (_within((values - middle) / half) for values in (rows.targets, rows.predicted))
        longest = 1.0 if self.error_bound is None else self.error_bound / (2 * half)
        counts = {MOMENTS: Moments().count(t, _within((t - p) / 2 / longest), owners)}
        if self.design.has(ROWS):
            counts[ROWS] = owners.histogram(np.zeros(owners.n_rows, np.int64), 1)
        return counts

    def estimates(self, released: Vector, noise_scale: float, n_rows: int | None) -> MomentEstimates:
        """``n_rows`` is None where it is private."""
        counts = CountEstimates.of(self.design, released, noise_scale, no_constraints(self.design))
        length = self.y_range[1] - self.y_range[0]
        return MomentEstimates(
            counts, n_rows, length, length if self.error_bound is None else self.error_bound
        )


def _within(values: Vector) -> Vector:
    return np.clip(np.nan_to_num(values), -1.0, 1.0)


def _nearest(sums: Integers) -> Integers:
    """In steps, from sums of numbers in units of ``FINE`` times parts of an owner: the nearest whole number."""
    per_step = round(STEP / FINE) * WHOLE
    return np.asarray((sums + per_step // 2) // per_step, np.int64)
