"""Groups that are declared before a row is read, what is summed of each, and the means that follow.

No value of a row ever makes a group, and none is quoted. A prediction is taken in units of half its range, around the
middle: t from -1 to 1. Its group counts the row, adds t, and adds 1 - t**2, which tells the spread and costs nothing:
it is 0 where t is largest (docs/proofs/means.md). Of a person each row adds its part of them.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dperm.counting.design import WHOLE, Design, Integers, Owners, Part
from dperm.counting.estimates import (
    UNKNOWN,
    Constraints,
    CountEstimates,
    Estimate,
    Variance,
    Z,
    no_constraints,
    ratio,
)
from dperm.errors import InvalidInput
from dperm.estimators.rows import made
from dperm.schema.columns import arrow_columns, as_codes, declared_kind, kind_of
from dperm.schema.values import LARGEST_INTEGER, Category
from dperm.unit import Neighbours

Vector = NDArray[np.float64]

MOST_GROUPS = 4096
ALL = "all"
SUMMED = "groups"
SUMS = ("rows", "t", "1 - t2")
ENDS = (-1.0, 1.0)


@dataclass(frozen=True)
class DeclaredGroups:
    """The values that a group may have, in their order; ``other`` names a last group of all rows with another value."""

    name: str
    values: tuple[Category, ...]
    other: str | None = None

    @property
    def labels(self) -> tuple[Category, ...]:
        return self.values if self.other is None else (*self.values, self.other)

    @property
    def n_cells(self) -> int:
        """One where nothing is declared: that of all rows."""
        return max(1, len(self.labels))

    def places(self, X: Any, by: Any, n_rows: int) -> Integers:
        """The group of each row. Whatever was wrong, no message quotes the value of a row."""
        if not self.values:
            return np.zeros(n_rows, np.int64)
        column = arrow_columns(*_column(X, by, self.name))[self.name]
        if len(column) != n_rows:
            raise InvalidInput("by must hold one value for every row of X.")
        wanted, held = declared_kind(self.values), kind_of(column)
        if held not in (None, wanted):
            raise InvalidInput(f"values are {wanted}, and by holds {held}; convert one of them.")
        places = as_codes(self.name, column, self.values)
        unknown = places < 0
        if unknown.any() and self.other is None:
            raise InvalidInput(
                "there are rows whose group is missing or not among the declared values; declare every value that may "
                "occur, or name the rest with other."
            )
        return np.where(unknown, len(self.values), places).astype(np.int64)


def declared_groups(by: Any, values: Any, other: Any) -> DeclaredGroups:
    if by is None:
        if values is not None or other is not None:
            raise InvalidInput(
                "values and other say which groups there are; give by too, the group of each row."
            )
        return DeclaredGroups(ALL, ())
    name = by if isinstance(by, str) else getattr(by, "name", None)
    return DeclaredGroups(name if isinstance(name, str) and name else "group", *_checked(values, other))


def _checked(values: Any, other: Any) -> tuple[tuple[Category, ...], str | None]:
    if (
        values is None
        or isinstance(values, str | bytes | Mapping)
        or not isinstance(values, Sequence | np.ndarray)
    ):
        raise InvalidInput(
            f"values must list the values of by that make a group; got {reprlib.repr(values)}. They are declared, not "
            "taken from rows: that a value occurs would tell about the row that has it."
        )
    known = [value.item() if isinstance(value, np.generic) else value for value in values]
    if {type(value) for value in known} not in ({str}, {int}, {bool}) or len(known) > MOST_GROUPS:
        raise InvalidInput(
            f"values must be from 1 to {MOST_GROUPS} of one kind: text, integers or truth values; got "
            f"{reprlib.repr(known)}."
        )
    if len(set(known)) < len(known):
        raise InvalidInput(f"values must not repeat a value; got {reprlib.repr(known)}.")
    if any(isinstance(value, int) and abs(value) > LARGEST_INTEGER for value in known):
        raise InvalidInput("values must hold integers of at most 2**53 - 1 in size.")
    if other is not None and (not isinstance(other, str) or not other or other in known):
        raise InvalidInput(f"other must be a text that is not among values; got {reprlib.repr(other)}.")
    return tuple(known), other


def _column(X: Any, by: Any, name: str) -> tuple[Any, list[str]]:
    """A table that has the column, and its name there."""
    if not isinstance(by, str):
        return {name: made(by)}, [name]
    held = getattr(X, "column_names", None)  # of Arrow, whose columns are no names
    known = list(X if isinstance(X, Mapping) else getattr(X, "columns", ()) if held is None else held)
    if known.count(by) != 1:
        raise InvalidInput(
            f"by names the column {by!r}, so X must be a table with one column of this name; or give one value for "
            "every row."
        )
    return X, [by]


@dataclass(frozen=True)
class GroupSums(Part):
    """For each group the number of its rows, the sum of t, and the sum of 1 - t**2; every row is in one group."""

    n_groups: int
    name = SUMMED

    @property
    def weights(self) -> Vector:
        return np.ones(len(SUMS) * self.n_groups)

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
    return Design((GroupSums(n_groups),))


def _columns(steps: Integers) -> Integers:
    """1, t and 1 - t**2 of each row, in units that make them whole."""
    return np.stack([np.ones_like(steps), steps, WHOLE**2 - steps**2], axis=1)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean prediction of one group.

    ``mean`` is that of the population from which the rows came, ``here`` that of these very rows, whose interval knows
    the noise alone; both have the same estimate. ``rows`` is the number of rows.
    """

    mean: Estimate
    here: Estimate
    rows: Estimate


def means(released: Vector, noise_scale: float, n_rows: int | None, ends: tuple[float, float]) -> list[Mean]:
    """One for each group, and at last that of all rows. ``n_rows`` is None where it is private."""
    n_groups = len(released) // len(SUMS)
    design = means_design(n_groups)
    known = no_constraints(design)
    if n_rows is not None:
        known = Constraints(np.tile(np.eye(len(SUMS))[0], n_groups)[None], np.array([float(n_rows)]))
    sums = CountEstimates.of(design, released, noise_scale, known)
    members = [*np.eye(n_groups), np.ones(n_groups)]
    found = [_mean(sums, one, ends) for one in members]
    if n_rows is not None:
        found[-1] = replace(found[-1], rows=_rows(float(n_rows), 0.0))
    return found


def _mean(sums: CountEstimates, members: Vector, ends: tuple[float, float]) -> Mean:
    """Of the groups that ``members`` marks."""
    vectors = sums.among(SUMMED, np.stack([np.kron(members, axis) for axis in np.eye(len(SUMS))]))
    n, t, rest = (float(value) for value in vectors @ sums.mean)
    noise = sums.covariance(vectors[:2])
    rows = _rows(n, math.sqrt(noise[0, 0]))
    if n <= 0:
        return Mean(mean=UNKNOWN, here=UNKNOWN, rows=rows)
    drawn = Variance(float(noise[1, 1]), float(noise[0, 1]), float(noise[0, 0]))
    squares = min(max(n - rest, t**2 / n), n)
    mean = ratio(t, n, drawn, Variance(squares, t, n), ENDS)
    here = ratio(t, n, drawn, Variance(), ENDS)
    if not mean.known or not here.known:
        mean = here = UNKNOWN
    return Mean(mean=_between(mean, ends), here=_between(here, ends), rows=rows)


def _rows(n: float, deviation: float) -> Estimate:
    reach, estimate = Z * deviation, max(0.0, n)
    return Estimate(estimate=estimate, low=max(0.0, n - reach), high=max(estimate, n + reach), noise=reach)


def _between(estimate: Estimate, ends: tuple[float, float]) -> Estimate:
    """From t back to the units of the predictions."""
    low, high = ends
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    return estimate.moved(
        lambda value: min(max(middle + half * value, low), high), half * (estimate.noise or 0.0)
    )
