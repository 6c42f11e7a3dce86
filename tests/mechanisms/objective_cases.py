"""What the tests of objective perturbation share: problems, tables, and a plain NumPy view of the objective."""

import numpy as np
from numpy.typing import NDArray

from dperm.engine import open_rows
from dperm.losses import HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms.base import Job, Mechanism, Outcome
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.problem import Problem
from dperm.unit import Neighbours
from dperm_audit.gates import KeepingGate, Release

Array = NDArray[np.float64]
N, P = 400, 4
BUDGET = Budget(1.0, 1e-6)
LOSSES: list[Loss] = [Logistic(), HuberHinge(0.1)]


def make_problem(loss: Loss | None = None, **facts: object) -> Problem:
    defaults = {"l2": 0.01, "x_norm": 1.0, "n_rows": N, "n_features": P, "intercept": 0.3}
    return Problem(loss=loss or Logistic(), **{**defaults, **facts})  # type: ignore[arg-type]


def make_rows(problem: Problem, seed: int = 0) -> tuple[Array, Array]:
    """Bounded rows, some shorter than the bound, and labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(problem.n_rows, problem.n_features))
    X *= problem.x_norm * rng.uniform(0.2, 0.999, size=(len(X), 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    margins = X @ rng.normal(size=(problem.n_features, problem.loss.outputs))
    if isinstance(problem.loss, Softmax):
        return X, margins.argmax(axis=1).astype(float)
    return X, np.where(margins[:, 0] + 0.3 * rng.normal(size=len(X)) > 0, 1.0, -1.0)


def fit(
    mechanism: Mechanism,
    problem: Problem,
    rows: tuple[Array, Array],
    budget: Budget = BUDGET,
    gate: Gate | None = None,
) -> Outcome:
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(*rows, problem), gate or Gate.seeded(1))
    return outcome


def watching(seed: int = 1) -> KeepingGate:
    return KeepingGate(SeededEntropy(seed))


def passages(gate: KeepingGate) -> list[Release]:
    """What passed, in order: the record, the value before noise, and after."""
    return list(gate.kept.values())


def gradient(problem: Problem, l2: float, rows: tuple[Array, Array], w: Array) -> Array:
    """Gradient of the sum without noise, the penalty included, at weights of shape (p,) or (p, C)."""
    X, y = rows
    Z = np.column_stack([X, np.full(len(X), problem.intercept)]) if problem.intercept else X
    return Z.T @ problem.loss.slope(Z @ w, y) + problem.n_rows * l2 * w


ADD_REMOVE, REPLACE_ONE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
