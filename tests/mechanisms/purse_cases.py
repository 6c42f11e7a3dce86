"""What the tests of the gradient mechanisms with several passages share: neighbours and plain arithmetic."""

import math

import numpy as np
from numpy.typing import NDArray
from output_cases import plain_rows, plain_slope, random_rows
from scipy.optimize import minimize_scalar
from scipy.stats import norm
from scripted_gate import ScriptedGate

from dperm.engine import open_rows
from dperm.losses import ClippedSquared, Linear, Logistic, Loss
from dperm.mechanisms import Job, Mechanism, Outcome
from dperm.privacy import Budget, Gate
from dperm.problem import Problem
from dperm.unit import Neighbours

Array = NDArray[np.float64]
BUDGET = Budget(1.0, 1e-6)
N, P = 97, 4


def problem(loss: Loss | None = None, **facts: object) -> Problem:
    defaults = {"l2": 0.02, "x_norm": 1.3, "n_rows": N, "n_features": P, "intercept": 0.7}
    return Problem(loss=loss or Logistic(), **{**defaults, **facts})  # type: ignore[arg-type]


def data(seed: int = 1) -> tuple[Array, Array]:
    """Rows as float32 numbers, so that storing them changes nothing."""
    X, y = random_rows(N, P, seed=seed)
    return X.astype(np.float32).astype(np.float64), y


def fit(
    mechanism: Mechanism,
    facts: Problem,
    X: Array,
    y: Array,
    budget: Budget = BUDGET,
    gate: Gate | None = None,
) -> Outcome:
    plan = mechanism.plan(facts, budget)
    (outcome,) = mechanism.run([Job(plan=plan)], open_rows(X, y, facts), gate or Gate.seeded(5))
    return outcome


def neighbours_of(facts: Problem, X: Array, y: Array) -> list[tuple[Array, Array]]:
    """The table with one row replaced: by its opposite, by a far one, by a flipped label; or emptied."""
    others = []
    for row in (0, N // 2, N - 1):
        if facts.neighbours is Neighbours.ADD_REMOVE:
            emptied = X.copy()
            others.append((np.delete(emptied, row, axis=0), np.delete(y, row)))
            continue
        for change in range(3):
            other_X, other_y = X.copy(), y.copy()
            if change == 0:
                other_y[row] = -y[row]
            else:
                other_X[row] = (-3 * X[row], 10 * np.eye(P)[row % P])[change - 1]
            others.append((other_X, other_y))
    return others


def used_shares(
    mechanism: Mechanism, facts: Problem, picks: list[int] | None = None
) -> tuple[list[float], list[float]]:
    """Movement over declared sensitivity at every passage, for neighbours on the same public trajectory.

    For choices: half the range of the movements of the scores, since a common shift does not matter.
    """
    X, y = data()
    here = ScriptedGate(strength=1.0, picks=picks)
    fit(mechanism, facts, X, y, gate=here)
    moved, ranged = [], []
    for other_X, other_y in neighbours_of(facts, X, y):
        there = ScriptedGate(replay=here)
        fit(mechanism, facts, other_X, other_y, gate=there)
        assert len(there.values) == len(here.values)
        assert len(there.scores) == len(here.scores)
        for one, two, noise in zip(here.values, there.values, here.noises, strict=True):
            moved.append(float(np.linalg.norm(one - two)) / noise.sensitivity)
        for one, two, choice in zip(here.scores, there.scores, here.choices, strict=True):
            ranged.append(float(np.ptp(one - two)) / 2 / choice.sensitivity)
    return moved, ranged


# Plain prices, written apart from the package.


def plain_gradient(facts: Problem, X: Array, y: Array, w: Array) -> Array:
    """Sum over all rows, without the regulariser."""
    rows = plain_rows(X, facts.x_norm, facts.intercept)
    return np.asarray(rows.T @ plain_slopes(facts.loss, rows @ w, y))


def plain_slopes(loss: Loss, margins: Array, y: Array) -> Array:
    if isinstance(loss, Linear):
        return -y
    if isinstance(loss, ClippedSquared):
        return np.clip(margins - y, -loss.residual_bound, loss.residual_bound)
    return plain_slope(loss, margins, y)


def plain_delta(mu: float, epsilon: float) -> float:
    return float(norm.cdf(-epsilon / mu + mu / 2) - math.exp(epsilon) * norm.cdf(-epsilon / mu - mu / 2))


def plain_zcdp_epsilon(rho: float, delta: float) -> float:
    """Canonne, Kamath and Steinke's conversion, minimised over the order."""

    def at(log_excess: float) -> float:
        a = 1 + math.exp(log_excess)
        return a * rho + math.log((a - 1) / a) - (math.log(delta) + math.log(a)) / (a - 1)

    return float(minimize_scalar(at, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10}).fun)
