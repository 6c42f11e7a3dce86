"""Means by group from the released sums, each with an interval for the population and one for these very rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dperm.evaluation.estimates import Constraints, Estimates
from dperm.evaluation.intervals import UNKNOWN, Figure, Variance, Z, ratio
from dperm.evaluation.means.counting import GROUPS, SUMS, means_design

Vector = NDArray[np.float64]

ENDS = (-1.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Mean:
    """The mean prediction of one group.

    ``mean`` is that of the population from which the rows came, ``here`` that of these very rows, whose interval knows
    the noise alone; both have the same estimate. ``rows`` is the number of rows.
    """

    mean: Figure
    here: Figure
    rows: Figure


def means(released: Vector, noise_scale: float, n_rows: int | None, ends: tuple[float, float]) -> list[Mean]:
    """One for each group, and at last that of all rows. ``n_rows`` is None where it is private."""
    n_groups = len(released) // len(SUMS)
    design = means_design(n_groups)
    everyone = np.tile(np.eye(len(SUMS))[0], n_groups)[None]
    known = Constraints(everyone, np.array([float(n_rows or 0)]))
    if n_rows is None:
        known = Constraints(np.zeros((0, design.size)), np.zeros(0))
    sums = Estimates.of(design, released, noise_scale, known)
    members = [*np.eye(n_groups), np.ones(n_groups)]
    found = [_mean(sums, one, ends) for one in members]
    if n_rows is not None:
        found[-1] = replace(found[-1], rows=_rows(float(n_rows), 0.0))
    return found


def _mean(sums: Estimates, members: Vector, ends: tuple[float, float]) -> Mean:
    """Of the groups that ``members`` marks."""
    vectors = sums.among(GROUPS, np.stack([np.kron(members, axis) for axis in np.eye(len(SUMS))]))
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


def _rows(n: float, deviation: float) -> Figure:
    reach, estimate = Z * deviation, max(0.0, n)
    return Figure(estimate=estimate, low=max(0.0, n - reach), high=max(estimate, n + reach), noise=reach)


def _between(figure: Figure, ends: tuple[float, float]) -> Figure:
    """From t back to the units of the predictions."""
    low, high = ends
    middle, half = low / 2 + high / 2, high / 2 - low / 2
    if figure.estimate is None or figure.low is None or figure.high is None or figure.noise is None:
        return UNKNOWN
    moved = (
        min(max(middle + half * value, low), high) for value in (figure.estimate, figure.low, figure.high)
    )
    return Figure(**dict(zip(("estimate", "low", "high"), moved, strict=True)), noise=half * figure.noise)
