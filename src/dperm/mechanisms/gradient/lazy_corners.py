"""Steps towards corners by a gradient of old slopes (Raff, Khanna & Lu 2023), and what one row can change of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dperm.errors import Unsupported
from dperm.mechanisms.base import Plan
from dperm.privacy import Gate
from dperm.privacy.held_scores import LARGEST_SCORE, HeldScores, block_width
from dperm.privacy.noisy_min import NoisyMin
from dperm.problem import Problem

if TYPE_CHECKING:
    from dperm.engine import Engine

Vector = NDArray[np.float64]

_GRID_BITS = 30  # of the largest coordinate of a row's gradient


@dataclass(frozen=True, eq=False, kw_only=True)
class CornersPlan(Plan):
    """With the choice that is made at every step and the radius of the ball whose corners are chosen."""

    choice: NoisyMin
    radius: float


def largest_coordinate(problem: Problem) -> float:
    """Bound on any coordinate of one row's gradient: a row of bounded norm has no larger feature."""
    return problem.loss.lipschitz * max(problem.x_norm, problem.intercept)


def grid_exponent(problem: Problem) -> int:
    """Coordinates of gradients are rounded to multiples of 2 to this power, at most 2**-29 of the largest."""
    return math.frexp(largest_coordinate(problem))[1] - _GRID_BITS


def lazy_sensitivity(problem: Problem, radius: float) -> float:
    """How far the score of a corner moves between neighbours: what the rows add is exact, whole steps of the grid."""
    most = largest_coordinate(problem) * (1 + 2.0**-48) + math.ldexp(1.0, grid_exponent(problem))
    return radius * problem.neighbours.rows_changed * most / problem.n_rows * (1 + 2.0**-48)


def lazy_walk(plan: CornersPlan, engine: Engine, model: int, gate: Gate) -> Vector:
    """The weights of one model; w = scale * bar, of which a step changes a number each."""
    problem, exponent = plan.problem, grid_exponent(plan.problem)
    n_columns = engine.n_columns
    walk = engine.vertex_pass(problem.loss, model, exponent, block_width(n_columns))
    unit = Fraction(plan.radius) * Fraction(2) ** exponent / problem.n_rows
    scores = HeldScores(walk.sums, walk.changed, n_columns, unit, plan.choice)
    pull = _Pull(problem, plan.radius, exponent)
    scale, bar = 1.0, dict[int, float]()
    for t in range(1, plan.releases + 1):
        corner = gate.choose(scores, plan.choice, "frank-wolfe corner")
        sign, j = (1, corner) if corner < n_columns else (-1, corner - n_columns)
        share = 2 / (t + 2)
        change = share * sign * plan.radius
        walk.move(j, change, 1 - share)
        if t & (t - 1) == 0:
            walk.renew()
        scale *= 1 - share
        bar[j] = bar.get(j, 0.0) + change / scale
        for column, steps in pull.towards(bar, scale):
            walk.sums[column] += steps
            walk.changed[column // block_width(n_columns)] = 1
    weights = np.zeros(n_columns)
    for j, value in bar.items():
        weights[j] = scale * value
    return weights


class _Pull:
    """The gradient of the penalty in steps of the grid, which is public: it moves all neighbours' scores alike."""

    def __init__(self, problem: Problem, radius: float, exponent: int) -> None:
        self._per_weight = math.ldexp(problem.n_rows * problem.l2, -exponent)
        if not self._per_weight * radius < LARGEST_SCORE / 2:
            raise Unsupported(
                "l2 is so large beside the slopes that their sum cannot be kept; set lazy to False."
            )
        self._added: dict[int, int] = {}

    def towards(self, bar: dict[int, float], scale: float) -> list[tuple[int, int]]:
        """By how many steps each weight's own term differs from what was added before."""
        if self._per_weight == 0:
            return []
        terms = {j: round(self._per_weight * scale * value) for j, value in bar.items()}
        changes = [(j, term - self._added.get(j, 0)) for j, term in terms.items()]
        self._added = terms
        return changes
