"""Attacks: a mechanism, two neighbouring tables, and a score that tells them apart as well as it can.

Nothing of a mechanism is imitated here. Its own ``run`` is called, many jobs at a time, and its gate keeps
what it published. The score is the likelihood ratio of all that was published, taken as Gaussian: every
published number, over its noise scale, is weighed by how far the two tables move it on average.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from dperm.mechanisms import Job, Mechanism, Outcome, Plan
from dperm.mechanisms.objective.family import OBJECTIVE_NOISE
from dperm.privacy import SeededEntropy, SystemEntropy
from dperm.privacy.entropy import Entropy
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import KeepingGate, Release
from dperm_audit.neighbours import Pair, extreme_labels, table_of

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]

Score = Callable[[Matrix], Vector]

RELEASES, WEIGHTS = "releases", "weights"
_SINGULAR = 1e-12


@dataclass(frozen=True, eq=False, kw_only=True)
class Attack:
    """One way to try a claim.

    ``sees`` is "releases", all that the guarantee covers, or "weights", the result alone; the second also
    notices what went past the gate. ``score``, if given, is made from the plan and says how much likelier published
    weights are on the left table. ``jobs`` is how many runs go side by side in one call. ``system`` draws everything,
    rows too, from the operating system, one run at a time, as a user's fit does; otherwise noise is seeded. ``delta``
    is the one at which this claim is tried unless another is asked for, ``share`` the part of the runs asked for that
    it gets, ``most_runs`` a limit on them.
    """

    name: str
    mechanism: Mechanism
    problem: Problem
    pair: Pair = field(repr=False)
    sees: str = RELEASES
    jobs: int = 5000
    delta: float | None = None
    share: float = 1.0
    most_runs: int | None = None
    system: bool = False
    score: Callable[[Plan], Score] | None = None

    def runs_of(self, asked: int) -> int:
        wanted = max(100, round(self.share * asked))
        return wanted if self.most_runs is None else min(wanted, self.most_runs)


class _Placed(SeededEntropy):
    """A seeded source whose order of the rows puts one row at a chosen place, and that keeps any other order.

    Jobs of one call share an order. Were it random, their results would not be independent of each other.
    """

    def __init__(self, seed: np.random.SeedSequence, n_rows: int, row: int, place: int) -> None:
        super().__init__(seed)
        self._order = np.arange(n_rows)
        self._order[[row, place]] = self._order[[place, row]]

    def permutation(self, n: int) -> NDArray[np.int64]:
        return self._order.copy() if n == len(self._order) else np.arange(n)


def lone_pair(problem: Problem, features: Vector | None = None, row: int | None = None) -> Pair:
    """One row of full length among empty ones: its label changes, or under add-remove it leaves the end.

    Weights before noise then depend on the place of that row alone, whatever the order of the others.
    """
    low, high, _ = extreme_labels(problem)
    along = np.eye(problem.n_features)[0] * problem.x_norm if features is None else features
    row = problem.n_rows - 1 if row is None else row
    X, y = np.zeros((problem.n_rows, problem.n_features)), np.full(problem.n_rows, high)
    y[::2] = low  # where rows have an intercept, their labels cancel
    X[row], y[row] = along, high
    other = y.copy()
    other[row] = low
    right = (X, other)
    if problem.neighbours is Neighbours.ADD_REMOVE:
        right = np.delete(X, row, axis=0), np.delete(y, row)
    return Pair(name="lone row", left=(X, y), right=right, row=row)


def opposing_pair(problem: Problem) -> Pair:
    """The lone row among others of the other label: they push its margin to where its gradient is longest.

    There the curvature of logistic loss vanishes, which is what its sharper profile rests on.
    """
    low, high, _ = extreme_labels(problem)
    X = np.zeros((problem.n_rows, problem.n_features))
    X[:, 0] = problem.x_norm
    y = np.full(problem.n_rows, low)
    other = y.copy()
    y[-1] = high
    right = (X, other) if problem.neighbours is Neighbours.REPLACE_ONE else (X[:-1], other[:-1])
    return Pair(name="opposing rows", left=(X, y), right=right, row=problem.n_rows - 1)


def opposite_pair(problem: Problem) -> Pair:
    """A lone row against its mirror image: first moments and gradients move together as far as they can."""
    alone = lone_pair(replace(problem, neighbours=Neighbours.REPLACE_ONE))
    X, y = alone.left
    mirrored = X.copy()
    mirrored[alone.row] = -X[alone.row]
    return replace(alone, name="mirrored row", right=(mirrored, y))


def sideways_pair(problem: Problem) -> Pair:
    """A lone row against one along the next axis: second moments of the columns move as far as they can."""
    alone = lone_pair(replace(problem, neighbours=Neighbours.REPLACE_ONE))
    X, y = alone.left
    turned = X.copy()
    turned[alone.row] = np.roll(X[alone.row], 1)
    return replace(alone, name="turned row", right=(turned, y))


@dataclass(frozen=True, eq=False)
class Seen:
    """What was published in many runs, one row each, in units of its noise; and the same before noise."""

    published: Matrix
    exact: Matrix


def observe(attack: Attack, plan: Plan, left: bool, runs: int, seed: np.random.SeedSequence) -> Seen:
    """Run the mechanism ``runs`` times, independently, on the left or the right table of the pair."""
    table = table_of(attack.problem, attack.pair.left if left else attack.pair.right)
    parts = []
    together = 1 if attack.system else attack.jobs
    for entropy, count in _sources(attack, plan, runs, seed):
        for first in range(0, count, together):
            jobs = [Job(plan=plan)] * min(together, count - first)
            gate = KeepingGate(entropy)
            outcomes = attack.mechanism.run(jobs, table, gate)
            parts.append(_seen(outcomes, gate.kept, attack.sees))
    width = max(part.published.shape[1] for part in parts)
    published, exact = (
        np.concatenate([_padded(getattr(part, name), width) for part in parts])
        for name in ("published", "exact")
    )
    shuffled = np.random.default_rng(seed.spawn(1)[0]).permutation(len(published))
    return Seen(published[shuffled], exact[shuffled])


def direction(left: Seen, right: Seen, sees: str) -> Vector:
    """How to weigh what was published: by how far the tables move it, over the covariance of its noise.

    Releases have independent noise of known scale. The covariance of weights has to be estimated; where it is
    singular, noise cancels along some direction, and that is the one to look along.
    """
    width = max(left.exact.shape[1], right.exact.shape[1])
    here, there = _padded(left.exact, width), _padded(right.exact, width)
    moved = np.asarray(here.mean(axis=0) - there.mean(axis=0))
    if sees == RELEASES:
        return moved
    covariance = np.atleast_2d(np.cov(here.T) + np.cov(there.T))
    floor = _SINGULAR * np.trace(covariance) + np.finfo(np.float64).tiny
    return np.asarray(np.linalg.solve(covariance + floor * np.eye(width), moved))


def scores(seen: Seen, weights: Vector) -> Vector:
    width = min(seen.published.shape[1], len(weights))
    return np.asarray(seen.published[:, :width] @ weights[:width])


def _sources(
    attack: Attack, plan: Plan, runs: int, seed: np.random.SeedSequence
) -> Iterator[tuple[Entropy, int]]:
    """Sources of randomness and how many runs each serves.

    Each hidden branch gets calls of its own, and how many runs it serves is drawn as a secret order would draw it.
    """
    if attack.system:
        yield SystemEntropy(), runs
        return
    n_rows, row = attack.problem.n_rows, attack.pair.row
    sizes = np.array(_secret_batches(plan))
    if len(sizes) == 1:
        yield _Placed(seed.spawn(1)[0], n_rows, row, row), runs
        return
    counts = np.random.default_rng(seed.spawn(1)[0]).multinomial(runs, sizes / sizes.sum())
    for place, count in zip(np.cumsum(sizes) - 1, counts, strict=True):
        if count > 0:
            yield _Placed(seed.spawn(1)[0], n_rows, row, int(place)), int(count)


def _secret_batches(plan: Plan) -> tuple[int, ...]:
    """Sizes of the batches among which a secret order hides a row; one batch where nothing is hidden."""
    return plan.secret_batches or (plan.problem.n_rows,)


def _seen(outcomes: list[Outcome], kept: dict[int, Release], sees: str) -> Seen:
    if sees == WEIGHTS:
        weights = np.array([outcome.weights.ravel() for outcome in outcomes])
        return Seen(weights, weights)
    published, exact = [], []
    for outcome in outcomes:
        mine = [kept[id(record)] for record in outcome.records if id(record) in kept]
        mine = [release for release in mine if not release.record.name.startswith(OBJECTIVE_NOISE)]
        published.append(np.concatenate([p.noisy / p.record.noise_scale for p in mine]))
        exact.append(np.concatenate([p.exact / p.record.noise_scale for p in mine]))
    return Seen(_stacked(published), _stacked(exact))


def _stacked(runs: list[Vector]) -> Matrix:
    width = max(map(len, runs))
    if min(map(len, runs)) == width:
        return np.array(runs)
    return np.array([_padded(run[None], width)[0] for run in runs])


def _padded(rows: Matrix, width: int) -> Matrix:
    """Runs that published less than others have zeros there: no evidence."""
    return np.pad(rows, ((0, 0), (0, width - rows.shape[1])))
