"""What a guarantee for one row, or one person, says of several (docs/report.md, "A person with several rows")."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dperm.certificate import Verdict
from dperm.certificate.words import price_curve
from dperm.release.release import Release
from dperm.render.numbers import written

Vector = NDArray[np.float64]

SIZES = (1, 2, 5, 10)
NOTHING = "no promise"
_STARTS = 1500


@dataclass(frozen=True, kw_only=True)
class Group:
    """The guarantee for ``size`` rows of one person, or for so many persons together.

    ``epsilon`` holds at the delta of the claim, by the mechanism's own price where there is one. ``claim_epsilon`` and
    ``claim_delta`` follow from the claim alone, for every mechanism; a delta of 1 promises nothing.
    """

    size: int
    epsilon: float
    claim_epsilon: float
    claim_delta: float


def group_privacy(verdict: Verdict, size: int) -> Group:
    """For a guarantee that stands, of one row or one person."""
    assert verdict.guarantee is not None
    epsilon, delta = verdict.guarantee["epsilon"], verdict.guarantee["delta"]
    return Group(
        size=size,
        epsilon=_epsilon_at(delta, *_tradeoff_lines(verdict), size),
        claim_epsilon=size * epsilon,
        claim_delta=claimed_delta(epsilon, delta, size),
    )


def claimed_delta(epsilon: float, delta: float, size: int) -> float:
    r""":math:`\delta (1 + e^\varepsilon + \dots + e^{(k-1)\varepsilon})`, at most 1."""
    if delta == 0:
        return 0.0
    largest = (size - 1) * epsilon + math.log(delta)
    if largest > 0:
        return 1.0
    return min(1.0, math.fsum(delta * math.exp(i * epsilon) for i in range(size)))


def _tradeoff_lines(verdict: Verdict) -> tuple[Vector, Vector]:
    """Logarithms of slopes, and intercepts, of lines above the trade-off of one unit; the claim's own comes first."""
    assert verdict.guarantee is not None
    claimed = verdict.guarantee["epsilon"]
    at, cost = np.array([claimed]), np.array([verdict.guarantee["delta"]])
    if verdict.price is not None:
        epsilons, deltas = price_curve(verdict.price, claimed)
        at = np.append(at, epsilons)
        cost = np.append(cost, np.minimum(deltas * (1 + verdict.price.accuracy), 1.0))
    # One order of the neighbours gives P <= e^a Q + c; the other, for complements, P <= 1 - e^-a (1 - c) + e^-a Q.
    return np.append(at, -at), np.append(cost, -np.expm1(-at) + np.exp(-at) * cost)


def _epsilon_at(delta: float, slopes: Vector, intercepts: Vector, size: int) -> float:
    """Smallest epsilon of the lines that ``size`` applications of the trade-off stay below.

    From each of many starting points the lowest line is followed, then that at the height it leads to, and so on. Lines
    after lines are a line again, and whichever were chosen, it is a bound: its slope is e^epsilon, its intercept delta.
    """
    start = np.concatenate([[0.0], np.geomspace(1e-30, 1.0, _STARTS)])
    height = start
    slope, intercept = np.zeros_like(start), np.zeros_like(start)
    for _ in range(size):
        with np.errstate(over="ignore"):
            lowest = np.argmin(intercepts[:, None] + np.exp(slopes)[:, None] * height[None, :], axis=0)
        factor = np.exp(slopes[lowest])
        height = np.minimum(intercepts[lowest] + factor * height, 1.0)
        intercept = intercepts[lowest] + factor * intercept
        slope = slope + slopes[lowest]
    allowed = intercept <= delta * (1 + 1e-12)
    found = float(slope[allowed].min()) if allowed.any() else math.inf
    plain = size * float(slopes[0]) if delta == 0 or size == 1 else math.inf
    return max(0.0, min(found, plain))


def groups(release: Release) -> list[Group]:
    """For a few numbers of rows or persons, and the number of rows that was declared; none without a guarantee."""
    verdict = release.verdict
    if verdict.guarantee is None:
        return []
    return [group_privacy(verdict, size) for size in sorted({*SIZES, stated_rows(release) or 1})]


def stated_rows(release: Release) -> int | None:
    """The rows that one person may have, as it was stated, where the guarantee is for one row."""
    return release.deployment.most_rows_per_person if release.unit == "row" else None


def at_most(epsilon: float) -> str:
    """An epsilon with three digits, rounded up."""
    if not math.isfinite(epsilon):
        return NOTHING
    if epsilon == 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(epsilon)) - 2)
    return written(math.ceil(epsilon / step * (1 - 1e-9)) * step, 3)


def in_words(release: Release, found: list[Group]) -> str:
    """What the declared number of rows makes of the guarantee."""
    if release.unit == "person":
        return (
            "The guarantee is for one person with all their rows, so it needs no number of rows that a person can "
            "have. It is as good as the ids: rows of one person under two ids are two persons to it."
        )
    declared = stated_rows(release)
    if declared is None:
        return (
            "How many rows one person can have is not stated (dataset.most_rows_per_person). If it can be more "
            "than one, read the line for that number: it is the guarantee for a person."
        )
    if declared == 1:
        return "It is stated that a person has one row, so the guarantee for a row is that for a person."
    of_person = next(group for group in found if group.size == declared)
    return (
        f"It is stated that a person has at most {declared:,} rows. The guarantee for a person is therefore "
        f"ε = {at_most(of_person.epsilon)} at the same δ, and not the one for a row."
    )
