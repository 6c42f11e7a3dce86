"""What is summed to average predictions by group: three numbers of each, and how far one row moves them.

A prediction is taken in units of half its range, around the middle: t from -1 to 1. Its group counts the row, adds t,
and adds 1 - t**2, which tells the spread and costs nothing: it is 0 where t is largest (docs/proofs/means.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.design import STEP, Design, Integers
from dperm.neighbours import Neighbours

Vector = NDArray[np.float64]

GROUPS = "groups"
SUMS = ("rows", "t", "1 - t2")
WHOLE = round(1 / STEP)


@dataclass(frozen=True)
class Groups:
    """For each group the number of its rows, the sum of t, and the sum of 1 - t**2; every row is in one group."""

    n_groups: int
    name: str = GROUPS
    unit: float = STEP

    @property
    def size(self) -> int:
        return len(SUMS) * self.n_groups

    @property
    def weights(self) -> Vector:
        return np.ones(self.size)

    def squared_gap(self, neighbours: Neighbours) -> float:
        """2 for each row that changes, whether both are in one group or not; rounding is inside of it."""
        return 2.0 * neighbours.rows_changed

    def count(self, places: Integers, t: Vector) -> Integers:
        """Sums in steps. The last is rounded down row by row, after t was rounded, so that no row is any longer."""
        steps = np.rint(np.clip(np.nan_to_num(t), -1.0, 1.0) * WHOLE).astype(np.int64)
        columns = np.full(len(steps), WHOLE, np.int64), steps, (WHOLE**2 - steps**2) // WHOLE
        sums = np.zeros((self.n_groups, len(SUMS)), np.int64)
        for k, column in enumerate(columns):
            np.add.at(sums[:, k], places, column)
        return sums.ravel()


def means_design(n_groups: int) -> Design:
    return Design((Groups(n_groups),))
