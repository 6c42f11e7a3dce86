"""What the tests of the gradient family share: tables, a gate to replay, and descent in plain NumPy."""

import importlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

from dperm.engine import Table
from dperm.losses import ClippedSquared, HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms.base import Job, Mechanism, Outcome
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, SeededEntropy
from dperm.problem import Problem

Array = NDArray[np.float64]
BUDGET = Budget(1.0, 1e-6)
N, P = 211, 4
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


def table_of(problem: Problem, X: Array, y: Array) -> Table:
    return Table(X, y, x_norm=problem.x_norm, intercept=problem.intercept, n_rows=problem.n_rows)


def run(
    mechanism: Mechanism, problem: Problem, X: Array, y: Array, budget: Budget = BUDGET, seed: int = 3
) -> Outcome:
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], table_of(problem, X, y), SeededEntropy(seed))
    return outcome


class Gate:
    """Stands in for the sampler: remembers what came, and lets through ``answer(passage, values)``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answer: Callable[[int, Array], Array]) -> None:
        self.values: list[Array] = []
        self.noises: list[Any] = []
        self.answer = answer
        monkeypatch.setattr(importlib.import_module("dperm.privacy.release"), "add_noise", self.pass_on)

    def pass_on(self, values: Array, noise: Any, entropy: Any) -> Array:
        assert values.shape == (noise.dimension,)
        self.values.append(values.copy())
        self.noises.append(noise)
        return self.answer(len(self.values) - 1, values).copy()


def without_noise(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch, lambda passage, values: values)


def replayed_distances(
    monkeypatch: pytest.MonkeyPatch,
    mechanism: Mechanism,
    problem: Problem,
    one: tuple[Array, Array],
    other: tuple[Array, Array],
    seed: int = 3,
) -> tuple[Array, Array]:
    """Distance at every passage when both tables see the same released numbers, and what was declared."""
    plan = mechanism.plan(problem, BUDGET)
    noise = np.random.default_rng(5).normal(size=(plan.releases + 1, problem.dimension))
    with monkeypatch.context() as patch:
        released: list[Array] = []

        def with_noise(passage: int, values: Array) -> Array:
            released.append(values + gate.noises[passage].scale * noise[passage])
            return released[-1]

        gate = Gate(patch, with_noise)
        run(mechanism, problem, *one, seed=seed)
        first = gate
        second = Gate(patch, lambda passage, values: released[passage])
        run(mechanism, problem, *other, seed=seed)
    assert len(first.values) == len(second.values) == plan.releases + mechanism.center
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
