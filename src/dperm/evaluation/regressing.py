"""What is summed to judge a regression: moments of the target and of the error, all within the declared range."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.design import STEP, Design, Histogram, Part
from dperm.evaluation.estimates import Constraints
from dperm.evaluation.owners import WHOLE, Integers, Owners
from dperm.neighbours import Neighbours

Vector = NDArray[np.float64]

MOMENTS, ROWS = "moments", "rows"
FINE = 2.0**-40
"""To which the numbers of a row are rounded, before those of a person are to steps."""
# Powers of the target t, from -1 to 1, and of the error e, from -1 to 1. The last of each only serve the intervals.
WEIGHTS = {
    "t": 0.5,
    "t2": 0.75,
    "t3": 0.25,
    "t4": 0.25,
    "|e|": 1.0,
    "e2": 1.5,
    "e4": 0.5,
    "e2 t": 0.25,
    "e2 t2": 0.25,
}


@dataclass(frozen=True)
class Moments:
    """Sums of powers of t and e over the rows; weights are as above, and the theorem rests on them."""

    name: str = MOMENTS
    unit: float = STEP

    @property
    def size(self) -> int:
        return len(WEIGHTS)

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
                squares[name] for name in ("|e|", "e2", "e4", "e2 t", "e2 t2")
            )
        else:
            exact = math.fsum(squares.values())
        return float((math.sqrt(exact) + (STEP + FINE) * math.hypot(*WEIGHTS.values())) ** 2)

    def count(self, t: Vector, e: Vector, owners: Owners) -> Integers:
        size = np.abs(e)
        square = size**2
        columns = (t, t**2, t**3, t**4, size, square, square**2, square * t, square * t**2)
        return np.array([_nearest(owners.sums(_fine(column))).sum() for column in columns])


def regression_design(neighbours: Neighbours) -> Design:
    """The moments, and the number of rows where it is private."""
    counted: tuple[Part, ...] = (Histogram(ROWS, 1),) if neighbours is Neighbours.ADD_REMOVE else ()
    return Design((*counted, Moments()))


def regression_counts(
    design: Design,
    predicted: Vector,
    targets: Vector,
    y_range: tuple[float, float],
    error_bound: float | None = None,
    owners: Owners | None = None,
) -> dict[str, Integers]:
    """Targets and predictions are cut off at the ends of the range first, whatever the rows hold; then errors are.

    Without ``owners`` each row is on its own.
    """
    owners = Owners.of_rows(len(targets)) if owners is None else owners
    low, high = y_range
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    t, p = (_within((values - middle) / half) for values in (targets, predicted))
    longest = 1.0 if error_bound is None else error_bound / (2 * half)
    counts = {MOMENTS: Moments().count(t, _within((t - p) / 2 / longest), owners)}
    if design.has(ROWS):
        counts[ROWS] = owners.histogram(np.zeros(owners.n_rows, np.int64), 1)
    return counts


def no_constraints(design: Design) -> Constraints:
    return Constraints(np.zeros((0, design.size)), np.zeros(0))


def _within(values: Vector) -> Vector:
    return np.clip(np.nan_to_num(values), -1.0, 1.0)


def _fine(values: Vector) -> Integers:
    return np.rint(values / FINE).astype(np.int64)


def _nearest(sums: Integers) -> Integers:
    """In steps, from sums of numbers in units of ``FINE`` times parts of an owner: the nearest whole number."""
    per_step = round(STEP / FINE) * WHOLE
    return np.asarray((sums + per_step // 2) // per_step)
