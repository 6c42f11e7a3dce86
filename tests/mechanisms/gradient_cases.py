"""What the tests of the gradient family share: tables, a replay at the gate, and descent in plain NumPy."""

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm
from scripted_gate import ScriptedGate

from dperm.engine import open_rows
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms.base import Job, Mechanism, Outcome
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.problem import Problem
from dperm.unit import Neighbours

Array = NDArray[np.float64]
BUDGET = Budget(1.0, 1e-6)
N, P = 211, 4
LARGEST_SLOPES = {"logistic": 1.0, "huber-hinge": 1.0, "squared": 0.7, "softmax": math.sqrt(2)}
LOSSES: list[Loss] = [Logistic(), HuberHinge(0.5), ClippedSquared(0.7), Softmax(3)]

each_loss = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
each_relation = pytest.mark.parametrize("neighbours", list(Neighbours), ids=lambda n: n.value)


def facts(loss: Loss, **changes: Any) -> Problem:
    defaults = {"l2": 0.02, "x_norm": 1.0, "n_rows": N, "n_features": P, "intercept": 0.5}
    return Problem(loss=loss, **{**defaults, **changes})


def rows_of(loss: Loss, n: int = N, seed: int = 0) -> tuple[Array, Array]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, P)) * rng.uniform(0.1, 1.2, size=(n, 1))
    X = X.astype(np.float32).astype(np.float64)
    if loss.labels == "classes":
        return X, rng.integers(loss.outputs, size=n).astype(float)
    if loss.labels == "real":
        return X, rng.normal(size=n)
    return X, np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)


def run(
    mechanism: Mechanism,
    problem: Problem,
    X: Array,
    y: Array,
    budget: Budget = BUDGET,
    seed: int = 3,
    gate: Gate | None = None,
) -> Outcome:
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, problem), gate or Gate.seeded(seed))
    return outcome


def replayed_distances(
    mechanism: Mechanism,
    problem: Problem,
    one: tuple[Array, Array],
    other: tuple[Array, Array],
    seed: int = 3,
) -> tuple[Array, Array]:
    """Distance at every passage when both tables see the same released numbers, and what was declared."""
    plan = mechanism.plan(problem, BUDGET)
    first = ScriptedGate(SeededEntropy(seed), strength=1.0)
    second = ScriptedGate(SeededEntropy(seed), replay=first)
    for gate, (X, y) in ((first, one), (second, other)):
        run(mechanism, problem, X, y, gate=gate)
    assert len(first.values) == len(second.values) == plan.releases + 2 * (plan.standardisation is not None)
    distance = [np.linalg.norm(a - b) for a, b in zip(first.values, second.values, strict=True)]
    assert [a.sensitivity for a in first.noises] == [b.sensitivity for b in second.noises]
    return np.array(distance), np.array([noise.sensitivity for noise in first.noises])


def neighbour(problem: Problem, X: Array, y: Array, row: int) -> tuple[Array, Array]:
    """Another row and label at one place; under add-remove the row is gone."""
    if problem.neighbours is Neighbours.ADD_REMOVE:
        return np.delete(X, row, axis=0), np.delete(y, row)
    changed, labels = X.copy(), y.copy()
    changed[row] = -3 * X[row]
    if problem.loss.labels == "binary":
        changed[row], labels[row] = 3 * X[row], -y[row]
    elif problem.loss.labels == "classes":
        labels[row] = (y[row] + 1) % problem.loss.outputs
    return changed, labels


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The textbook formula, apart from the package."""
    return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


# Plain NumPy, written apart from the package.


def clip_by_rule(problem: Problem) -> float:
    """Half of the longest gradient that a row can have, for numbers 0.35 of it."""
    longest = LARGEST_SLOPES[problem.loss.name] * math.hypot(problem.x_norm, problem.intercept)
    return (0.35 if problem.loss.labels == "real" else 0.5) * longest


def plain_rows(problem: Problem, X: Array) -> Array:
    norms = np.linalg.norm(X, axis=1)
    bounded = (X * np.minimum(1, problem.x_norm / norms)[:, None]).astype(np.float32).astype(np.float64)
    full = np.column_stack([bounded, np.full(len(X), np.float32(problem.intercept))])
    return np.vstack([full, np.zeros((problem.n_rows - len(X), full.shape[1]))])


def plain_gradients(loss: Loss, Z: Array, y: Array, w: Array) -> Array:
    """One gradient per row, shaped (n, p) or (n, p, C)."""
    m = Z @ w
    if loss.name == "softmax":
        e = np.exp(m - m.max(axis=1, keepdims=True))
        s = e / e.sum(axis=1, keepdims=True) - np.eye(m.shape[1])[y.astype(int)]
        return Z[:, :, None] * s[:, None, :]
    if loss.name == "logistic":
        s = -y / (1 + np.exp(y * m))
    elif loss.name == "squared":
        s = np.clip(m - y, -0.7, 0.7)
    else:
        s = np.where(y * m > 1.5, 0.0, np.where(y * m < 0.5, -1.0, -(1.5 - y * m))) * y
    return Z * s[:, None]


def plain_descent(
    problem: Problem,
    X: Array,
    y: Array,
    batches: list[NDArray[np.int64]],
    *,
    step_sizes: Array,
    divisor: float,
    l2: float,
    momentum: float,
    tail: int,
    clip: float | None,
    radius: float = math.inf,
) -> Array:
    Z, labels = plain_rows(problem, X), np.append(y, np.ones(problem.n_rows - len(y)))
    C = problem.loss.outputs
    w = np.zeros(Z.shape[1]) if C == 1 else np.zeros((Z.shape[1], C))
    v, iterates = np.zeros_like(w), []
    for batch, step in zip(batches, step_sizes, strict=True):
        total = np.zeros_like(w)
        for g in plain_gradients(problem.loss, Z[batch], labels[batch], w):
            size = np.linalg.norm(g)
            total += g if clip is None or size <= clip else g * clip / size
        v = momentum * v + total / divisor + l2 * w
        w = w - step * v
        size = np.linalg.norm(w)
        w = w * radius / size if size > radius else w
        iterates.append(w)
    return np.mean(iterates[-tail:], axis=0)
