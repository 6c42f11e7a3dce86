"""Private standardisation: release mean and second moments of the columns, then move and scale every row by them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dperm.arithmetic import UNIT_ROUNDOFF
from dperm.errors import InvalidInput
from dperm.planning.pricing import gaussian_noise
from dperm.planning.rules import AUTO, noise_level
from dperm.privacy import Budget, Gate, GaussianNoise, gaussian_mu
from dperm.problem import Problem
from dperm.row_map import RowMap
from dperm.typing import Floats
from dperm.unit import Neighbours

if TYPE_CHECKING:
    from dperm.engine import Rows


MEAN, MOMENTS = "mean of the rows", "second moments of the columns"
LINEAR, BOUNDED = "linear", "bounded"
SHARE = 0.10  # of mu squared, for both releases together
FIRST_BOUND = 0.8  # of x_norm: rows further from the mean are shortened before their squares are added up
FLOOR_SHARE = 0.05  # of the mean of the positive moments: no moment is taken as smaller
FLOOR_NOISE = 2.0  # times the noise on a moment: nor as smaller than this
POWER = 0.75  # of a column's spread in its scale: 1 would make all columns equally wide
# Norm of a typical row, in x_norm, before it is shortened to x_norm (docs/results/defaults.md). A linear model is used
# on rows that are not shortened, so it can afford the longer ones, which the noise on weights matters less for, only
# where there is much noise: (noise level / RHO_LEVEL) ** RHO_GROWTH, within the range that was tried.
RHO_BOUNDED = 2.5
RHO_LEVEL, RHO_GROWTH, RHO_RANGE = 0.003, 0.35, (0.6, 3.0)
MOST_NOISE = 0.5  # of the noise level times the root of the columns, 1 where a moment is lost in its noise
COUNT_COLUMN = 0.5  # of x_norm: the constant column by which add-remove tables are counted
FEWEST = 0.1  # of the capacity: no table is taken as smaller
_PRIVATE_SIDE = 1 - 1e-12  # so that rounding of mu never costs more than mu


def check_variant(given: object) -> bool | str:
    """The variant that a setting names: False, ``LINEAR``, ``BOUNDED`` or ``AUTO``; True is ``LINEAR``."""
    if isinstance(given, bool):
        return LINEAR if given else False
    if isinstance(given, str) and given in (LINEAR, BOUNDED, AUTO):
        return given
    raise InvalidInput(
        f"standardise must be {AUTO!r}, False, True, {LINEAR!r} or {BOUNDED!r}; got {given!r}."
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Standardisation:
    """What is released before training, with what noise, and how it becomes a map of the rows.

    With an intercept the mean is released and then the second moments about it; without one only the moments about 0,
    because a model without intercept has no place for a centre. The mapped problem has the bounds of the original one.
    """

    problem: Problem
    variant: str
    rho: float
    mu: float
    noises: tuple[GaussianNoise, ...]

    @property
    def stated(self) -> dict[str, Any]:
        """Every public number that the map is computed with."""
        return {
            "variant": self.variant,
            "share": SHARE,
            "mu": self.mu,
            "noise_scales": [noise.scale for noise in self.noises],
            "first_bound": first_bound(self.problem),
            "floor_share": FLOOR_SHARE,
            "floor_noise": FLOOR_NOISE,
            "power": POWER,
            "rho": self.rho,
            "count_column": COUNT_COLUMN if self._counts else None,
            "fewest": FEWEST if self._counts else None,
        }

    @property
    def words(self) -> str:
        parts = zip(self.names, self.noises, strict=True)
        return "; ".join(f"{name}, noise scale {noise.scale:.6g}" for name, noise in parts)

    def row_map(self, rows: Rows, gate: Gate) -> RowMap:
        """Release what the map of one model needs."""
        return release_maps([self], rows, gate)[0]

    def seen_through(self, released: Sequence[Floats]) -> RowMap:
        """How the rows are seen by the pass that follows these releases."""
        x_norm = self.problem.x_norm
        if released:
            centre = self._centre(released)
            return RowMap(x_norm=x_norm, centre=centre, scale=np.full(len(centre), FIRST_BOUND))
        return RowMap(x_norm=x_norm, intercept=COUNT_COLUMN * x_norm if self._counts else 0.0)

    def maps(self, released: Sequence[Floats]) -> list[RowMap]:
        """All maps of a run with these releases, in their order; the last one is that of the training."""
        return [
            *(self.seen_through(released[:k]) for k in range(len(self.noises))),
            self.map_by(released),
        ]

    def map_by(self, released: Sequence[Floats]) -> RowMap:
        """The map that these releases make, by public rules alone."""
        problem, bound = self.problem, first_bound(self.problem)
        unit = bound * bound / self._count_share(released)
        moments = unit * released[-1][: problem.n_features]
        return RowMap(
            x_norm=problem.x_norm,
            intercept=problem.intercept,
            centre=self._centre(released) if self._centres else None,
            scale=scale_by(moments, unit * self.noises[-1].scale, self.rho * problem.x_norm),
            linear=self.variant == LINEAR,
            released=tuple(released),
        )

    def map_of_nothing(self) -> RowMap:
        """The map by zeros in place of releases, for a model that tells nothing of the rows."""
        return self.map_by([np.zeros(noise.dimension) for noise in self.noises])

    @property
    def _centres(self) -> bool:
        return self.problem.intercept > 0

    @property
    def _counts(self) -> bool:
        return self.problem.neighbours is Neighbours.ADD_REMOVE

    @property
    def names(self) -> tuple[str, ...]:
        return (MEAN, MOMENTS) if self._centres else (MOMENTS,)

    def _centre(self, released: Sequence[Floats]) -> Floats:
        return np.asarray(released[0][: self.problem.n_features] / self._count_share(released))

    def _count_share(self, released: Sequence[Floats]) -> float:
        """Share of the capacity that is filled, from the column that counts rows in the first release."""
        if not self._counts:
            return 1.0
        column = COUNT_COLUMN * self.problem.x_norm
        counted = float(released[0][-1]) / (column if self._centres else column * column)
        return min(1.0, max(FEWEST, counted))


def release_maps(plans: Sequence[Standardisation], rows: Rows, gate: Gate) -> list[RowMap]:
    """Release what each model's map needs, one after the other; no two copies of the rows are held at once.

    The rows have a model and the gate a job for each plan.
    """
    released: list[list[Floats]] = [[] for _ in plans]
    for step, name in enumerate(plans[0].names):
        seen = [plan.seen_through(found) for plan, found in zip(plans, released, strict=True)]
        sums = _sums_through(seen, rows, squared=name == MOMENTS)
        for k, plan in enumerate(plans):
            noise = plan.noises[step]
            values = sums[: noise.dimension, k] / plan.problem.n_rows
            released[k].append(gate.part([k]).release_one(values, noise, name))
    return [plan.map_by(found) for plan, found in zip(plans, released, strict=True)]


def _sums_through(maps: Sequence[RowMap], rows: Rows, squared: bool) -> Floats:
    """Sums of each model's own rows, or of their squares, as it sees them."""
    parts: list[Rows | None] = [rows.mapped(maps[0])]
    if any(one != maps[0] for one in maps):
        parts = [rows.mapped_per_model(maps)]
    if parts[0] is None:
        parts = [rows.select([k]).mapped(one) for k, one in enumerate(maps)]
    sums = []
    for part in parts:
        assert part is not None
        engine = part.open(precise=True)
        if part.members is not None:  # one row of each person: then a sum moves as far as for rows
            engine = engine.sample([part.members.first_rows()])
        sums.append(engine.square_sum() if squared else engine.row_sum())
        del engine
    found = np.hstack(sums)
    return np.broadcast_to(found, (len(found), len(maps)))  # one column where models share all rows


def first_bound(problem: Problem) -> float:
    """Of x_norm, on the rows whose squares are added up: without a centre they are as they came."""
    return FIRST_BOUND if problem.intercept > 0 else 1.0


def scale_by(moments: Floats, noise: float, typical: float) -> Floats:
    """What columns with these noisy moments are divided by, so that a typical row is then ``typical`` long."""
    least = max(FLOOR_SHARE * float(np.maximum(moments, 0.0).mean()), FLOOR_NOISE * noise)
    floored = np.maximum(moments, least)
    scale = floored ** (POWER / 2)
    length = math.sqrt(float(np.sum(floored / (scale * scale))))
    return np.asarray(scale * (length / typical))


def typical_norm(problem: Problem, budget: Budget, variant: str) -> float:
    """The norm, in x_norm, that a typical row is stretched to: a public rule."""
    if variant == BOUNDED:
        return RHO_BOUNDED
    low, high = RHO_RANGE
    stretched: float = (noise_level(problem, budget) / RHO_LEVEL) ** RHO_GROWTH
    return min(max(stretched, low), high)


def moments_stand_out(problem: Problem, budget: Budget) -> bool:
    r"""Whether the moments of the columns are worth their share of the budget: where :math:`n\mu \ge 2p`.

    Under add-remove half as much is enough. A column of p has about 1/p of the squared norm of the rows, so its moment
    stands out from noise as n mu / p does.
    """
    return noise_level(problem, budget) * problem.n_columns / math.sqrt(problem.dimension) <= MOST_NOISE


def plan_standardisation(problem: Problem, budget: Budget, variant: str) -> Standardisation:
    """A fixed share of the budget, in mu squared, buys the releases, the same part of it each.

    Sums of rows move by at most 2 x_norm between replace-one neighbours and x_norm between add-remove ones. Vectors of
    squares are non-negative with a sum of at most x_norm^2, so sums of them move by at most sqrt(2) x_norm^2 and
    x_norm^2. The column that counts rows comes on top. Both bounds allow for the rounding of the sums in both runs.
    """
    budget.check_gaussian()
    mu = math.sqrt(SHARE) * gaussian_mu(budget)
    n, x, counts = problem.n_rows, problem.x_norm, problem.neighbours is Neighbours.ADD_REMOVE
    sums = [(x, 2 * x)] if problem.intercept > 0 else []
    sums.append((x * x, math.sqrt(2) * x * x))
    column = COUNT_COLUMN * x
    noises = []
    for k, (reach, replaced) in enumerate(sums):
        counted = counts and k == 0
        count = (column if problem.intercept > 0 else column * column) if counted else 0.0
        moved = math.hypot(reach, count) if counts else replaced
        rounding = (problem.sum_error(n) + 4 * UNIT_ROUNDOFF) * (reach + count)
        sensitivity = moved / n + 2 * rounding
        part = _PRIVATE_SIDE * mu / math.sqrt(len(sums))
        noises.append(gaussian_noise(sensitivity, problem.n_features + counted, part))
    return Standardisation(
        problem=problem,
        variant=variant,
        rho=typical_norm(problem, budget, variant),
        mu=mu,
        noises=tuple(noises),
    )
