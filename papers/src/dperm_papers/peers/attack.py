"""Does a claimed epsilon survive? Two neighbouring tables, many trainings on each, and our audit's lower bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from dperm.audit.bounds import lower_bounds

Matrix = NDArray[np.float64]
Score = Callable[[Matrix], NDArray[np.float64]]

CONFIDENCE = 0.95
_TRAINING = 0.4  # of the runs choose the score and its threshold
_FAR = 1e6


@dataclass(frozen=True, kw_only=True)
class Found:
    """What an attack proves: epsilon is at least ``epsilon`` with the stated confidence, at the claimed delta."""

    epsilon: float
    claimed: float
    delta: float
    runs: int
    score: str

    @property
    def verdict(self) -> str:
        return verdict_on(self.claimed, self.epsilon)


def verdict_on(claimed: float, at_least: float) -> str:
    """What a lower bound says of a claim; a bound of 0 says nothing."""
    if at_least > claimed:
        return f"broken: proves ε ≥ {at_least:.2f}"
    return "survives" if at_least > 0 else "inconclusive"


def attack(
    here: Matrix, there: Matrix, claimed: float, delta: float, confidence: float = CONFIDENCE
) -> Found:
    """Bound epsilon by what was published on a table and on its neighbour, one row for each training.

    A score is learnt on a part of the runs, its threshold on another, and both are counted on the rest, so that the
    bound fails with at most ``1 - confidence``.
    """
    here, there = (np.nan_to_num(np.clip(some, -_FAR, _FAR)) for some in (here, there))
    cuts = [round(share * min(len(here), len(there))) for share in (_TRAINING / 2, _TRAINING)]
    learn, choose, test = ([part[a:b] for part in (here, there)] for a, b in _spans(cuts))
    failure = 1 - confidence
    hopes = {}
    scores = {"linear": _linear(*learn), "learnt": _learnt(*learn)}
    for name, score in scores.items():
        halves = [(score(part[::2]), score(part[1::2])) for part in choose]
        tried = lower_bounds((halves[0][0], halves[1][0]), (halves[0][1], halves[1][1]), delta, failure, None)
        hopes[name] = tried.direct
    best = max(hopes, key=lambda name: hopes[name])
    score = scores[best]
    bounds = lower_bounds(
        (score(choose[0]), score(choose[1])), (score(test[0]), score(test[1])), delta, failure, None
    )
    runs = min(len(here), len(there))
    return Found(epsilon=bounds.direct, claimed=claimed, delta=delta, runs=runs, score=best)


def _spans(cuts: list[int]) -> list[tuple[int, int | None]]:
    first, second = cuts
    return [(0, first), (first, second), (second, None)]


def _linear(here: Matrix, there: Matrix) -> Score:
    """How far the tables move what is published, over its covariance."""
    moved = here.mean(axis=0) - there.mean(axis=0)
    covariance = np.atleast_2d(np.cov(here.T) + np.cov(there.T))
    floor = 1e-9 * np.trace(covariance) + np.finfo(np.float64).tiny
    weights = np.linalg.solve(covariance + floor * np.eye(len(moved)), moved)
    return lambda published: np.asarray(published @ weights)


def _learnt(here: Matrix, there: Matrix) -> Score:
    """A classifier of the published numbers and their length, for tables that differ in more than a mean."""

    def seen(published: Matrix) -> Matrix:
        length = np.linalg.norm(published, axis=1, keepdims=True)
        return np.hstack([published[:, :20], length])

    labels = np.repeat([1, 0], [len(here), len(there)])
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=15, random_state=0)
    model.fit(seen(np.vstack([here, there])), labels)
    return lambda published: np.asarray(model.decision_function(seen(published)))
