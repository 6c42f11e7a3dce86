"""Noise in the objective: docs/proofs/objective.md, Theorems 1 to 3, and docs/proofs/clipped-losses.md."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfc

from dperm.certificate.accountant import Price, gaussian_delta, gaussian_excess, vertex_delta
from dperm.certificate.constants import ALLOWANCE, Facts, U, grid_exponent, unweighted
from dperm.certificate.routes.evidence import Evidence, inference_mu
from dperm.errors import InvalidInput

Vector = NDArray[np.float64]

HOW = "Gaussian losses of the vertices integrated numerically, plus the log-determinant"
REACH = 16.0


def gaussian(evidence: Evidence) -> Price:
    facts, used = evidence.facts, evidence.used
    dimension = facts.dimension
    hidden, shown = evidence.once_each(
        ("noise in the objective, never published", dimension), (f"{evidence.name} weights", dimension)
    )
    evidence.close("releases, sensitivity of the objective", hidden.sensitivity, facts.gap)
    evidence.close("used, objective_noise", used["objective_noise"], hidden.noise_scale)
    evidence.close("used, output_noise", used["output_noise"], shown.noise_scale)
    evidence.within("used, l2_used", used["l2_used"], facts.l2, math.inf)
    strength = facts.n * used["l2_used"]
    if not strength > 0:
        raise InvalidInput("the objective must be strongly convex.")
    noise = hidden.noise_scale

    # Section 7: the gradient norm that the solver must reach, and how far two computed minimisers can be apart.
    reach, ball = _reach(facts, strength, (math.sqrt(dimension) + REACH) * noise)
    error = facts.n * facts.gradient_error(facts.n, ball) + 16 * U * strength * ball
    limit = max(used["tolerance"] * facts.R, 3 * error)
    evidence.within("planned, residual and rounding", limit + error, 0.0, reach)
    evidence.close("planned, residual", evidence.statement["planned"]["residual"], limit)
    grid = 2.0 ** grid_exponent(facts.gap, dimension)
    rounding = math.sqrt(dimension) * grid / 2 + (math.sqrt(dimension) + REACH) * U * noise
    moved = 2 * (limit + error + rounding) / strength * (1 + ALLOWANCE)
    evidence.close("releases, sensitivity of the minimiser", shown.sensitivity, moved)

    after = math.hypot(shown.mu, evidence.standardisation_mu(), inference_mu(evidence))
    unit = facts.R / noise * (1 + ALLOWANCE)
    offset = _log_determinant(facts, strength) * (1 + ALLOWANCE)
    vertices = [math.hypot(length * unit, after) for length in _vertices(facts)]
    cost = gaussian_excess if facts.many_rows else gaussian_delta

    def delta(epsilon: float) -> float:
        by_vertices = vertex_delta(epsilon, offset, vertices, cost)
        if facts.coupling is None:
            return by_vertices
        theta = facts.coupling * facts.r**2 / strength
        return min(by_vertices, _by_segments(epsilon, facts, theta, facts.R / noise, after))

    return Price(delta, HOW, accuracy=1e-6)


def _reach(facts: Facts, strength: float, noise: float) -> tuple[float, float]:
    """G of section 7 and the radius of its ball: by the gradient at zero, or by the value there if that is smaller."""
    by_gradient = facts.n * facts.R + noise
    ball = 2 * by_gradient / strength
    if facts.at_zero is not None:
        by_value = math.sqrt(noise**2 + 2 * strength * facts.n * facts.at_zero) * (1 + ALLOWANCE)
        if 3 * by_value / strength < ball:
            return by_value, 3 * by_value / strength
    return by_gradient, ball


def _log_determinant(facts: Facts, strength: float) -> float:
    """Lemma 3; of a person the same trace over as many eigenvalues as there may be (docs/proofs/persons.md)."""
    if facts.many_rows:
        several = unweighted(facts.loss) == "softmax"
        trace = facts.heaviest * facts.r**2 * (1 - 1 / facts.outputs) if several else facts.beta
        rank = min(facts.p, facts.rows_per_person) * (facts.outputs - 1 if several else 1)
        return rank * math.log(1 + trace / (rank * strength))
    if unweighted(facts.loss) == "softmax":
        return (facts.outputs - 1) * math.log(1 + facts.heaviest * facts.r**2 / (facts.outputs * strength))
    return math.log(1 + facts.beta / strength)


def _vertices(facts: Facts) -> list[float]:
    """Lemma 4, in units of R."""
    if unweighted(facts.loss) == "softmax":
        others = facts.outputs - 1
        if facts.rows == 1:
            return [0.0] + [1.0] * others
        return [0.0] + [1.0] * 2 * others + [math.sqrt(3)] * others * (others - 1) + [2.0] * others
    if facts.monotone:
        return [0.0, 1.0] if facts.rows == 1 else [0.0, 1.0, 1.0, 2.0]
    return [1.0, 1.0] if facts.rows == 1 else [math.sqrt(2), math.sqrt(2), 2.0, 2.0]


def _by_segments(epsilon: float, facts: Facts, theta: float, s: float, other: float) -> float:
    """Theorem 2, or 2b for a loss whose slope has either sign."""
    unit = s * (1 + ALLOWANCE)
    if facts.monotone:
        bulge = (theta - s**2 / 2) * (1 + ALLOWANCE)
        return sum(
            _segment(epsilon, bulge, other, facts.many_rows, start=j * unit, ends=[(j + 1) * unit])
            for j in range(facts.rows)
        )
    bulge = (4 * theta - 2 * s**2) * (1 + ALLOWANCE)
    start, ends = (facts.rows - 1) * unit, [length * unit for length in _vertices(facts)]
    shift = unit**2 / 2
    return _segment(
        epsilon, bulge, other, facts.many_rows, start=start, ends=ends, shift=shift, count=facts.rows
    )


def _segment(
    epsilon: float,
    bulge: float,
    other: float,
    many_rows: bool,
    *,
    start: float,
    ends: list[float],
    shift: float = 0.0,
    count: int = 1,
) -> float:
    """The best bound over its free parameter, on ever finer grids.

    Of a person mean excesses count: where the start is far out, a quarter of the bulge and, unless both ends of the
    segment count anyway, the start itself.
    """
    if epsilon < shift:
        return 1.0
    bulge = max(bulge, 0.0)
    corners = np.hypot(ends, other)
    tails = [math.hypot(start, other), other if start > 0 else 0.0]

    def bounds(free: Vector) -> Vector:
        charge = np.maximum(math.sqrt(bulge) - np.sqrt(free), 0.0) ** 2
        at_ends = gaussian_excess if many_rows else gaussian_delta
        cost = at_ends(np.maximum(epsilon - charge, 0.0)[:, None], corners).sum(axis=1)
        for tail in tails:
            if tail > 0:
                chance = erfc(((epsilon - shift - free) / tail - tail / 2) / math.sqrt(2)) / 2
                cost += count * chance * (bulge / 4 if many_rows else 1.0)
        if many_rows and shift == 0 and tails[0] > 0:
            cost += gaussian_excess(epsilon, tails[0])
        return np.asarray(np.where(charge > epsilon, 1.0, cost))

    low, high = 0.0, min(epsilon - shift, bulge)
    found = 1.0
    for _ in range(4):
        grid = np.linspace(low, high, 41)
        values = bounds(grid)
        best = int(np.argmin(values))
        found = min(found, float(values[best]))
        low, high = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, 40)])
    return found
