"""What the tests of the output-perturbation family share: settings, tables and plain NumPy training."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dperm.arithmetic import Arithmetic
from dperm.engine import open_rows
from dperm.losses import HuberHinge, Logistic, Loss, SoftClippedLogistic
from dperm.mechanisms import NSGD, RSGD, RSGDAR, BoltOn, Mechanism, OutputGD
from dperm.mechanisms.base import certified
from dperm.mechanisms.output.bolt_on import RULES
from dperm.mechanisms.output.family import DescentMechanism
from dperm.planning.schedule import default_step
from dperm.privacy import Budget, Gate, SeededEntropy
from dperm.problem import Problem
from dperm.unit import Neighbours

Array = NDArray[np.float64]
Clip = float | str | None
BUDGET = Budget(1.0, 1e-8)


class FixedOrder(SeededEntropy):
    """Entropy with a chosen order, so that neighbours can be trained under the same one."""

    def __init__(self, order: Sequence[int] | NDArray[np.int64]) -> None:
        super().__init__(0)
        self.order = np.asarray(order, dtype=np.int64)
        self.asked: list[int] = []

    def permutation(self, n: int) -> NDArray[np.int64]:
        self.asked.append(n)
        assert n == len(self.order)
        return self.order


def descents(n_rows: int, step: float | None, clip: Clip = None) -> list[DescentMechanism]:
    """Every descent mechanism, with batches that n_rows = 103 does not divide and odd lengths."""
    b = -(-n_rows // 10)
    both = {"step_size": step, "standardise": False, "clip": clip}
    fixed = {"batch_size": b, **both}
    averaged = [
        RSGDAR(epochs=epochs, average_every=every, **fixed) for epochs in (5, 7, 12) for every in (3, 4, 5)
    ]
    plain = [kind(epochs=epochs, **fixed) for kind in (RSGD, NSGD) for epochs in (5, 7, 12)]
    full = [OutputGD(iterations=epochs, **both) for epochs in (5, 12)]
    bolt_on = [
        BoltOn(passes=5, rule=rule, **fixed | {"step_size": step if rule.endswith("constant") else None})
        for rule in RULES
    ]
    return [*averaged, *plain, *full, *bolt_on]


def stepped(mechanism: DescentMechanism, problem: Problem) -> DescentMechanism:
    """With the step size filled in where ``planning/excess.py`` would choose it."""
    if mechanism.settings["step_size"] is not None:
        return mechanism
    if isinstance(mechanism, BoltOn):
        open_step = mechanism.rule == "convex-constant"
        return replace(mechanism, step_size=1 / problem.smoothness) if open_step else mechanism
    return replace(mechanism, step_size=default_step(problem))  # type: ignore[call-arg]


def trained(mechanism: Mechanism, problem: Problem) -> Problem:
    """The problem of the plan: by a clip the loss is another one, and nothing else is."""
    found = mechanism.plan(problem, BUDGET).problem
    clip = mechanism.settings.get("clip")
    if clip is None or problem.loss != Logistic():
        assert found == problem
        return found
    assert isinstance(found.loss, SoftClippedLogistic)
    assert found.loss.clip == clip or (clip == "auto" and 0.35 <= found.loss.clip <= 0.5)
    assert replace(found, loss=problem.loss) == problem
    return found


def short(mechanism: Mechanism) -> str:
    changed = {name: value for name, value in mechanism.settings.items() if name != "accounting"}
    return mechanism.name + "-" + "-".join(f"{value}" for value in changed.values())


def positions_of_batches(mechanism: DescentMechanism, problem: Problem) -> list[int]:
    """One position inside every batch, first, last and middle in turn."""
    sizes = mechanism.schedule(problem).batch_sizes
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    inside = [(0, size - 1, size // 2)[j % 3] for j, size in enumerate(sizes)]
    return [int(start + offset) for start, offset in zip(starts, inside, strict=True)]


def train(
    mechanism: Mechanism,
    problem: Problem,
    X: Array,
    y: Array,
    order: NDArray[np.int64],
    storage: type = np.float32,
) -> Array:
    """The point before noise, by the mechanism's own training, precise enough for its plan."""
    used: set[Arithmetic] = set()
    rows = open_rows(X.astype(storage), y, problem).noting(used)
    plan = mechanism.plan(problem, BUDGET)
    points = mechanism._train([plan], rows, Gate(FixedOrder(order)))  # type: ignore[attr-defined]
    assert certified(plan, used)
    return np.asarray(points[:, 0])


def random_rows(n: int, p: int, seed: int, spread: float = 1.0) -> tuple[Array, Array]:
    """Rows of all lengths, some above norm 1, with labels that depend on them."""
    rng = np.random.default_rng(seed)
    X = spread * rng.normal(size=(n, p)) * rng.uniform(0.1, 1.5, size=(n, 1))
    y = np.where(X @ rng.normal(size=p) + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y


# Plain NumPy, written apart from the package: own bounding, intercept, batches, steps and averages.


def plain_rows(X: Array, x_norm: float, intercept: float) -> Array:
    norms = np.sqrt((X.astype(np.float64) ** 2).sum(axis=1))
    bounded = X * np.minimum(1, x_norm / np.maximum(norms, 1e-300))[:, None]
    return np.column_stack([bounded, np.full(len(X), intercept)]) if intercept else bounded


def plain_slope(loss: Loss, margin: Array, y: Array) -> Array:
    """In the precision of the margin."""
    z = y * margin
    if isinstance(loss, Logistic):
        return -y / (1 + np.exp(z))
    wide = z.dtype.type
    if isinstance(loss, SoftClippedLogistic):
        clip, end = wide(loss.clip), wide(loss.knee) * wide(loss.clip)
        knot, rate = np.log(1 / end - 1), end * (1 - end) / (clip - end)
        below = clip - (clip - end) * np.exp(rate * np.minimum(z - knot, 0))
        return -y * np.where(z < knot, below, 1 / (1 + np.exp(z)))
    assert isinstance(loss, HuberHinge)
    h = wide(loss.width)
    return -y * np.where(z > 1 + h, 0, np.where(z < 1 - h, 1, (1 + h - z) / (2 * h)))


def plain_curvature(loss: Loss) -> float:
    if isinstance(loss, SoftClippedLogistic):
        end = loss.knee * loss.clip
        assert end < 0.5
        return end * (1 - end)
    return (
        0.25 if isinstance(loss, Logistic) else 1 / (2 * loss.width) if isinstance(loss, HuberHinge) else 0.0
    )


def plain_batches(n: int, batch_size: int) -> list[range]:
    count = math.ceil(n / batch_size)
    sizes = [n // count + (1 if k < n % count else 0) for k in range(count)]
    starts = [sum(sizes[:k]) for k in range(count)]
    return [range(start, start + size) for start, size in zip(starts, sizes, strict=True)]


def plain_descent(
    mechanism: Mechanism, problem: Problem, X: Array, y: Array, order: NDArray[np.int64]
) -> Array:
    """What the mechanism's paper prescribes, without noise."""
    bounded = plain_rows(X, problem.x_norm, problem.intercept)
    empty = problem.n_rows - len(X)  # under add-remove: zero rows, the intercept too
    rows, y = np.vstack([bounded, np.zeros((empty, bounded.shape[1]))]), np.append(y, np.ones(empty))
    secret = mechanism.name in ("rsgd-ar", "rsgd", "bolt-on")
    rows, labels = (rows[order], y[order]) if secret else (rows, y)
    squared_norm = problem.x_norm**2 + problem.intercept**2
    L, l2, n = plain_curvature(problem.loss) * squared_norm + problem.l2, problem.l2, problem.n_rows
    full = isinstance(mechanism, OutputGD)
    batches = plain_batches(n, n if full else mechanism.batch_size)  # type: ignore[attr-defined]
    epochs = {"output-gd": "iterations", "bolt-on": "passes"}.get(mechanism.name, "epochs")
    first = mechanism.settings["step_size"] or 1 / L
    w, iterates, t, since_restart = np.zeros(rows.shape[1]), [], 0, 0
    for epoch in range(1, int(mechanism.settings[epochs]) + 1):  # type: ignore[call-overload]
        since_restart += 1
        for batch in batches:
            t += 1
            step = {
                "rsgd-ar": first / since_restart,
                "rsgd": first / epoch,
                "nsgd": first / epoch,
                "output-gd": first,
            }.get(mechanism.name, 0.0)
            if isinstance(mechanism, BoltOn):
                step = {
                    "convex-constant": first,
                    "strong-constant": first,
                    "convex-decreasing": 2 / (L * (t + n**mechanism.exponent)),
                    "convex-sqrt": 2 / (L * (math.sqrt(t) + n**mechanism.exponent)),
                    "strong-decreasing": min(1 / L, 1 / (l2 * t)) if l2 else math.nan,
                }[mechanism.rule]
            gradient = np.zeros_like(w)
            for i in batch:
                gradient += plain_slope(problem.loss, rows[i] @ w, labels[i]) * rows[i]
            w = w - step * (gradient / len(batch) + l2 * w)
            iterates.append(w)
        if mechanism.name == "rsgd-ar" and epoch % mechanism.average_every == 0:  # type: ignore[attr-defined]
            w = np.mean(iterates, axis=0)
            iterates, since_restart = [], 0
    return w


def add_remove(problem: Problem) -> Problem:
    return replace(problem, neighbours=Neighbours.ADD_REMOVE)
