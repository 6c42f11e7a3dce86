"""What the tests of objective perturbation share: problems, tables, and a plain NumPy view of the objective."""

import importlib

import numpy as np
from numpy.typing import NDArray

from dperm.engine import Table
from dperm.losses import HuberHinge, Logistic, Loss, Softmax
from dperm.mechanisms.base import Job, Mechanism, Outcome
from dperm.neighbours import Neighbours
from dperm.privacy import Budget, SeededEntropy
from dperm.problem import Problem

Array = NDArray[np.float64]
GATE = importlib.import_module("dperm.privacy.release")
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


def make_table(problem: Problem, X: Array, y: Array, mask: Array | None = None) -> Table:
    return Table(X, y, x_norm=problem.x_norm, intercept=problem.intercept, n_rows=problem.n_rows, mask=mask)


def fit(
    mechanism: Mechanism, problem: Problem, rows: tuple[Array, Array], budget: Budget = BUDGET
) -> Outcome:
    plan = mechanism.plan(problem, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], make_table(problem, *rows), SeededEntropy(1))
    return outcome


def gradient(problem: Problem, l2: float, rows: tuple[Array, Array], w: Array) -> Array:
    """Gradient of the sum without noise, the penalty included, at weights of shape (p,) or (p, C)."""
    X, y = rows
    Z = np.column_stack([X, np.full(len(X), problem.intercept)]) if problem.intercept else X
    return Z.T @ problem.loss.slope(Z @ w, y) + problem.n_rows * l2 * w


class Watch:
    """Notes what passes the gate; noise of chosen names is left out."""

    def __init__(self, monkeypatch, silent: tuple[str, ...] = ()) -> None:
        self.seen: list[tuple[str, Array, Array]] = []
        original = GATE.pass_gate

        def pass_gate(values, noise, entropy, name):
            noisy, record = original(values, noise, entropy, name)
            out = values if any(word in name for word in silent) else noisy
            self.seen.append((name, values.copy(), out.copy()))
            return out, record

        monkeypatch.setattr(GATE, "pass_gate", pass_gate)


ADD_REMOVE, REPLACE_ONE = Neighbours.ADD_REMOVE, Neighbours.REPLACE_ONE
