"""Noise at every step, only the last iterate seen: docs/proofs/noisy-sgd.md, Theorems 1 and 2."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dperm.certificate.accountant import Price, mixture_price
from dperm.certificate.constants import ALLOWANCE, GRID, Facts, U, grid_exponent
from dperm.certificate.routes.evidence import Evidence
from dperm.errors import InvalidInput

Vector = NDArray[np.float64]

HOW = "hidden state by a convex hull, Gaussian losses integrated numerically"
MOST_WORK = 30_000_000


def last_iterate(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    asked = evidence.statement["mechanism"]["chosen"]["settings"]
    batches = math.ceil(facts.n / asked["batch_size"])
    short, longer = divmod(facts.n, batches)
    sizes = np.array([short + (1 if batch < longer else 0) for batch in range(batches)], float)
    evidence.equal("used, batches", used["batches"], batches)
    evidence.equal("used, batch_size", used["batch_size"], int(sizes.max()))
    step, epochs, radius = float(used["step_size"]), used["epochs"], float(used["radius"])
    evidence.within("used, step_size times the smoothness", step * facts.L, 0.0, 2.0)
    ball = asked["radius"] is not None
    updates = epochs * batches
    if updates * batches * (updates if ball else 1) > MOST_WORK:
        raise InvalidInput("so many updates are too many to check one by one.")

    ratio = max(abs(1 - step * facts.l2), abs(1 - step * facts.L))
    push = step * facts.gap / sizes
    error = np.array([_error(facts, step, size, radius) for size in sizes])
    (release,) = evidence.once_each((f"{evidence.name} last iterate", facts.dimension))
    evidence.close("releases, sensitivity", release.sensitivity, _sensitivity(ratio, push, error, epochs))

    rounding = error + 2 * math.sqrt(facts.dimension) * 2.0 ** grid_exponent(
        release.sensitivity, facts.dimension
    )
    diameter = 2 * radius * (1 + ALLOWANCE) if ball else math.inf
    reach = np.array(
        [_cheapest(ratio, push, rounding, batch, epochs, diameter) for batch in range(batches)]
    ) * (1 + ALLOWANCE)
    share = sizes / facts.n
    if not used["secret_order"]:
        share, reach = np.ones(1), reach.max(keepdims=True)
    stated = [value for value, count in evidence.statement["planned"]["branches"] for _ in range(int(count))]
    evidence.equal("planned, branches", len(stated), len(reach))
    for value, follows in zip(stated, reach, strict=False):
        evidence.close("planned, branches", value, float(follows))
    return mixture_price(share, np.hypot(reach / release.noise_scale, evidence.standardisation_mu()), HOW)


def _error(facts: Facts, step: float, size: float, radius: float) -> float:
    """Both runs' float64 error of one update, its projection and the rounding of noisy values."""
    farthest = 1.01 * radius
    update = 8 * (farthest + step * facts.R) + (facts.dimension + 16) * farthest
    return 2 * (step * facts.gradient_error(size, farthest) + U * update)


def _sensitivity(ratio: float, push: Vector, error: Vector, epochs: int) -> float:
    """How far two runs with equal noise come apart; each update may round by 2e-7 of the result itself."""
    apart, rounded = np.zeros(len(push)), 0.0
    for _ in range(epochs):
        for batch in range(len(push)):
            apart = ratio * apart + error[batch]
            apart[batch] += push[batch]
            rounded = ratio * rounded + 1
    return float(apart.max()) / (1 - 2 * GRID * rounded)


def _cheapest(
    ratio: float, push: Vector, rounding: Vector, batch: int, epochs: int, diameter: float
) -> float:
    """Theorem 2 for unit noise: the greatest convex minorant, from the start or from any later step."""
    shift = np.tile(rounding, epochs)
    shift[batch :: len(push)] += push[batch]
    left = np.cumprod(np.full(len(shift), ratio)) / ratio if ratio > 0 else None
    if left is None:
        raise InvalidInput("steps that forget everything are not covered here.")
    left = left[::-1]  # what is left at the end of a unit at each step
    best = _hull_cost(shift * left, left**2)
    if diameter < math.inf:
        for start in range(len(shift)):
            arriving = (shift * left)[start:].copy()
            arriving[0] += diameter * ratio * left[start]
            best = min(best, _hull_cost(arriving, left[start:] ** 2))
    return math.sqrt(best)


def _hull_cost(arriving: Vector, variance: Vector) -> float:
    """Sum of (rise squared / run) over the edges of the lower convex hull of the partial sums."""
    points = [(0.0, 0.0)]
    for run, rise in zip(np.cumsum(variance), np.cumsum(arriving), strict=True):
        point = (float(run), float(rise))
        while len(points) > 1 and _turns_down(points[-2], points[-1], point):
            points.pop()
        points.append(point)
    return math.fsum(
        (after[1] - before[1]) ** 2 / (after[0] - before[0]) for before, after in pairwise(points)
    )


def _turns_down(first: tuple[float, float], second: tuple[float, float], third: tuple[float, float]) -> bool:
    return (second[1] - first[1]) * (third[0] - first[0]) >= (third[1] - first[1]) * (second[0] - first[0])
