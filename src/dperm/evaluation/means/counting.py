"""What is summed to average predictions by group: three numbers of each, and how far one row moves them.

A prediction is taken in units of half its range, around the middle: t from -1 to 1. Its group counts the row, adds t,
and adds 1 - t**2, which tells the spread and costs nothing: it is 0 where t is largest (docs/proofs/means.md). Of a
person each row adds its part of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.design import STEP, Design
from dperm.evaluation.owners import WHOLE, Integers, Owners
from dperm.neighbours import Neighbours

Vector = NDArray[np.float64]

GROUPS = "groups"
SUMS = ("rows", "t", "1 - t2")


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

    def count(self, places: Integers, t: Vector, owners: Owners | None = None) -> Integers:
        """Sums in steps; without ``owners`` each row is on its own.

        What an owner adds to a group is rounded towards 0, so that it is a mean of what rows with other predictions
        would add.
        """
        owners = Owners.of_rows(len(places)) if owners is None else owners
        steps = np.rint(np.clip(np.nan_to_num(t), -1.0, 1.0) * WHOLE).astype(np.int64)
        pairs, pair = np.unique(owners.of * self.n_groups + places, return_inverse=True)
        sums = np.zeros((len(pairs), len(SUMS)), np.int64)
        np.add.at(sums, pair.reshape(-1), (_columns(steps).T * owners.parts).T)
        sums = np.sign(sums) * (np.abs(sums) // np.array([1, WHOLE, WHOLE**2]))
        found = np.zeros((self.n_groups, len(SUMS)), np.int64)
        np.add.at(found, pairs % self.n_groups, sums)
        return found.ravel()


def means_design(n_groups: int) -> Design:
    return Design((Groups(n_groups),))


def _columns(steps: Integers) -> Integers:
    """1, t and 1 - t**2 of each row, in units that make them whole."""
    return np.stack([np.ones_like(steps), steps, WHOLE**2 - steps**2], axis=1)
